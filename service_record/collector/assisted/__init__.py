"""The rules of an assisted-service, as far as a boot reporter meets them. Pure."""

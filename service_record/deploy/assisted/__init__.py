"""The hosts of a cluster, prepared through the assisted-service that installs them."""

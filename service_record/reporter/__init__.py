"""The boot reporter: reports a host's progress and verdict to the assisted-service, and ships bundles."""

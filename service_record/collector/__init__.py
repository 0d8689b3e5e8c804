"""Takes what many hosts say of their provisioning; tells who progresses, is stuck, loops or has failed."""

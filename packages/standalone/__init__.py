"""The whole command as one executable, for hosts without Python: `make standalone`."""

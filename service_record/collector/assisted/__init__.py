"""Act as the assisted-service: its calls, its states of hosts and clusters, and their pages."""

"""The web pages: rendered on the server, usable without script, and updated by server-sent events."""

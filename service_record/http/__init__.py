"""What all requests over HTTP have in common."""

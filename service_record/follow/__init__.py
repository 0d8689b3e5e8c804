"""Records as they grow."""

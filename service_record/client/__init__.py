"""A collector as a host or a desk sees it: its address, questions to it, and records sent to it."""

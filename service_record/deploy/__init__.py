"""Onto a host: what is delivered, and how it is put there and removed."""

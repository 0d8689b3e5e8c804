"""The version and its day, in a module that costs nothing to import."""

__version__ = "0.2.0"
RELEASED = "2026-11-25"
"""The date of the man pages: the same for everybody who makes them."""

"""Gather evidence about a host into a bundle; docs/gathering.md lists it."""

"""Checks before a host is installed: rules with their words (pure), and probes that measure."""

"""Shared by tests, bench, demo, examples: a machine with its own systemd, lines of logs, made-up secrets."""

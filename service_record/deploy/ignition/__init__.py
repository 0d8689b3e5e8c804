"""Ignition configs: check them, make ours, and merge it into another."""

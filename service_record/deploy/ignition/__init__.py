"""Ignition configs: what they may say, one of our own, and one merged into somebody else's."""

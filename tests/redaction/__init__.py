"""Measures the redaction: kinds of secrets by wrappings, properties, false positives."""

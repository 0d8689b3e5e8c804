"""Gathering of evidence about a host into a bundle; docs/boot-reporter.md lists it."""

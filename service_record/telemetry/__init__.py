"""Traces sent to any backend that speaks OTLP over HTTP."""

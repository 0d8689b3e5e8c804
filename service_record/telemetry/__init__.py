"""Send traces to a backend by OTLP over HTTP."""

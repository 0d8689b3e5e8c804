"""The one HTTP client, with deadlines, retries, proxies and trust, and the client of a collector."""

"""The one HTTP client: deadlines, retries, proxies, trust and bounded answers."""

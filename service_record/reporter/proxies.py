"""Which proxy a request goes through, by the rules of Go's clients, as the agents on the same hosts obey
them. Pure.
"""

import ipaddress
from urllib.parse import urlsplit

from service_record.reporter.settings import Proxies

_PORTS = {"http": 80, "https": 443}


def proxy_for(url: str, proxies: Proxies) -> str | None:
    """The URL of the proxy for a request to this URL, None when it goes directly. ValueError: a bad URL."""
    parts = urlsplit(url)
    proxy = proxies.https if parts.scheme == "https" else proxies.http
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    if not proxy or _is_loopback(host) or any(_names(entry, host, port) for entry in proxies.no_proxy):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _names(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY names the host: `*`, `10.0.0.0/8`, `::1`, `example.com`,
    `.example.com:8080`.
    """
    entry, host = entry.strip().lower(), host.lower().rstrip(".")
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry.strip("[]")) is None and entry.rpartition(":")[2].isdigit():
        entry, _, wanted = entry.rpartition(":")
        if int(wanted) != port:
            return False
    entry = entry.strip("[]")
    if address is not None:
        return address == _address(entry)
    # `example.com` means the domain and all below it, `.example.com` and `*.example.com` only what is below.
    below = "." + entry.removeprefix("*").removeprefix(".")
    return bool(entry) and (host.endswith(below) or host == entry)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

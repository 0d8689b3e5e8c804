"""URLs, and which proxy a request goes through, by the rules of Go's clients. Pure.

The agents on the same hosts obey these rules.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

_PORTS: Final = {"http": 80, "https": 443}


def split_url(url: str, schemes: Collection[str] = ("http", "https")) -> SplitResult | None:
    """Return the parts of a URL with one of these schemes and a host; None if it is not such a URL."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and not any(map(str.isspace, parts.hostname or ""))
        is_good = parts.scheme in schemes and has_host and parts.port != 0
    except ValueError:
        return None
    return parts if is_good else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """As in the variables of these names. Their URLs may hold passwords."""

    http: str | None = field(default=None, repr=False)
    https: str | None = field(default=None, repr=False)
    no_proxy: tuple[str, ...] = ()


def read_proxies(environ: Mapping[str, str]) -> Proxies:
    """Return the proxies that the environment names, as other programs read it."""

    def first(name: str) -> str:
        return environ.get(name.upper()) or environ.get(name) or ""

    no_proxy = tuple(filter(None, map(str.strip, first("no_proxy").split(","))))
    return Proxies(http=first("http_proxy") or None, https=first("https_proxy") or None, no_proxy=no_proxy)


def proxy_for(url: str, proxies: Proxies) -> str | None:
    """Return the URL of the proxy for a request to this URL, None when it goes directly.

    ValueError: a bad URL.
    """
    parts = urlsplit(url)
    proxy = proxies.https if parts.scheme == "https" else proxies.http
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    if not proxy or is_loopback(host) or any(_names(entry, host, port) for entry in proxies.no_proxy):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is that of this machine to itself."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _names(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY names the host: `*`, `10.0.0.0/8`, `::1`, `example.com`,
    `.example.com:8080`.
    """
    entry, host = entry.strip().lower(), host.lower().rstrip(".")
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry.strip("[]")) is None and entry.rpartition(":")[2].isdigit():
        entry, _, wanted_port = entry.rpartition(":")
        if int(wanted_port) != port:
            return False
    entry = entry.strip("[]")
    if address is not None:
        return address == _address(entry)
    # `example.com` means the domain and all below it, `.example.com` and `*.example.com` only what is below.
    below = "." + entry.removeprefix("*").removeprefix(".")
    return bool(entry) and (host.endswith(below) or host == entry)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None

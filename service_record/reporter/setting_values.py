"""What a setting may hold: each kind of value read from TOML or from a text of the environment.

Each reader gives the value, or raises ValueError with what it has to be. No reader repeats a value that may
hold a password.
"""
# ruff: noqa: TRY004  # a setting of another type is as bad a value as any

import re
from math import inf
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import SplitResult

from service_record.http.proxies import split_url
from service_record.record.quantities import parse_duration, parse_size

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_QUOTED: Final = 80
_SPACE: Final = re.compile(r"[\x00-\x20\x7f]")

COLLECTOR: Final = "collector+"
"""The prefix of http:// or https:// in the URL of a collector."""


def quoted(value: object) -> str:
    """Return a value that may be shown, as a person finds it again in a file."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits, or nested too deeply
        return "what stands there"
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('it is a text in quotes, like "this"')
    return value.strip()


def uuid(value: object) -> str:
    """Return an id of the assisted-service, in lower case."""
    if not isinstance(value, str) or not _UUID.fullmatch(value.strip()):
        raise ValueError(
            f"{quoted(value)} is not a valid id; use one like 01234567-89ab-cdef-0123-456789abcdef"
        )
    return value.strip().lower()


def switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{quoted(value)} is neither true nor false")
    return value


def whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{quoted(value)} is not a whole number")
    return value


def seconds(value: object) -> float:
    """Return a duration: a number of seconds, or a text like 90s, 10m, 1h30m."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{quoted(value)} is not a valid duration; use one like 90s, 10m, 1h30m")
    try:
        return float(value)
    except OverflowError:
        return inf


def minutes(value: object) -> float:
    """Return a duration in minutes, in the texts that upstream's environment has."""
    try:
        return float(text(value)) * 60
    except ValueError:
        raise ValueError(f"{quoted(value)} is not a number of minutes") from None


def size(value: object) -> int:
    """Return a number of bytes, or a text like 12 MiB; K, M and G are powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{quoted(value)} is not a valid size; use 65536, 512 KiB, 12M or 1G")
    return parse_size(value)


def texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError('it is a list of texts, like ["this", "that"]')
    return tuple(text(item) for item in value)


def hosts(value: object) -> tuple[str, ...]:
    """Return a list of texts, or one text with commas between them."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return texts(value)


def path(value: object) -> Path:
    result = text(value)
    if not result.startswith("/") or ".." in PurePosixPath(result).parts or "\0" in result:
        raise ValueError(f"{quoted(result)} is not an absolute path without `..`")
    return Path(result)


def paths(value: object) -> tuple[Path, ...]:
    return tuple(path(item) for item in texts(value))


def service_url(value: object) -> str:
    """Return where the assisted-service is, without a slash at the end."""
    url = _http(text(value))
    if url.username is not None or url.query or url.fragment:
        raise ValueError("an address of a service has no user, no `?` and no `#`")
    return url.geturl().rstrip("/")


def proxy_url(value: object) -> str:
    """Return a proxy as Go and curl take it: a URL, or a host and port. The password in it is never told."""
    url = text(value)
    return _http(url if "://" in url else f"http://{url}", ("http", "https")).geturl()


def destination(value: object) -> str:
    """Return where bundles go: a directory, a URL to PUT them to, or a collector."""
    place = text(value)
    if place.startswith("/"):
        return str(path(place))
    _http(place.removeprefix(COLLECTOR))
    return place


def destinations(value: object) -> tuple[str, ...]:
    return tuple(destination(item) for item in texts(value))


def collectors(value: object) -> tuple[str, ...]:
    """Return where records go as they are written: collectors, each with or without its name for
    this host.
    """
    urls = tuple(map(text, texts(value)))
    for item in urls:
        if not item.startswith(COLLECTOR):
            raise ValueError(
                f"{quoted(item)} is not a collector; use a URL like {COLLECTOR}https://host.example/NAME"
            )
        _http(item.removeprefix(COLLECTOR))
    return urls


def _http(url: str, schemes: tuple[str, ...] = ("http", "https")) -> SplitResult:
    hint = "it is like https://host.example:8443"
    if _SPACE.search(url):
        raise ValueError(f"a URL has no blank in it; {hint}")
    parts = split_url(url, schemes)
    if parts is None:
        raise ValueError(f"not a URL of {' or '.join(schemes)} with a host; {hint}")
    return parts

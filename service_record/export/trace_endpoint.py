"""Parse the address of a trace backend and its headers file.

The address is `otlp+https://HOST[:PORT][/PATH]`; the protocol's path `/v1/traces` is added.
"""

import re
from pathlib import Path
from typing import Final

from service_record.http.address import CollectorError
from service_record.http.proxies import split_url

_PATH: Final = "/v1/traces"
_SCHEMES: Final = {"otlp+https": "https", "otlp+http": "http"}
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)")
_OURS: Final = frozenset(("content-type", "content-encoding", "content-length", "host", "transfer-encoding"))


def is_otlp(place: str) -> bool:
    """Return whether a destination is the address of a trace backend."""
    return place.startswith(tuple(f"{scheme}://" for scheme in _SCHEMES))


def traces_url(place: str) -> str:
    """Return the URL to post traces to. Raises CollectorError."""
    parts = split_url(place, _SCHEMES)
    is_plain = parts is not None and parts.username is None and not parts.query and not parts.fragment
    if parts is None or not is_plain or not _is_host(parts.hostname or ""):
        raise CollectorError(
            f"{place}: not a valid address; use otlp+https://HOST[:PORT][/PATH] or otlp+http://..."
        )
    path = parts.path.rstrip("/")
    return f"{_SCHEMES[parts.scheme]}://{parts.netloc}{path if path.endswith(_PATH) else path + _PATH}"


def _is_host(name: str) -> bool:
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def read_headers(file: Path) -> dict[str, str]:
    """Return the headers in a file with `Name: value` on each line. Raises CollectorError.

    Errors never contain a value, because it may be a secret.
    """
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise CollectorError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CollectorError(f"{file}: not ASCII; write headers without other characters") from None
    headers: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _HEADER.fullmatch(text)
        if match is None:
            raise CollectorError(
                f"{file}: line {number} is not a header; write it like 'Authorization: Bearer TOKEN'"
            )
        if match[1].lower() in _OURS:
            raise CollectorError(f"{file}: line {number}: {match[1]} cannot be set; remove the line")
        headers[match[1]] = match[2]
    return headers

"""A collector's address and the token for it, from arguments, environment and files.

`collector://HOST[:PORT]/NAME` names a host that a collector knows; without `/NAME` it names the collector.
Connections use TLS, except to this machine and with `collector+http://`.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from service_record.http.proxies import is_loopback, split_url

URL_VARIABLE: Final = "SERVICE_RECORD_COLLECTOR"
"""Environment variable with the URL of the collector, the default where none is given."""
TOKEN_VARIABLE: Final = "SERVICE_RECORD_TOKEN_FILE"  # noqa: S105  # the path of the file, not the token
CA_VARIABLE: Final = "SERVICE_RECORD_CA_BUNDLE"
CREDENTIAL: Final = "collector-token"
"""The name of systemd's credential, and of the file in a person's configuration."""
PORT: Final = 8474
"""The collector's default port; a web server in front of it listens on the port of https."""

HOST_RULE: Final = "a host's name has letters, digits and . _ : - only, at most 253"
HOST_PATTERN: Final = "[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?"
_HOST_NAME: Final = re.compile(HOST_PATTERN)

_SCHEMES: Final = {
    "collector": "",
    "collector+https": "https",
    "collector+http": "http",
    "https": "https",
    "http": "http",
}


class CollectorError(Exception):
    """An error of a collector, in one line. `status` is the HTTP status, None without an answer."""

    def __init__(self, reason: str, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(reason)
        self.status = status
        self.body = body


class NotTaken(Exception):  # noqa: N818  # an outcome, not an error of this program
    """A refusal of the server. With `is_final`, the same request would be refused again.

    `retry_after` is the time in seconds after which the server wants to be asked again, if it says so.
    """

    def __init__(self, reason: str, *, is_final: bool, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.is_final = is_final
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Address:
    """A collector, and optionally a host of it."""

    url: str
    """`https://HOST:PORT`, with the base path, if any."""
    host: str = ""


def is_host_name(name: str) -> bool:
    """Return True if a collector accepts this as the name of a host."""
    return _HOST_NAME.fullmatch(name) is not None


def is_collector(place: str) -> bool:
    """Return True if the text is the address of a collector to read from."""
    return place.startswith(("collector://", "collector+http://", "collector+https://"))


def parse_address(place: str) -> Address:
    """Parse a `collector://` or, for the collector alone, an `http(s)://`. Raises CollectorError."""
    parts = split_url(place, _SCHEMES)
    if parts is None or parts.username or parts.query or parts.fragment:
        raise CollectorError(
            f"{place}: not a valid address; use collector://HOST[:PORT]/NAME, collector+http://... or https://..."
        )
    name, port = parts.hostname or "", parts.port
    scheme = _SCHEMES[parts.scheme] or ("http" if is_loopback(name) else "https")
    if port is None and parts.scheme.startswith("collector"):
        port = PORT
    path, _, host = (parts.path, "", "") if parts.scheme.startswith("http") else parts.path.rpartition("/")
    host_text = f"[{name}]" if ":" in name else name
    return Address(f"{scheme}://{host_text}{f':{port}' if port else ''}{path.rstrip('/')}", unquote(host))


def environment_path(variable: str) -> Path | None:
    """Return the file that an environment variable names, if any."""
    named = os.environ.get(variable)
    return Path(named) if named else None


def read_token(file: Path | None = None) -> str:
    """Return the token in that file, or else in the first usual place that exists.

    Raises CollectorError.
    """
    named = file or environment_path(TOKEN_VARIABLE)
    places = [named] if named else _usual_places()
    for path in places:
        try:
            token = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if path is named:
                raise CollectorError(f"{path}: no such file; write the token into it") from None
            continue
        except (OSError, UnicodeDecodeError) as error:
            reason = (
                error.strerror if isinstance(error, OSError) else "not text; write the token alone into it"
            )
            raise CollectorError(f"{path}: {reason}") from None
        if token.isprintable() and " " not in token and token:
            return token
        raise CollectorError(f"{path}: no valid token in it; write the token alone into it")
    looked = ", ".join(map(str, places))
    raise CollectorError(f"no token: write it to a file that {TOKEN_VARIABLE} names, or to {looked}")


def _usual_places() -> list[Path]:
    directory = os.environ.get("CREDENTIALS_DIRECTORY", "")
    configuration = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return [
        *([Path(directory) / CREDENTIAL] if directory else []),
        Path(configuration) / "service-record" / CREDENTIAL,
        Path("/etc/service-record") / CREDENTIAL,
    ]

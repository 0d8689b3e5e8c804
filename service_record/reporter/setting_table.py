"""The table of settings, with the type, the bounds and the environment variables of each.

The functions above the table parse values of TOML or of environment variables. Each returns the value, or
raises ValueError with a message that says what is valid. No message repeats a value that may hold a password.
"""
# ruff: noqa: TRY004  # ValueError for a wrong type, too: callers turn it into a line for people

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import SplitResult

from service_record.http.proxies import split_url
from service_record.record.quantities import parse_duration, parse_size

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_MAX_QUOTED_CHARACTERS: Final = 80
_SPACE: Final = re.compile(r"[\x00-\x20\x7f]")

COLLECTOR: Final = "collector+"
"""The prefix of a collector's URL, as in `collector+https://HOST`."""


def quoted(value: object) -> str:
    """Return the value as in the file, shortened to 80 characters. Only for values that are no secret."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits, or nested too deeply
        return "what stands there"
    return text if len(text) <= _MAX_QUOTED_CHARACTERS else f"{text[:_MAX_QUOTED_CHARACTERS]}…"


def text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('not a text; write it in quotes, like "this"')
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
        raise ValueError(f"{quoted(value)} is neither true nor false; write one of them, without quotes")
    return value


def whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{quoted(value)} is not a whole number; write one like 10, without quotes")
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
        raise ValueError(f"{quoted(value)} is not a number of minutes; write one like 10") from None


def size(value: object) -> int:
    """Return a number of bytes, or a text like 12 MiB; K, M and G are powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{quoted(value)} is not a valid size; use 65536, 512 KiB, 12M or 1G")
    return parse_size(value)


def texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError('not a list of texts; write it like ["this", "that"]')
    return tuple(text(item) for item in value)


def hosts(value: object) -> tuple[str, ...]:
    """Return a list of texts, or one text with commas between them."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return texts(value)


def path(value: object) -> Path:
    result = text(value)
    if not result.startswith("/") or ".." in PurePosixPath(result).parts or "\0" in result:
        raise ValueError(f"{quoted(result)} is not a valid path; write an absolute one without `..`")
    return Path(result)


def paths(value: object) -> tuple[Path, ...]:
    return tuple(path(item) for item in texts(value))


def service_url(value: object) -> str:
    """Return the URL of a service, without a slash at the end."""
    url = _parse_http_url(text(value))
    if url.username is not None or url.query or url.fragment:
        raise ValueError("not an address of a service; remove the user, `?` or `#`")
    return url.geturl().rstrip("/")


def proxy_url(value: object) -> str:
    """Return the URL of a proxy. Like Go and curl, accept a host and port, too. Messages never contain it."""
    url = text(value)
    return _parse_http_url(url if "://" in url else f"http://{url}", ("http", "https")).geturl()


def destination(value: object) -> str:
    """Return a destination of bundles: a directory, a URL to PUT them to, or a collector."""
    place = text(value)
    if place.startswith("/"):
        return str(path(place))
    _parse_http_url(place.removeprefix(COLLECTOR))
    return place


def destinations(value: object) -> tuple[str, ...]:
    return tuple(destination(item) for item in texts(value))


def collectors(value: object) -> tuple[str, ...]:
    """Return the URLs of the collectors for records. The path of each, if any, is its name for this host."""
    urls = tuple(map(text, texts(value)))
    for item in urls:
        if not item.startswith(COLLECTOR):
            raise ValueError(
                f"{quoted(item)} is not a collector; use a URL like {COLLECTOR}https://host.example/NAME"
            )
        _parse_http_url(item.removeprefix(COLLECTOR))
    return urls


def _parse_http_url(url: str, schemes: tuple[str, ...] = ("http", "https")) -> SplitResult:
    hint = "it is like https://host.example:8443"
    if _SPACE.search(url):
        raise ValueError(f"the URL has a blank in it; {hint}")
    parts = split_url(url, schemes)
    if parts is None:
        raise ValueError(f"not a URL of {' or '.join(schemes)} with a host; {hint}")
    return parts


_MIB: Final = 1 << 20
_DAY: Final = 86400.0
SERVICE_LIMIT: Final = 262_144_000
"""The size in bytes of the largest file that the assisted-service accepts."""


class Send(StrEnum):
    """The conditions under which bundles are shipped."""

    WHEN_WRONG = "when-wrong"
    """Ship when something is wrong with the host, and as a limit comes near."""
    WHEN_CHANGED = "when-changed"
    """Ship also when something else changed."""
    ALWAYS = "always"
    """Ship in every round."""


class HostLogsPolicy(StrEnum):
    """When a bundle may be uploaded as the host's logs, where the agent uploads its own logs."""

    WHEN_EMPTY = "when-empty"
    """Ship only if the service has no logs of this host, or has a bundle of the reporter."""
    OVERWRITE = "overwrite"
    """Ship even if that replaces the agent's logs."""
    NEVER = "never"


class Stages(StrEnum):
    """How facts are reported: as stages, or as information on the current stage."""

    AUTO = "auto"
    """Report facts as stages if the service has these stages, else as information."""
    NEW = "new"
    """Report facts as stages, or not at all."""
    NEVER = "never"
    """Report facts only as information on the current stage."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table of settings."""

    name: str
    """The key in the file, with its section: `proxies.http`."""
    read: Callable[[object], Any]
    """Parses the value of the file. Raises ValueError."""
    says: str
    """A short description for readers of this table; docs/boot-reporter.md has the one for users."""
    environment: tuple[str, ...] = ()
    """Environment variables that override the file. The first non-empty one is used."""
    read_variable: Callable[[object], Any] | None = None
    """Parses an environment variable, if that has another form than the file."""
    least: float | None = None
    most: float | None = None

    def value(self, raw: object, *, is_variable: bool = False) -> Any:
        """Return the parsed value. Raises ValueError if it is invalid or out of bounds."""
        read = self.read_variable if is_variable and self.read_variable else self.read
        result = read(raw)
        if self.least is not None and not self.least <= result:
            raise ValueError(f"{quoted(raw)} is too small; use at least {self.least:,.0f}")
        if self.most is not None and not result <= self.most:
            raise ValueError(f"{quoted(raw)} is too large; use at most {self.most:,.0f}")
        return result


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"{quoted(value)} is not valid; use one of {', '.join(words)}")
        return str(value)

    return read


def _parts_to_keep(value: object) -> tuple[str, ...]:
    return tuple(_one_of("settings", "spool", "state", "units")(word) for word in texts(value))


def _word(kind: type[StrEnum]) -> Callable[[object], StrEnum]:
    return lambda value: kind(_one_of(*kind)(value))


SETTINGS: Final = (
    Setting("assisted_service.url", service_url, "the assisted-service", ("ASSISTED_SERVICE_URL",)),
    Setting("assisted_service.cluster_id", uuid, "its cluster", ("CLUSTER_ID",)),
    Setting("assisted_service.infra_env_id", uuid, "its infra-env", ("INFRA_ENV_ID",)),
    Setting("assisted_service.host_id", uuid, "this host", ("HOST_ID",)),
    Setting(
        "assisted_service.ca_bundle",
        path,
        "PEM file of certificates trusted beside the system's; without it "
        "`/etc/assisted-service/service-ca-cert.crt`, where that is",
        ("ASSISTED_SERVICE_CA_BUNDLE",),
    ),
    Setting("proxies.http", proxy_url, "proxy for http", ("HTTP_PROXY", "http_proxy")),
    Setting("proxies.https", proxy_url, "proxy for https", ("HTTPS_PROXY", "https_proxy")),
    Setting("proxies.no_proxy", hosts, "hosts, domains and networks without proxy", ("NO_PROXY", "no_proxy")),
    Setting(
        "ship_to",
        destinations,
        "more destinations of bundles: directories, URLs to PUT to, `collector+https://HOST`",
    ),
    Setting(
        "records_to",
        collectors,
        "collectors that are sent records as they are written, each minute: `collector+https://HOST[/NAME]`, "
        "NAME being what it calls this host; without it `host_id`",
    ),
    Setting(
        "frequency",
        seconds,
        "from one round to the next",
        ("LOG_SEND_FREQUENCY_IN_MINUTES",),
        minutes,
        least=60,
        most=_DAY,
    ),
    Setting(
        "time_limit",
        seconds,
        "how long after a boot there are rounds",
        ("SERVICE_TIMEOUT_MINUTES",),
        minutes,
        least=60,
        most=7 * _DAY,
    ),
    Setting(
        "lifetime",
        seconds,
        "how long the host may be up, all boots together, until the reporter removes itself",
        least=60,
        most=30 * _DAY,
    ),
    Setting("jitter", seconds, "how far apart hosts that boot together call", least=0, most=3600),
    Setting(
        "send",
        _word(Send),
        "when bundles are shipped: `when-wrong` (also as the limit comes near), `when-changed` (also "
        "whenever something changed), `always` (in every round)",
    ),
    Setting(
        "host_logs",
        _word(HostLogsPolicy),
        "the service's slot for the host's logs, which is used where it refuses `host_boot`: `when-empty` "
        "(never in the place of the agent's logs), `overwrite` (in their place), `never`",
    ),
    Setting(
        "stages",
        _word(Stages),
        "how facts are reported: `auto`, `new` (as stages only), `never` (as information on the stage only)",
    ),
    Setting("redact", switch, "take secrets out of bundles"),
    Setting("disk_bytes", size, "what a round may take of the disk", least=_MIB, most=SERVICE_LIMIT),
    Setting("upload_bytes", size, "the largest bundle", least=1 << 16, most=SERVICE_LIMIT),
    Setting("uploads_per_boot", whole_number, "uploads to a destination in a boot", least=0, most=100),
    Setting("uploads", whole_number, "uploads to a destination in all", least=0, most=100),
    Setting("total_bytes", size, "bytes of uploads to a destination in all", least=0, most=1 << 40),
    Setting(
        "keep_after", _parts_to_keep, "what stays after clean-up, of `settings`, `spool`, `state`, `units`"
    ),
    Setting("remove", paths, "more files to remove at clean-up, for instance the program"),
    Setting("api_url", service_url, "the cluster's API, whose reachability is looked at"),
)

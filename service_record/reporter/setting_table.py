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


def parse_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('not a text; write it in quotes, like "this"')
    return value.strip()


def parse_uuid(value: object) -> str:
    """Return an id of the assisted-service, in lower case."""
    if not isinstance(value, str) or not _UUID.fullmatch(value.strip()):
        raise ValueError(
            f"{quoted(value)} is not a valid id; use one like 01234567-89ab-cdef-0123-456789abcdef"
        )
    return value.strip().lower()


def parse_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{quoted(value)} is neither true nor false; write one of them, without quotes")
    return value


def parse_integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{quoted(value)} is not a whole number; write one like 10, without quotes")
    return value


def parse_seconds(value: object) -> float:
    """Return a duration: a number of seconds, or a text like 90s, 10m, 1h30m."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{quoted(value)} is not a valid duration; use one like 90s, 10m, 1h30m")
    try:
        return float(value)
    except OverflowError:
        return inf


def parse_minutes(value: object) -> float:
    """Return a duration in minutes, in the texts that upstream's environment has."""
    try:
        return float(parse_text(value)) * 60
    except ValueError:
        raise ValueError(f"{quoted(value)} is not a number of minutes; write one like 10") from None


def parse_bytes(value: object) -> int:
    """Return a number of bytes, or a text like 12 MiB; K, M and G are powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{quoted(value)} is not a valid size; use 65536, 512 KiB, 12M or 1G")
    return parse_size(value)


def parse_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError('not a list of texts; write it like ["this", "that"]')
    return tuple(parse_text(item) for item in value)


def parse_hosts(value: object) -> tuple[str, ...]:
    """Return a list of texts, or one text with commas between them."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return parse_texts(value)


def parse_path(value: object) -> Path:
    result = parse_text(value)
    if not result.startswith("/") or ".." in PurePosixPath(result).parts or "\0" in result:
        raise ValueError(f"{quoted(result)} is not a valid path; write an absolute one without `..`")
    return Path(result)


def parse_paths(value: object) -> tuple[Path, ...]:
    return tuple(parse_path(item) for item in parse_texts(value))


def parse_service_url(value: object) -> str:
    """Return the URL of a service, without a slash at the end."""
    url = _parse_http_url(parse_text(value))
    if url.username is not None or url.query or url.fragment:
        raise ValueError("not an address of a service; remove the user, `?` or `#`")
    return url.geturl().rstrip("/")


def parse_proxy_url(value: object) -> str:
    """Return the URL of a proxy. Like Go and curl, accept a host and port, too. Messages never contain it."""
    url = parse_text(value)
    return _parse_http_url(url if "://" in url else f"http://{url}", ("http", "https")).geturl()


def parse_destination(value: object) -> str:
    """Return a destination of bundles: a directory, a URL to PUT them to, or a collector."""
    place = parse_text(value)
    if place.startswith("/"):
        return str(parse_path(place))
    _parse_http_url(place.removeprefix(COLLECTOR))
    return place


def parse_destinations(value: object) -> tuple[str, ...]:
    return tuple(parse_destination(item) for item in parse_texts(value))


def parse_collectors(value: object) -> tuple[str, ...]:
    """Return the URLs of the collectors for records. The path of each, if any, is its name for this host."""
    urls = tuple(map(parse_text, parse_texts(value)))
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
    """Ship if something is wrong with the host, early in each boot, and shortly before a limit."""
    WHEN_CHANGED = "when-changed"
    """Ship also if anything else changed."""
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
    description: str
    """A short description for readers of this table; docs/boot-reporter.md has the one for users."""
    environment: tuple[str, ...] = ()
    """Environment variables that override the file. The first non-empty one is used."""
    read_variable: Callable[[object], Any] | None = None
    """Parses an environment variable, if that has another form than the file."""
    minimum: float | None = None
    maximum: float | None = None

    def value(self, raw: object, *, is_variable: bool = False) -> Any:
        """Return the parsed value. Raises ValueError if it is invalid or out of bounds."""
        read = self.read_variable if is_variable and self.read_variable else self.read
        result = read(raw)
        if self.minimum is not None and not self.minimum <= result:
            raise ValueError(f"{quoted(raw)} is too small; use at least {self.minimum:,.0f}")
        if self.maximum is not None and not result <= self.maximum:
            raise ValueError(f"{quoted(raw)} is too large; use at most {self.maximum:,.0f}")
        return result


def _choice(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"{quoted(value)} is not valid; use one of {', '.join(words)}")
        return str(value)

    return read


def _parse_parts(value: object) -> tuple[str, ...]:
    return tuple(_choice("settings", "spool", "state", "units")(word) for word in parse_texts(value))


def _enum_choice(kind: type[StrEnum]) -> Callable[[object], StrEnum]:
    return lambda value: kind(_choice(*kind)(value))


SETTINGS: Final = (
    Setting(
        "assisted_service.url", parse_service_url, "URL of the assisted-service", ("ASSISTED_SERVICE_URL",)
    ),
    Setting("assisted_service.cluster_id", parse_uuid, "id of the cluster", ("CLUSTER_ID",)),
    Setting("assisted_service.infra_env_id", parse_uuid, "id of the infra-env", ("INFRA_ENV_ID",)),
    Setting("assisted_service.host_id", parse_uuid, "id of this host", ("HOST_ID",)),
    Setting(
        "assisted_service.ca_bundle",
        parse_path,
        "PEM file of certificates to trust in addition to the system's. If unset, "
        "`/etc/assisted-service/service-ca-cert.crt` is used if it exists",
        ("ASSISTED_SERVICE_CA_BUNDLE",),
    ),
    Setting("proxies.http", parse_proxy_url, "proxy for http", ("HTTP_PROXY", "http_proxy")),
    Setting("proxies.https", parse_proxy_url, "proxy for https", ("HTTPS_PROXY", "https_proxy")),
    Setting(
        "proxies.no_proxy", parse_hosts, "hosts, domains and networks without proxy", ("NO_PROXY", "no_proxy")
    ),
    Setting(
        "ship_to",
        parse_destinations,
        "further destinations of bundles: directories, URLs to PUT to, `collector+https://HOST`",
    ),
    Setting(
        "records_to",
        parse_collectors,
        "collectors that get new entries of records each minute: `collector+https://HOST[/NAME]`. NAME is "
        "the collector's name for this host; by default it is `host_id`",
    ),
    Setting(
        "frequency",
        parse_seconds,
        "time from one round to the next",
        ("LOG_SEND_FREQUENCY_IN_MINUTES",),
        parse_minutes,
        minimum=60,
        maximum=_DAY,
    ),
    Setting(
        "time_limit",
        parse_seconds,
        "uptime after which a boot has no more rounds",
        ("SERVICE_TIMEOUT_MINUTES",),
        parse_minutes,
        minimum=60,
        maximum=7 * _DAY,
    ),
    Setting(
        "lifetime",
        parse_seconds,
        "total uptime of all boots after which the reporter removes itself",
        minimum=60,
        maximum=30 * _DAY,
    ),
    Setting(
        "jitter",
        parse_seconds,
        "largest delay by which hosts that boot together are spread",
        minimum=0,
        maximum=3600,
    ),
    Setting(
        "send",
        _enum_choice(Send),
        "when bundles are shipped: `when-wrong` (if something is wrong, early in each boot and shortly "
        "before the limit), `when-changed` (also whenever something changed), `always` (in every round)",
    ),
    Setting(
        "host_logs",
        _enum_choice(HostLogsPolicy),
        "whether to upload bundles as the host's logs, if the service refuses the log type `host_boot`: "
        "`when-empty` (only if that does not replace the agent's logs), `overwrite` (even if it does), "
        "`never`",
    ),
    Setting(
        "stages",
        _enum_choice(Stages),
        "how facts are reported: `auto`, `new` (as stages only), `never` (as information on the stage only)",
    ),
    Setting("redact", parse_boolean, "mask secrets in bundles"),
    Setting(
        "disk_bytes", parse_bytes, "disk space that a round may use", minimum=_MIB, maximum=SERVICE_LIMIT
    ),
    Setting("upload_bytes", parse_bytes, "the largest bundle", minimum=1 << 16, maximum=SERVICE_LIMIT),
    Setting(
        "uploads_per_boot",
        parse_integer,
        "limit of uploads to one destination in a boot",
        minimum=0,
        maximum=100,
    ),
    Setting("uploads", parse_integer, "limit of uploads to one destination in total", minimum=0, maximum=100),
    Setting(
        "total_bytes",
        parse_bytes,
        "limit of bytes uploaded to one destination in total",
        minimum=0,
        maximum=1 << 40,
    ),
    Setting("keep_after", _parse_parts, "parts to keep at clean-up: `settings`, `spool`, `state`, `units`"),
    Setting("remove", parse_paths, "further files to remove at clean-up, for instance the program"),
    Setting("api_url", parse_service_url, "URL of the cluster's API; bundles show whether it can be reached"),
)

"""The reporter's settings: a table with their types and bounds, and their values on this host.

They are read from the environment, a systemd credential and reporter.toml. Bad settings raise nothing: each
missing or invalid setting is a line in `faults`, and the others apply. The functions above the table return
the parsed value, or raise ValueError with a message that says what is valid. No message repeats a value that
may hold a password.
"""
# ruff: noqa: TRY004  # ValueError for a wrong type, too: callers turn it into a line for people

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult

from service_record.http.proxies import Proxies, split_url
from service_record.record.config_file import ConfigError, Value, find_nearest, parse_toml
from service_record.record.quantities import parse_duration, parse_size
from service_record.reporter.paths import Places, is_there, read_small
from service_record.reporter.token import TokenRead, read_collector_token, read_token, reason

if TYPE_CHECKING:
    from service_record.redaction import Secret

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
        return "this value"
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
    Setting("assisted_service.url", parse_service_url, ("ASSISTED_SERVICE_URL",)),
    Setting("assisted_service.cluster_id", parse_uuid, ("CLUSTER_ID",)),
    Setting("assisted_service.infra_env_id", parse_uuid, ("INFRA_ENV_ID",)),
    Setting("assisted_service.host_id", parse_uuid, ("HOST_ID",)),
    Setting("assisted_service.ca_bundle", parse_path, ("ASSISTED_SERVICE_CA_BUNDLE",)),
    Setting("proxies.http", parse_proxy_url, ("HTTP_PROXY", "http_proxy")),
    Setting("proxies.https", parse_proxy_url, ("HTTPS_PROXY", "https_proxy")),
    Setting("proxies.no_proxy", parse_hosts, ("NO_PROXY", "no_proxy")),
    Setting("ship_to", parse_destinations),
    Setting("records_to", parse_collectors),
    Setting(
        "frequency",
        parse_seconds,
        ("LOG_SEND_FREQUENCY_IN_MINUTES",),
        parse_minutes,
        minimum=60,
        maximum=_DAY,
    ),
    Setting(
        "time_limit", parse_seconds, ("SERVICE_TIMEOUT_MINUTES",), parse_minutes, minimum=60, maximum=7 * _DAY
    ),
    Setting("lifetime", parse_seconds, minimum=60, maximum=30 * _DAY),
    Setting("jitter", parse_seconds, minimum=0, maximum=3600),
    Setting("send", _enum_choice(Send)),
    Setting("host_logs", _enum_choice(HostLogsPolicy)),
    Setting("stages", _enum_choice(Stages)),
    Setting("redact", parse_boolean),
    Setting("disk_bytes", parse_bytes, minimum=_MIB, maximum=SERVICE_LIMIT),
    Setting("upload_bytes", parse_bytes, minimum=1 << 16, maximum=SERVICE_LIMIT),
    Setting("uploads_per_boot", parse_integer, minimum=0, maximum=100),
    Setting("uploads", parse_integer, minimum=0, maximum=100),
    Setting("total_bytes", parse_bytes, minimum=0, maximum=1 << 40),
    Setting("keep_after", _parse_parts),
    Setting("remove", parse_paths),
    Setting("api_url", parse_service_url),
)
"""The table of settings; docs/boot-reporter-settings.md describes them for users."""

_CREDENTIAL: Final = "reporter.toml"
_MAX_FILE_BYTES: Final = 1 << 16
"""The largest accepted settings file. Usual ones are a hundred times smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistedServiceSettings:
    """The address of the assisted-service, and the ids and the token of this host."""

    url: str
    """The URL without a slash at the end and without the base path; see `base_url()`."""
    cluster_id: str
    infra_env_id: str
    host_id: str
    token: str | None = field(default=None, repr=False)
    ca_bundle: Path | None = None
    """A file of certificates that are trusted in addition to the system's."""
    is_usable: bool = True
    """False if the token file exists but is unusable: then nothing is sent to the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Validated settings (docs/boot-reporter-settings.md). Durations are in seconds, sizes in bytes."""

    service: AssistedServiceSettings | None = None
    faults: tuple[str, ...] = ()
    """A line for each missing or invalid setting: `PATH:LINE: what; what to do`."""
    proxies: Proxies = field(default_factory=Proxies)
    collector_token: str | None = field(default=None, repr=False)
    """The token for collectors. It is never sent to the assisted-service."""
    ship_to: tuple[str, ...] = ()
    """More destinations: directories, URLs to PUT to, collectors (`collector+https://…`)."""
    records_to: tuple[str, ...] = ()
    """Collectors that get new entries of records each minute."""
    frequency: float = 600.0
    """The interval from one round to the next."""
    time_limit: float = 3600.0
    """The uptime after which a boot gets no more rounds."""
    lifetime: float = _DAY
    """The total uptime of all boots after which the reporter removes itself."""
    jitter: float = 60.0
    """The largest delay that keeps hosts which boot together from reporting together."""
    send: Send = Send.WHEN_WRONG
    host_logs: HostLogsPolicy = HostLogsPolicy.WHEN_EMPTY
    stages: Stages = Stages.AUTO
    redact: bool = True
    disk_bytes: int = 64 * _MIB
    """The disk space that a round may use."""
    upload_bytes: int = 12 * _MIB
    """The largest bundle."""
    uploads_per_boot: int = 4
    uploads: int = 8
    total_bytes: int = 96 * _MIB
    """The limit of all uploads to one destination together."""
    keep_after: tuple[str, ...] = ()
    """The parts that the clean-up keeps, out of `settings`, `spool`, `state`, `units`."""
    remove: tuple[Path, ...] = ()
    """Further paths that the clean-up removes."""
    api_url: str | None = None
    """The URL of the cluster's API. Bundles have its reachability."""


_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
_SECTIONS: Final = {name.partition(".")[0] for name in _BY_NAME if "." in name}
_NEEDED: Final = ("url", "cluster_id", "infra_env_id", "host_id")
_SECRETS: Final = {"token", "pull_secret", "pull_secret_token", "secret"}


def read_settings(places: Places, environ: Mapping[str, str]) -> Settings:
    """Read the settings of this host: first from the environment, then systemd's credential, then the file.

    Invalid settings are ignored and listed in `faults`. Raises nothing.
    """
    file = _read_file(places.settings_file)
    credential = _read_credential(environ)
    environment = _read_environment(environ)
    values = {**file.given, **credential.given, **environment.given}
    token, collector_token = read_token(places, environ), read_collector_token(places, environ)
    service, missing = _build_service(values, token, places)
    if not collector_token.is_usable:  # without a usable token, nothing is sent to collectors
        others = tuple(place for place in values.get("ship_to", ()) if not place.startswith(COLLECTOR))
        values |= {"ship_to": others, "records_to": ()}
    bad = file.bad | credential.bad | environment.bad
    return Settings(
        service=service,
        proxies=Proxies(**_select_section(values, "proxies")),
        collector_token=collector_token.token,
        faults=(
            *file.faults,
            *credential.faults,
            *environment.faults,
            *token.faults,
            *collector_token.faults,
            *(fault for name, fault in missing if name not in bad),
        ),
        **{name: value for name, value in values.items() if "." not in name},
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """The settings from one source."""

    given: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    bad: frozenset[str] = frozenset()
    """The names of the invalid settings."""


def _read_credential(environ: Mapping[str, str]) -> _Read:
    """Read the credential `reporter.toml` (`LoadCredential=`); see systemd.exec(5)."""
    directory = environ.get("CREDENTIALS_DIRECTORY", "")
    return _read_file(Path(directory) / _CREDENTIAL) if directory.startswith("/") else _Read()


def _read_file(path: Path) -> _Read:
    try:
        text = read_small(path, _MAX_FILE_BYTES)[0].decode()
        document = parse_toml(text, str(path))
    except FileNotFoundError:
        return _Read()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return _Read(faults=(f"{path}:{line}: not UTF-8; the file is ignored until it is",))
    except ConfigError as error:
        return _Read(faults=(f"{error}; the file is ignored until this is corrected",))
    except (OSError, ValueError) as error:
        return _Read(
            faults=(f"{path}:1: cannot be read: {reason(error)}; make it a file that root can read",)
        )
    return _read_document(document)


def _read_document(document: Value) -> _Read:
    values: dict[str, Any] = {}
    bad: dict[str, ConfigError] = {}
    for name, value in _flatten(document):
        try:
            values[name] = _find_setting(name).value(value.raw)
        except ValueError as error:
            bad[name] = value.fault(str(error))
    faults = sorted(bad.values(), key=lambda fault: fault.line)
    return _Read(values, tuple(map(str, faults)), frozenset(bad))


def _flatten(document: Value) -> Iterator[tuple[str, Value]]:
    """Yield the name, including the section, and the value of each setting."""
    for key, value in document.content:
        name = key.content
        if name in _SECTIONS and isinstance(value.content, tuple):
            yield from ((f"{name}.{inner_key.content}", inner) for inner_key, inner in value.content)
        else:
            yield name, value


def _find_setting(name: str) -> Setting:
    if name in _BY_NAME:
        return _BY_NAME[name]
    plain = name.rpartition(".")[2].lower()
    if plain in _SECRETS:
        raise ValueError(f"the token does not belong here; write it into {Places().credential_file} (0600)")
    if name in _SECTIONS:
        raise ValueError(f"a section; write [{name}] and its settings below")
    ends = {setting.rpartition(".")[2]: setting for setting in _BY_NAME}
    near = find_nearest(plain, ends)
    hint = f"did you mean {ends[near]}?" if near else "docs/boot-reporter-settings.md lists them all"
    raise ValueError(f"no such setting; {hint}")


def _read_environment(environ: Mapping[str, str]) -> _Read:
    values: dict[str, Any] = {}
    bad: dict[str, str] = {}
    for setting in SETTINGS:
        variable = next((name for name in setting.environment if environ.get(name, "").strip()), None)
        if variable is None:
            continue
        try:
            values[setting.name] = setting.value(environ[variable], is_variable=True)
        except ValueError as error:
            bad[setting.name] = f"environment:{variable}: {error}"
    if environ.get("PULL_SECRET_TOKEN"):
        bad["token"] = (
            "environment:PULL_SECRET_TOKEN: not taken, others can read an environment; write it into "
            f"{Places().credential_file} (0600)"
        )
    return _Read(values, tuple(bad.values()), frozenset(bad))


def _select_section(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    own = ((name.partition("."), value) for name, value in values.items())
    return {name: value for (of, _, name), value in own if of == section and name}


def _build_service(
    values: Mapping[str, Any], token: TokenRead, places: Places
) -> tuple[AssistedServiceSettings | None, list[tuple[str, str]]]:
    """Return the service, or None if a required setting is missing; and names and faults for missing ones."""
    section = _select_section(values, "assisted_service")
    missing = [_BY_NAME[f"assisted_service.{name}"] for name in _NEEDED if name not in section]
    if len(missing) == len(_NEEDED) and values.get("ship_to"):
        return None, []
    if missing:
        return None, [(setting.name, _missing_fault(setting, places)) for setting in missing]
    if "ca_bundle" not in section and is_there(places.ca_bundle):
        section["ca_bundle"] = places.ca_bundle
    service = AssistedServiceSettings(token=token.token, is_usable=token.is_usable, **section)
    no_token = (
        f"{places.credential_file}:1: no token; only a service without authentication answers: "
        "write the token into it (0600)"
    )
    return service, [("token", no_token)] if token.token is None and token.is_usable else []


def _missing_fault(setting: Setting, places: Places) -> str:
    return (
        f"{places.settings_file}:1: no {setting.name}; without it the assisted-service is sent nothing: "
        f"set it there, or {setting.environment[0]} in the environment"
    )


def secrets_in(settings: Settings) -> tuple["Secret", ...]:
    """Return the tokens, to be masked in everything that leaves the host."""
    from service_record.redaction import Secret  # only rounds need it

    service = settings.service
    tokens = {
        "reporter-token": service.token if service else None,
        "collector-token": settings.collector_token,
    }
    return tuple(Secret(name, token.encode()) for name, token in tokens.items() if token)

"""The reporter's settings and tokens: each setting with its type, default, bounds and sources.

They are read from the environment, a systemd credential and reporter.toml. Bad settings raise nothing: each
missing or invalid setting is a line in `faults`, and the others apply. The `parse_` functions return the
parsed value, or raise ValueError with a message that says what is valid. No message repeats a value that may
hold a password or a token.
"""
# ruff: noqa: TRY004  # ValueError for a wrong type, too: callers turn it into a line for people

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import inf
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult

from service_record.http.proxies import Proxies, split_url
from service_record.record.config_file import ConfigError, Value, find_nearest, parse_toml
from service_record.record.quantities import parse_duration, parse_size
from service_record.reporter.paths import Places, is_there, read_small

if TYPE_CHECKING:
    from service_record.redaction import Secret

COLLECTOR: Final = "collector+"
"""The prefix of a collector's URL, as in `collector+https://HOST`."""
SERVICE_LIMIT: Final = 262_144_000
"""The size in bytes of the largest file that the assisted-service accepts."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_MAX_QUOTED_CHARACTERS: Final = 80
_SPACE: Final = re.compile(r"[\x00-\x20\x7f]")
_MIB: Final = 1 << 20
_DAY: Final = 86400.0


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


def _parse_http_url(url: str, schemes: tuple[str, ...] = ("http", "https")) -> SplitResult:
    hint = "it is like https://host.example:8443"
    if _SPACE.search(url):
        raise ValueError(f"the URL has a blank in it; {hint}")
    parts = split_url(url, schemes)
    if parts is None:
        raise ValueError(f"not a URL of {' or '.join(schemes)} with a host; {hint}")
    return parts


def parse_collector(value: object) -> str:
    """Return the URL of a collector for records. Its path, if any, is the name of this host there."""
    url = parse_text(value)
    if not url.startswith(COLLECTOR):
        raise ValueError(
            f"{quoted(url)} is not a collector; use a URL like {COLLECTOR}https://host.example/NAME"
        )
    _parse_http_url(url.removeprefix(COLLECTOR))
    return url


def parse_list(parse_item: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    return lambda value: tuple(parse_item(item) for item in parse_texts(value))


def parse_choice(*words: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in words:
            raise ValueError(f"{quoted(value)} is not valid; use one of {', '.join(words)}")
        return str(value)

    return parse


def parse_enum(kind: type[StrEnum]) -> Callable[[object], StrEnum]:
    return lambda value: kind(parse_choice(*kind)(value))


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
    """How a setting is read."""

    parse: Callable[[object], Any]
    """Parses the value of the file. Raises ValueError."""
    variables: tuple[str, ...] = ()
    """Environment variables that override the file. The first non-empty one is used."""
    parse_variable: Callable[[object], Any] | None = None
    """Parses an environment variable, if that has another form than the file."""
    minimum: float | None = None
    maximum: float | None = None

    def value(self, raw: object, *, is_variable: bool = False) -> Any:
        """Return the parsed value. Raises ValueError if it is invalid or out of bounds."""
        parse = self.parse_variable if is_variable and self.parse_variable else self.parse
        result = parse(raw)
        if self.minimum is not None and not self.minimum <= result:
            raise ValueError(f"{quoted(raw)} is too small; use at least {self.minimum:,.0f}")
        if self.maximum is not None and not result <= self.maximum:
            raise ValueError(f"{quoted(raw)} is too large; use at most {self.maximum:,.0f}")
        return result


def _setting(parse: Callable[[object], Any], *variables: str, **rest: Any) -> dict[str, Setting]:
    return {"setting": Setting(parse, variables, **rest)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistedServiceSettings:
    """The section `assisted_service`: the address of the service, and the ids and the token of this host."""

    url: str = field(metadata=_setting(parse_service_url, "ASSISTED_SERVICE_URL"))
    """The URL without a slash at the end and without the base path; see `base_url()`."""
    cluster_id: str = field(metadata=_setting(parse_uuid, "CLUSTER_ID"))
    infra_env_id: str = field(metadata=_setting(parse_uuid, "INFRA_ENV_ID"))
    host_id: str = field(metadata=_setting(parse_uuid, "HOST_ID"))
    ca_bundle: Path | None = field(default=None, metadata=_setting(parse_path, "ASSISTED_SERVICE_CA_BUNDLE"))
    """A file of certificates that are trusted in addition to the system's."""
    token: str | None = field(default=None, repr=False)
    is_usable: bool = True
    """False if the token file exists but is unusable: then nothing is sent to the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Validated settings (docs/boot-reporter-settings.md). Durations are in seconds, sizes in bytes."""

    service: AssistedServiceSettings | None = None
    proxies: Proxies = field(default_factory=Proxies)
    ship_to: tuple[str, ...] = field(default=(), metadata=_setting(parse_list(parse_destination)))
    """More destinations: directories, URLs to PUT to, collectors (`collector+https://…`)."""
    records_to: tuple[str, ...] = field(default=(), metadata=_setting(parse_list(parse_collector)))
    """Collectors that get new entries of records each minute."""
    frequency: float = field(
        default=600.0,
        metadata=_setting(
            parse_seconds,
            "LOG_SEND_FREQUENCY_IN_MINUTES",
            parse_variable=parse_minutes,
            minimum=60,
            maximum=_DAY,
        ),
    )
    """The interval from one round to the next."""
    time_limit: float = field(
        default=3600.0,
        metadata=_setting(
            parse_seconds,
            "SERVICE_TIMEOUT_MINUTES",
            parse_variable=parse_minutes,
            minimum=60,
            maximum=7 * _DAY,
        ),
    )
    """The uptime after which a boot gets no more rounds."""
    lifetime: float = field(default=_DAY, metadata=_setting(parse_seconds, minimum=60, maximum=30 * _DAY))
    """The total uptime of all boots after which the reporter removes itself."""
    jitter: float = field(default=60.0, metadata=_setting(parse_seconds, minimum=0, maximum=3600))
    """The largest delay that keeps hosts which boot together from reporting together."""
    send: Send = field(default=Send.WHEN_WRONG, metadata=_setting(parse_enum(Send)))
    host_logs: HostLogsPolicy = field(
        default=HostLogsPolicy.WHEN_EMPTY, metadata=_setting(parse_enum(HostLogsPolicy))
    )
    stages: Stages = field(default=Stages.AUTO, metadata=_setting(parse_enum(Stages)))
    redact: bool = field(default=True, metadata=_setting(parse_boolean))
    disk_bytes: int = field(
        default=64 * _MIB, metadata=_setting(parse_bytes, minimum=_MIB, maximum=SERVICE_LIMIT)
    )
    """The disk space that a round may use."""
    upload_bytes: int = field(
        default=12 * _MIB, metadata=_setting(parse_bytes, minimum=1 << 16, maximum=SERVICE_LIMIT)
    )
    """The largest bundle."""
    uploads_per_boot: int = field(default=4, metadata=_setting(parse_integer, minimum=0, maximum=100))
    uploads: int = field(default=8, metadata=_setting(parse_integer, minimum=0, maximum=100))
    total_bytes: int = field(default=96 * _MIB, metadata=_setting(parse_bytes, minimum=0, maximum=1 << 40))
    """The limit of all uploads to one destination together."""
    keep_after: tuple[str, ...] = field(
        default=(), metadata=_setting(parse_list(parse_choice("settings", "spool", "state", "units")))
    )
    """The parts that the clean-up keeps, out of `settings`, `spool`, `state`, `units`."""
    remove: tuple[Path, ...] = field(default=(), metadata=_setting(parse_list(parse_path)))
    """Further paths that the clean-up removes."""
    api_url: str | None = field(default=None, metadata=_setting(parse_service_url))
    """The URL of the cluster's API. Bundles have its reachability."""
    collector_token: str | None = field(default=None, repr=False)
    """The token for collectors. It is never sent to the assisted-service."""
    faults: tuple[str, ...] = ()
    """A line for each missing or invalid setting: `PATH:LINE: what; what to do`."""


def _list_settings(kind: type, section: str = "") -> dict[str, Setting]:
    """Return the settings of a dataclass by their keys in the file, with the section."""
    return {
        f"{section}{each.name}": each.metadata["setting"]
        for each in fields(kind)
        if "setting" in each.metadata
    }


SETTINGS: Final[Mapping[str, Setting]] = {
    **_list_settings(AssistedServiceSettings, "assisted_service."),
    "proxies.http": Setting(parse_proxy_url, ("HTTP_PROXY", "http_proxy")),
    "proxies.https": Setting(parse_proxy_url, ("HTTPS_PROXY", "https_proxy")),
    "proxies.no_proxy": Setting(parse_hosts, ("NO_PROXY", "no_proxy")),
    **_list_settings(Settings),
}
"""Key in the file, with its section -> setting. docs/boot-reporter-settings.md describes them for users."""

_SECTIONS: Final = {"assisted_service", "proxies"}
_NEEDED: Final = ("url", "cluster_id", "infra_env_id", "host_id")
_SECRETS: Final = {"token", "pull_secret", "pull_secret_token", "secret"}
_MAX_FILE_BYTES: Final = 1 << 16
"""The largest accepted settings file. Usual ones are a hundred times smaller."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The settings from one source."""

    values: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    bad: frozenset[str] = frozenset()
    """The names of the invalid settings."""


def read_settings(places: Places, environ: Mapping[str, str]) -> Settings:
    """Read the settings of this host: first from the environment, then systemd's credential, then the file.

    Invalid settings are ignored and listed in `faults`. Raises nothing.
    """
    directory = environ.get("CREDENTIALS_DIRECTORY", "")  # see systemd.exec(5)
    credentials = Path(directory) if directory.startswith("/") else None
    sources = [_read_file(places.settings_file), _read_environment(environ)]
    if credentials is not None:
        sources.insert(1, _read_file(credentials / "reporter.toml"))
    values = {name: value for source in sources for name, value in source.values.items()}
    token = read_token(credentials, places.credential_file, "the assisted-service is")
    collector_token = read_token(credentials, places.collector_credential_file, "collectors are")
    service, missing = _build_service(values, token, places)
    if not collector_token.is_usable:  # without a usable token, nothing is sent to collectors
        others = tuple(place for place in values.get("ship_to", ()) if not place.startswith(COLLECTOR))
        values |= {"ship_to": others, "records_to": ()}
    bad = frozenset[str]().union(*(source.bad for source in sources))
    return Settings(
        service=service,
        proxies=Proxies(**_select_section(values, "proxies")),
        collector_token=collector_token.token,
        faults=(
            *(fault for source in sources for fault in source.faults),
            *token.faults,
            *collector_token.faults,
            *(fault for name, fault in missing if name not in bad),
        ),
        **{name: value for name, value in values.items() if "." not in name},
    )


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
            faults=(f"{path}:1: cannot be read: {_describe(error)}; make it a file that root can read",)
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
    if name in SETTINGS:
        return SETTINGS[name]
    plain = name.rpartition(".")[2].lower()
    if plain in _SECRETS:
        raise ValueError(f"the token does not belong here; write it into {Places().credential_file} (0600)")
    if name in _SECTIONS:
        raise ValueError(f"a section; write [{name}] and its settings below")
    ends = {setting.rpartition(".")[2]: setting for setting in SETTINGS}
    near = find_nearest(plain, ends)
    hint = f"did you mean {ends[near]}?" if near else "docs/boot-reporter-settings.md lists them all"
    raise ValueError(f"no such setting; {hint}")


def _read_environment(environ: Mapping[str, str]) -> _Read:
    values: dict[str, Any] = {}
    bad: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        variable = next((each for each in setting.variables if environ.get(each, "").strip()), None)
        if variable is None:
            continue
        try:
            values[name] = setting.value(environ[variable], is_variable=True)
        except ValueError as error:
            bad[name] = f"environment:{variable}: {error}"
    if environ.get("PULL_SECRET_TOKEN"):
        bad["token"] = (
            "environment:PULL_SECRET_TOKEN: not taken, others can read an environment; write it into "
            f"{Places().credential_file} (0600)"
        )
    return _Read(values, tuple(bad.values()), frozenset(bad))


def _select_section(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    own = ((name.partition("."), value) for name, value in values.items())
    return {name: value for (of, _, name), value in own if of == section and name}


@dataclass(frozen=True, slots=True)
class TokenRead:
    """A token, and a line for each problem with its files. No line contains any part of a token."""

    token: str | None
    faults: tuple[str, ...]
    is_usable: bool = True
    """False if a token file exists but has no readable token. Without it the service would deny the host."""


_REGISTRY: Final = "cloud.openshift.com"
"""The registry in a pull secret whose `auth` is the token for the hosted service."""
_MAX_TOKEN_FILE_BYTES: Final = 1 << 18
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The form of a token (`token68` of RFC 9110, 11.2): a JWT, base64, or a collector's token."""
_OTHERS_MODE: Final = 0o077


def read_token(credentials: Path | None, file: Path, whose: str) -> TokenRead:
    """Return a token from systemd's credential with the name of the file, or from the file.

    A blank credential counts as missing: the unit sets one if the file is missing. The result is not usable
    if the disk fails, or if no file has a token but one has something else. `whose` is the beginning of what
    the lines say about a missing token: `collectors are`.
    """
    faults: list[str] = []
    is_usable = True
    for path in [credentials / file.name, file] if credentials is not None else [file]:
        is_ours = path is file  # systemd sets the permissions of a credential
        try:
            data, mode = read_small(path, _MAX_TOKEN_FILE_BYTES)
        except FileNotFoundError:
            if os.path.lexists(path):
                faults.append(f"{path}:1: a link to a file that is missing; write the token into that file")
                is_usable = False
            continue
        except OSError as error:
            fault = f"{path}:1: cannot be read: {_describe(error)}; without it {whose} sent nothing"
            return TokenRead(None, (fault,), is_usable=False)
        except ValueError as error:
            faults.append(f"{path}:1: cannot be read: {error}; make it a file that root can read")
            is_usable = False
            continue
        if not data.strip() and not is_ours:
            continue
        if is_ours and mode & _OTHERS_MODE:
            faults.append(f"{path}:1: others than its owner may read the token; chmod 0600 {path}")
        try:
            return TokenRead(token_in(data), tuple(faults))
        except ValueError as error:
            faults.append(f"{path}:1: {error}; until then {whose} sent nothing")
            is_usable = False
    return TokenRead(None, tuple(faults), is_usable)


def token_in(data: bytes) -> str:
    """Return the token in a file: the whole content, or the `auth` of a pull secret. Raises ValueError."""
    try:
        token = data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError("no token: a token is ASCII; write the token alone into it") from None
    if not token:
        raise ValueError("an empty file; write the token into it, or remove it if the service asks for none")
    if token.startswith("{"):
        token = _read_auth(token)
    if len(token.split()) > 1:
        raise ValueError("no token: a blank in it; write the token alone into it, without `Bearer`")
    if not _TOKEN.fullmatch(token):
        raise ValueError("no token: characters that no token has, as quotes; write the token alone into it")
    return token


def _read_auth(pull_secret: str) -> str:
    try:
        auth = json.loads(pull_secret)["auths"][_REGISTRY]["auth"]
    except (ValueError, KeyError, TypeError, RecursionError):
        auth = None
    if not isinstance(auth, str) or not auth:
        raise ValueError(f'a pull secret without auths["{_REGISTRY}"].auth; write the token itself into it')
    return auth.strip()


def _describe(error: OSError | ValueError) -> str:
    """Return the text of an error without the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _build_service(
    values: Mapping[str, Any], token: TokenRead, places: Places
) -> tuple[AssistedServiceSettings | None, list[tuple[str, str]]]:
    """Return the service, or None if a required setting is missing; and names and faults for missing ones."""
    section = _select_section(values, "assisted_service")
    missing = [f"assisted_service.{name}" for name in _NEEDED if name not in section]
    if len(missing) == len(_NEEDED) and values.get("ship_to"):
        return None, []
    if missing:
        return None, [(name, _describe_missing(name, places)) for name in missing]
    if "ca_bundle" not in section and is_there(places.ca_bundle):
        section["ca_bundle"] = places.ca_bundle
    service = AssistedServiceSettings(token=token.token, is_usable=token.is_usable, **section)
    no_token = (
        f"{places.credential_file}:1: no token; only a service without authentication answers: "
        "write the token into it (0600)"
    )
    return service, [("token", no_token)] if token.token is None and token.is_usable else []


def _describe_missing(name: str, places: Places) -> str:
    return (
        f"{places.settings_file}:1: no {name}; without it the assisted-service is sent nothing: "
        f"set it there, or {SETTINGS[name].variables[0]} in the environment"
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

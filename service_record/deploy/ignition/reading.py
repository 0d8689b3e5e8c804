"""Reads Ignition configs, and names their faults with their places.

ignition-validate and butane check them as well, if they are installed.
"""

import json
import os
import posixpath
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service_record.record.programs import Deadline, ProgramError, run


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """A fault that keeps a config from being used."""

    where: str
    """The place, such as `storage.files[3].mode`; empty for the config as a whole."""
    what: str
    """The fault, and the remedy if it is not obvious."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class BadConfigError(ValueError):
    """A config that cannot be used. The message is one line."""

    def __init__(self, faults: tuple[ConfigFault, ...]) -> None:
        more = len(faults) - 1
        rest = f" (and {more} more)" if more else ""
        super().__init__(f"{faults[0]}{rest}")
        self.faults = faults


def quoted(value: object) -> str:
    """Return a value of a config for a message: one line, shortened."""
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


_MAX_QUOTED = 60


Config = dict[str, Any]
"""A config as parsed JSON."""

_MAX_DEPTH: Final = 50
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_MAX_DIGITS: Final = 20
MAX_CONFIG_BYTES: Final = 64 << 20
"""Real configs have a few MiB at most."""


def read_config(data: bytes) -> Config:
    """Parse a config. Raises BadConfigError if it is not a JSON object.

    Unlike Ignition, it rejects fields that are given twice, and bytes that are not UTF-8.
    """
    if len(data) > MAX_CONFIG_BYTES:
        raise _make_error(f"{len(data):,} bytes; a config has at most {MAX_CONFIG_BYTES:,}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _make_error(f"line {line}: no UTF-8; an Ignition config is JSON") from None
    if not text.strip():
        raise _make_error("empty; an Ignition config is a JSON object")
    try:
        config = json.loads(
            text, object_pairs_hook=_reject_duplicates, parse_int=_parse_int, parse_constant=_reject_constant
        )
    except json.JSONDecodeError as error:
        hint = _guess_format(text)
        raise _make_error(
            f"line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}{hint}"
        ) from None
    except RecursionError:
        raise _make_error("nested too deeply for a config") from None
    except ValueError as error:
        raise _make_error(str(error)) from None
    if not isinstance(config, dict):
        raise _make_error(f"{quoted(config)} is not an object, as an Ignition config is")
    _check_values(config)
    return config


def _make_error(what: str) -> BadConfigError:
    return BadConfigError((ConfigFault("", what),))


def _guess_format(text: str) -> str:
    """Return a hint if the text is of another known format."""
    begin = text.lstrip("\ufeff \t\r\n")
    if text.startswith("\ufeff"):
        return "; remove the byte order mark at its beginning"
    if begin.startswith("variant:") or "\nvariant:" in begin:
        return "; this looks like Butane, make an Ignition config of it first: butane FILE"
    if begin.startswith(("apiVersion:", "kind:")):
        return "; this looks like a MachineConfig, give what is in its spec.config, as JSON"
    return ""


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in members if names.count(name) > 1)
        raise ValueError(f"{quoted(twice)} is given twice in one object; remove one")
    return members


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _check_values(config: Config) -> None:
    """Reject deep nesting, and lone surrogates: Ignition would write another character."""
    pending: list[tuple[Any, int]] = [(config, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise _make_error("nested too deeply for a config")
        if isinstance(value, dict):
            pending.extend((inner, depth + 1) for each in value.items() for inner in each)
        elif isinstance(value, list):
            pending.extend((inner, depth + 1) for inner in value)
        elif isinstance(value, str) and _HALF_CHARACTER.search(value):
            raise _make_error(f"{quoted(value)} has half a character (a lone surrogate)")


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


Item = tuple[str, dict[str, Any]]
"""An object in a config, after its path, such as `storage.files[0]`."""


def items(config: dict[str, Any], path: str) -> list[Item]:
    """Return the objects of a list, by its path such as `storage.files`."""
    nodes = at(config, path) or []
    return [(f"{path}[{number}]", each) for number, each in enumerate(nodes) if each is not None]


def at(config: dict[str, Any], path: str) -> Any:
    """Return the value at a path of names, or None."""
    value: Any = config
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def find_duplicates(values: list[tuple[str, object]], what: str) -> Iterator[ConfigFault]:
    """Yield a fault for each value that occurs again. `values` are places with their values."""
    first: dict[object, str] = {}
    for where, value in values:
        if value in first:
            yield ConfigFault(where, f"{what} {quoted(value)} is given before, by {first[value]}")
        else:
            first[value] = where


def check_path(where: str, path: str) -> Iterator[ConfigFault]:
    """Yield a fault if Ignition would refuse a path on the host."""
    if not path:
        yield ConfigFault(where, "is empty")
    elif not path.startswith("/"):
        yield ConfigFault(where, f"{quoted(path)} is relative; paths begin with /")
    elif "\0" in path:
        yield ConfigFault(where, f"{quoted(path)} has a NUL")
    elif path != posixpath.normpath(path) or path.startswith("//"):
        clean = posixpath.normpath("/" + path.lstrip("/"))
        yield ConfigFault(where, f"{quoted(path)} is not simple; write {quoted(clean)}")


NEWEST: Final = 5
OLDEST: Final = 1
DEFAULT: Final = "3.4.0"
VERSIONS: Final = tuple(f"3.{minor}.0" for minor in range(OLDEST, NEWEST + 1))
"""The supported versions."""
TAKEN_BY_ASSISTED_SERVICE: Final = VERSIONS[:2]
"""The versions that the assisted-service accepts in overrides: `ParseToLatest` in its
internal/common/ignition reads no newer one.
"""

DEFAULT_FOR_ASSISTED_SERVICE: Final = TAKEN_BY_ASSISTED_SERVICE[-1]

_SEMANTIC: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)


def parse_minor(version: object) -> int:
    """Return the minor version of 3.x. Raises ValueError, with the reason, for other versions."""
    if not isinstance(version, str) or not version:
        raise ValueError("no version; write one such as 3.4.0")
    if not _SEMANTIC.fullmatch(version):
        raise ValueError(f"{version[:40]!a} is not a version; write one such as 3.4.0")
    if version in VERSIONS:
        return VERSIONS.index(version) + OLDEST
    versions = f"{VERSIONS[0]} to {VERSIONS[-1]} are known here"
    if version == "3.0.0":
        raise ValueError(f"3.0.0 is too old, {versions}; it may be called 3.1.0, and nothing else changes")
    if version.startswith(("1.", "2.")):
        raise ValueError(
            f"{version} is of another specification than 3.x; {versions}: convert the config first"
        )
    if "-" in version:
        raise ValueError(f"{version} is not a stable version; {versions}; use one of those")
    raise ValueError(f"{version} is not known; {versions}; use one of those")


_SECONDS = 60.0
_MAX_OUTPUT_BYTES = 64 << 20  # butane prints the resulting config
_REPORTED = re.compile(r"(error|warning) at \$\.?(\S*?)(?:, line \d+ col \d+)?: (.*)")
_UNKNOWN_VERSION = ("unsupported config version", "No translator exists")
"""The messages of tools that are older than the version of the config."""


def validate(config: bytes) -> tuple[str, ...]:
    """Return the warnings of ignition-validate; none if it is not installed or does not know the version.

    Raises BadConfigError if it rejects the config.
    """
    return _run_validator(("ignition-validate", "-"), config)


def validate_butane(config: bytes) -> None:
    """Raise BadConfigError if butane is installed, knows the version, and rejects a config."""
    _run_validator(("butane", "--strict"), config)


def _run_validator(command: Sequence[str], config: bytes) -> tuple[str, ...]:
    with tempfile.TemporaryFile() as stdin:
        stdin.write(config)
        stdin.seek(0)
        try:
            status, printed, _ = run(
                command, os.environ, Deadline(_SECONDS), _MAX_OUTPUT_BYTES, is_merged=True, stdin=stdin
            )
        except ProgramError:
            return ()
    output = printed.decode(errors="replace")
    if any(words in output for words in _UNKNOWN_VERSION):
        return ()
    reported = list(_parse_report(output))
    if status != 0:
        errors = tuple(fault for kind, fault in reported if kind == "error")
        why = " ".join(output.split()) or f"exit status {status}"
        raise BadConfigError(errors or (ConfigFault("", f"{command[0]}: {why}"),))
    return tuple(f"{fault}; {command[0]} says it" for kind, fault in reported if kind == "warning")


def _parse_report(output: str) -> Iterator[tuple[str, ConfigFault]]:
    for line in output.splitlines():
        if match := _REPORTED.match(line):
            yield match[1], ConfigFault(re.sub(r"\.(\d+)", r"[\1]", match[2]), match[3])

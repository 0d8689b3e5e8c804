"""Reads a config, and names the faults in it with their places.

ignition-validate and butane are asked about it, too, where they are installed.
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
    """A config that cannot be used; the text is one line."""

    def __init__(self, faults: tuple[ConfigFault, ...]) -> None:
        more = len(faults) - 1
        rest = f" (and {more} more)" if more else ""
        super().__init__(f"{faults[0]}{rest}")
        self.faults = faults


def quoted(value: object) -> str:
    """Return a value of a config for a message: on one line, and not long."""
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_LONGEST = 60


Config = dict[str, Any]
"""A config as JSON has it."""

_DEEPEST: Final = 50
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_MOST_DIGITS: Final = 20
MOST: Final = 64 << 20
"""Bytes of a config; the largest that anybody serves are a few MiB."""


def read_config(data: bytes) -> Config:
    """Parse the document; raises BadConfigError if it is not one.

    Stricter than Ignition in what it would silently pick one of: fields that are given twice, and bytes that
    are no UTF-8.
    """
    if len(data) > MOST:
        raise _bad(f"{len(data):,} bytes; a config has at most {MOST:,}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _bad(f"line {line}: no UTF-8; an Ignition config is JSON") from None
    if not text.strip():
        raise _bad("empty; an Ignition config is a JSON object")
    try:
        config = json.loads(
            text, object_pairs_hook=_each_once, parse_int=_number, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        hint = _instead(text)
        raise _bad(f"line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}{hint}") from None
    except RecursionError:
        raise _bad("nested too deeply for a config") from None
    except ValueError as error:
        raise _bad(str(error)) from None
    if not isinstance(config, dict):
        raise _bad(f"{quoted(config)} is not an object, as an Ignition config is")
    _look_through(config)
    return config


def _bad(what: str) -> BadConfigError:
    return BadConfigError((ConfigFault("", what),))


def _instead(text: str) -> str:
    """Describe what the input is instead, if that is obvious."""
    begin = text.lstrip("\ufeff \t\r\n")
    if text.startswith("\ufeff"):
        return "; remove the byte order mark at its beginning"
    if begin.startswith("variant:") or "\nvariant:" in begin:
        return "; this looks like Butane, make an Ignition config of it first: butane FILE"
    if begin.startswith(("apiVersion:", "kind:")):
        return "; this looks like a MachineConfig, give what is in its spec.config, as JSON"
    return ""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in members if names.count(name) > 1)
        raise ValueError(f"{quoted(twice)} is given twice in one object; remove one")
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _look_through(config: Config) -> None:
    """Refuse data nested too deeply, and half a surrogate pair: Ignition would write another character."""
    pending: list[tuple[Any, int]] = [(config, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > _DEEPEST:
            raise _bad("nested too deeply for a config")
        if isinstance(value, dict):
            pending.extend((inner, depth + 1) for each in value.items() for inner in each)
        elif isinstance(value, list):
            pending.extend((inner, depth + 1) for inner in value)
        elif isinstance(value, str) and _HALF_CHARACTER.search(value):
            raise _bad(f"{quoted(value)} has half a character (a lone surrogate)")


def _number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


Item = tuple[str, dict[str, Any]]
"""An object of a config, with its place before it."""


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
    """Yield those of some places and values whose value came before."""
    first: dict[object, str] = {}
    for where, value in values:
        if value in first:
            yield ConfigFault(where, f"{what} {quoted(value)} is given before, by {first[value]}")
        else:
            first[value] = where


def check_path(where: str, path: str) -> Iterator[ConfigFault]:
    """Yield the reasons why Ignition would not accept a path of something on the host."""
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
"""The versions whose rules we know."""
TAKEN_BY_ASSISTED_SERVICE: Final = VERSIONS[:2]
"""The versions that the assisted-service takes in its overrides. It reads no newer one: `ParseToLatest` in
its internal/common/ignition.
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
_MAX_OUTPUT_BYTES = 64 << 20  # butane prints the config it makes
_REPORTED = re.compile(r"(error|warning) at \$\.?(\S*?)(?:, line \d+ col \d+)?: (.*)")
_UNKNOWN_VERSION = ("unsupported config version", "No translator exists")
"""Older tools say it of newer configs, which they cannot judge."""


def validate(config: bytes) -> tuple[str, ...]:
    """Return the warnings of ignition-validate, none if it is not installed or does not know the version.

    Raises BadConfigError where it refuses the config.
    """
    return _judge(("ignition-validate", "-"), config)


def validate_butane(config: bytes) -> None:
    """Raise BadConfigError if butane is installed, knows the version, and rejects a config."""
    _judge(("butane", "--strict"), config)


def _judge(command: Sequence[str], config: bytes) -> tuple[str, ...]:
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
    reported = list(_reported(output))
    if status != 0:
        errors = tuple(fault for kind, fault in reported if kind == "error")
        why = " ".join(output.split()) or f"exit status {status}"
        raise BadConfigError(errors or (ConfigFault("", f"{command[0]}: {why}"),))
    return tuple(f"{fault}; {command[0]} says it" for kind, fault in reported if kind == "warning")


def _reported(output: str) -> Iterator[tuple[str, ConfigFault]]:
    for line in output.splitlines():
        if match := _REPORTED.match(line):
            yield match[1], ConfigFault(re.sub(r"\.(\d+)", r"[\1]", match[2]), match[3])

"""The bytes of a config to its document."""

import json
import re
from typing import Any, Final

from service_record.deploy.ignition.fault import BadConfigError, Fault, quoted

Config = dict[str, Any]
"""A config as JSON has it."""

_DEEPEST: Final = 50
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_MOST_DIGITS: Final = 20
MOST: Final = 64 << 20
"""Bytes of a config; the largest that anybody serves are a few MiB."""


def read_config(data: bytes) -> Config:
    """The document; raises BadConfigError where there is none.

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
        raise _bad(f"line {error.lineno}, column {error.colno}: no JSON: {error.msg}{hint}") from None
    except RecursionError:
        raise _bad("nested too deeply for a config") from None
    except ValueError as error:
        raise _bad(str(error)) from None
    if not isinstance(config, dict):
        raise _bad(f"{quoted(config)} is not an object, as an Ignition config is")
    _look_through(config)
    return config


def _bad(what: str) -> BadConfigError:
    return BadConfigError((Fault("", what),))


def _instead(text: str) -> str:
    """What it is that somebody has given us, where that is plain."""
    begin = text.lstrip("\ufeff \t\r\n")
    if text.startswith("\ufeff"):
        return "; remove the byte order mark at its beginning"
    if begin.startswith("variant:") or "\nvariant:" in begin:
        return "; this looks like Butane, make an Ignition config of it first: butane FILE"
    if begin.startswith(("apiVersion:", "kind:")):
        return "; this looks like a MachineConfig, give what is in its spec.config, as JSON"
    return ""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"{quoted(twice)} is given twice in one object; remove one")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _look_through(config: Config) -> None:
    """Refuse what is nested too deeply, and half a surrogate pair: Ignition would write another character."""
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

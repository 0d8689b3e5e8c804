"""The checks of the fields of an entry, one by one.

A check takes the field's name and the value found, and raises `EntryError` on any other kind of value.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from service_record.record.entry import (
    FOR_SIZE,
    NO_UNKNOWN_FIELDS,
    Entry,
    Phase,
    Result,
    RunsLeftOut,
    UnknownFields,
)

_MAX_DOUBLE: Final = 1.7976931348623157e308  # IEEE 754 binary64, all that RFC 8259 section 6 counts on
_MAX_INTEGER: Final = 2**53  # RFC 8259 section 6: what every JSON implementation agrees on
_RFC_3339: Final = re.compile(
    r"(?!0|9999)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,15})?(Z|[+-]\d\d:\d\d)", re.ASCII
)
"""A time of a year that Python has in every time zone."""
_MAX_SHOWN_CHARACTERS: Final = 40
_MAX_DEPTH: Final = 100  # well below what encoders take: what is read can be written again

_Word = TypeVar("_Word", bound=StrEnum)


class EntryError(ValueError):
    """The reason why a JSON value is not an entry, in one line that names the field."""


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise EntryError(f"{name}: expected a text, found {describe_value(value)}")
    return value


def texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise EntryError(f"{name}: expected a list of texts, found {describe_value(value)}")
    return tuple(value)


def whole_number(name: str, value: object) -> int:
    if type(value) is not int or not -_MAX_INTEGER < value < _MAX_INTEGER:
        raise EntryError(f"{name}: expected a whole number, found {describe_value(value)}")
    return value


def seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_DOUBLE:
        raise EntryError(f"{name}: expected a number of seconds, found {describe_value(value)}")
    return float(value)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise EntryError(f"{name}: expected true or false, found {describe_value(value)}")
    return value


def timestamp(name: str, value: object) -> str:
    """Return an RFC 3339 time, kept as written.

    A leap second (`:60`) is not one to Python, nor to a Linux clock.
    """
    written = text(name, value)
    try:
        moment = _RFC_3339.fullmatch(written) and datetime.fromisoformat(written)
    except ValueError:
        moment = None
    if not moment:
        raise EntryError(f"{name}: expected an RFC 3339 time, found {describe_value(value)}")
    return written


def word(kind: type[_Word]) -> Callable[[str, object], _Word]:
    """Return the check for one of the words of an enumeration."""
    words = {str(member): member for member in kind}

    def check(name: str, value: object) -> _Word:
        member = words.get(text(name, value))
        if member is None:
            raise EntryError(f"{name}: unknown word {describe_value(value)}")
        return member

    return check


def unknown(name: str, value: object, depth: int = _MAX_DEPTH) -> object:
    """Return the value of a field that this version does not know: any JSON that can be written again."""
    if isinstance(value, int | float) and not abs(value) <= _MAX_DOUBLE:
        raise EntryError(f"{describe_value(name)}: a number too large")
    if isinstance(value, dict | list):
        if depth == 0:
            raise EntryError(f"{describe_value(name)}: nested deeper than {_MAX_DEPTH}")
        for inner in value.values() if isinstance(value, dict) else value:
            unknown(name, inner, depth - 1)
    return value


def describe_value(value: object) -> str:
    """Return a JSON value for a one-line message, short whatever it is."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and len(value) > _MAX_SHOWN_CHARACTERS:
        return json.dumps(value[:_MAX_SHOWN_CHARACTERS]) + "..."
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        return "a number too large"
    return json.dumps(value)


_NUMBERS: Final = {
    name: attribute
    for name, attribute in zip(
        RunsLeftOut.__struct_encode_fields__, RunsLeftOut.__struct_fields__, strict=True
    )
    if attribute != "reason"
}
"""Name on disk -> attribute."""


def read_left_out(name: str, content: object) -> RunsLeftOut:
    """Return what an entry says was left out before it. Raises `EntryError` on any other kind of value."""
    if not isinstance(content, Mapping):
        raise EntryError(f"{name}: expected an object, found {describe_value(content)}")
    counts: dict[str, int] = {}
    for key, value in content.items():
        attribute = _NUMBERS.get(key)
        if attribute is not None:
            counts[attribute] = whole_number(f"{name}.{key}", value)
            if counts[attribute] < 0:
                raise EntryError(f"{name}.{key}: expected a count, found {describe_value(value)}")
    return RunsLeftOut(reason=text(f"{name}.reason", content.get("reason", FOR_SIZE)), **counts)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str, object], object]]]] = {
    "timestamp": ("timestamp", timestamp),
    "preCommand": ("pre_command", text),
    "postCommand": ("post_command", text),
    "stage": ("stage", text),
    "phase": ("phase", word(Phase)),
    "result": ("result", word(Result)),
    "errorLine": ("error_line", text),
    "errorMessage": ("error_message", text),
    "exitCode": ("exit_code", whole_number),
    "signal": ("signal", text),
    "command": ("command", text),
    "stack": ("stack", texts),
    "errorLineApproximate": ("error_line_approximate", flag),
    "truncated": ("truncated", flag),
    "bootId": ("boot_id", text),
    "invocationId": ("invocation_id", text),
    "pid": ("pid", whole_number),
    "uptime": ("uptime", seconds),
    "serviceResult": ("service_result", text),
    "stopRequest": ("stop_request", text),
    "dropped": ("dropped", whole_number),
    "recorder": ("recorder", text),
    "stageId": ("stage_id", text),
    "parent": ("parent", text),
    "leftOut": ("left_out", read_left_out),
}
"""Name on disk, in the order of writing -> attribute, and what checks and converts its value."""


def read_entry(value: object) -> Entry:
    """Return the entry that a decoded JSON value holds. Raises `EntryError` when it holds none.

    In an optional field null and the empty string mean absent, as upstream's readers take them.
    """
    if not isinstance(value, dict):
        raise EntryError(f"not an object: {describe_value(value)}")
    fields: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, content in value.items():
        known_field = _FIELDS.get(name)
        if known_field is None:
            extra[name] = unknown(name, content)
        elif content is not None and content != "":
            attribute, read = known_field
            fields[attribute] = read(name, content)
    if "phase" not in fields:
        raise EntryError("phase: missing")
    entry = Entry(**fields, extra=UnknownFields(extra) if extra else NO_UNKNOWN_FIELDS)  # type: ignore[arg-type]  # each value was checked by its reader
    if entry.result is not None and entry.phase.is_start:
        raise EntryError(f'result: has no place on "{entry.phase}"')
    return entry

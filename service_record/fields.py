"""What the values of an entry's fields may be: one check for each kind, from JSON to the value kept.

Each takes the field's name and the value found, and raises `EntryError` on any other kind of value.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

_MAX_DOUBLE: Final = 1.7976931348623157e308  # IEEE 754 binary64, all that RFC 8259 section 6 counts on
_MAX_INTEGER: Final = 2**53  # RFC 8259 section 6: what every JSON implementation agrees on
_RFC_3339: Final = re.compile(
    r"(?!0|9999)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,15})?(Z|[+-]\d\d:\d\d)", re.ASCII
)
"""Of years that Python has in every time zone."""
_MAX_SHOWN_CHARACTERS: Final = 40
_MAX_DEPTH: Final = 100  # well below what encoders take: what is read can be written again

_Word = TypeVar("_Word", bound=StrEnum)


class EntryError(ValueError):
    """Why a JSON value is not an entry, in one line that names the field."""


def text(name: str, found: object) -> str:
    if not isinstance(found, str):
        raise EntryError(f"{name}: expected a text, found {shown(found)}")
    return found


def texts(name: str, found: object) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise EntryError(f"{name}: expected a list of texts, found {shown(found)}")
    return tuple(found)


def whole_number(name: str, found: object) -> int:
    if type(found) is not int or not -_MAX_INTEGER < found < _MAX_INTEGER:
        raise EntryError(f"{name}: expected a whole number, found {shown(found)}")
    return found


def seconds(name: str, found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= _MAX_DOUBLE:
        raise EntryError(f"{name}: expected a number of seconds, found {shown(found)}")
    return float(found)


def flag(name: str, found: object) -> bool:
    if not isinstance(found, bool):
        raise EntryError(f"{name}: expected true or false, found {shown(found)}")
    return found


def timestamp(name: str, found: object) -> str:
    """An RFC 3339 time, kept as written. A leap second (`:60`) is not one to Python, nor to a Linux clock."""
    written = text(name, found)
    try:
        known = _RFC_3339.fullmatch(written) and datetime.fromisoformat(written)
    except ValueError:
        known = None
    if not known:
        raise EntryError(f"{name}: expected an RFC 3339 time, found {shown(found)}")
    return written


def word(kind: type[_Word]) -> Callable[[str, object], _Word]:
    """The check for one of the words of an enumeration."""
    words = {str(member): member for member in kind}

    def check(name: str, found: object) -> _Word:
        member = words.get(text(name, found))
        if member is None:
            raise EntryError(f"{name}: unknown word {shown(found)}")
        return member

    return check


def unknown(name: str, found: object, depth: int = _MAX_DEPTH) -> object:
    """The value of a field that this version does not know: any JSON that can be written again."""
    if isinstance(found, int | float) and not abs(found) <= _MAX_DOUBLE:
        raise EntryError(f"{shown(name)}: a number too large")
    if isinstance(found, dict | list):
        if depth == 0:
            raise EntryError(f"{shown(name)}: nested deeper than {_MAX_DEPTH}")
        for inner in found.values() if isinstance(found, dict) else found:
            unknown(name, inner, depth - 1)
    return found


def shown(found: object) -> str:
    """A JSON value for a one-line message, short whatever it is."""
    if isinstance(found, dict | list):
        return "an object" if isinstance(found, dict) else "a list"
    if isinstance(found, str) and len(found) > _MAX_SHOWN_CHARACTERS:
        return json.dumps(found[:_MAX_SHOWN_CHARACTERS]) + "..."
    if isinstance(found, int) and abs(found) > _MAX_INTEGER:
        return "a number too large"
    return json.dumps(found)

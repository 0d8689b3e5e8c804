"""The fields of an entry: checked when they are read, and cut to a line that fits its limit when written.

A check takes the field's name and the value found, and raises `EntryError` on any other kind of value.
Durations as people write them are read here, too. It needs the standard library only.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(?:(\d{1,9}(?:\.\d{1,3})?)([smhd]?))(?: ?(\d{1,9})([smhd]))?", re.ASCII)


def parse_duration(text: str) -> float:
    """The seconds that a person means: `90`, `90s`, `5m`, `1h30m`, `1.5h`. ValueError when that is none."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is no duration; durations are like 90s, 5m, 1h30m")
    number, unit, more, smaller = found.groups()
    if more and not unit:
        raise ValueError(f"{text!r} is no duration; durations are like 90s, 5m, 1h30m")
    return float(number) * _UNITS[unit or "s"] + (int(more) * _UNITS[smaller] if more else 0)


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


FOR_SIZE: Final = "size"
"""The reason: the record had outgrown its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsLeftOut:
    """The runs that were left out right before the run whose first entry carries this."""

    reason: str = FOR_SIZE
    succeeded: int = 0
    stopped: int = 0
    failed: int = 0
    """Runs that failed, were interrupted, or continued after a failure."""
    alike: int = 0
    """How many of them, in a row up to this run, came to the same end in the same place as this run."""
    boots: int = 0
    """Earlier boots of which no run is left."""
    boot_runs: int = 0
    """The runs of those boots, which are in no other number here."""
    rotations: int = 0
    """On the first entry of a file: how often the file was rotated. No two beginnings of it are the same."""

    @property
    def runs(self) -> int:
        """Return how many runs of the same boot were left out."""
        return self.succeeded + self.stopped + self.failed

    def to_json(self) -> dict[str, object]:
        """Return the numbers that are not 0, under their names on disk."""
        numbers = {name: getattr(self, attribute) for name, attribute in _NUMBERS.items()}
        return {"reason": self.reason} | {name: number for name, number in numbers.items() if number}


_NUMBERS: Final = {
    "succeeded": "succeeded",
    "stopped": "stopped",
    "failed": "failed",
    "alike": "alike",
    "boots": "boots",
    "bootRuns": "boot_runs",
    "rotations": "rotations",
}


def read_left_out(name: str, found: object) -> RunsLeftOut:
    """Return what an entry says was left out before it. Raises `EntryError` on any other kind of value."""
    if not isinstance(found, Mapping):
        raise EntryError(f"{name}: expected an object, found {shown(found)}")
    known: dict[str, int] = {}
    for key, value in found.items():
        attribute = _NUMBERS.get(key)
        if attribute is not None:
            known[attribute] = whole_number(f"{name}.{key}", value)
            if known[attribute] < 0:
                raise EntryError(f"{name}.{key}: expected a count, found {shown(value)}")
    return RunsLeftOut(reason=text(f"{name}.reason", found.get("reason", FOR_SIZE)), **known)


_CUT: Final = "\u2026"
_CUT_BYTES: Final = len(_CUT.encode())
_MESSAGE_FLOOR_BYTES: Final = 1024
"""What a message keeps while there are frames, a command or unknown fields to give way instead."""

_STRUCTURE: Final = ("timestamp", "phase", "result")
_NAMES: Final = ("stage", "preCommand", "postCommand")

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encoded(fields: Mapping[str, object]) -> bytes:
    """One line of UTF-8 with its newline. Lone surrogates, which UTF-8 cannot carry, become U+FFFD.

    Raises what the JSON encoder raises on a value that JSON cannot carry.
    """
    text = _encode(fields) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_lone_surrogates(text).encode()


def without_lone_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and each surrogate that stands alone replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mended(text: str) -> str:
    r"""The text without lone surrogates: bytes that are not UTF-8 (PEP 383) as `\xNN`, others as U+FFFD."""
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:
        return without_lone_surrogates(text)


def first_bytes_of(text: str, limit: int) -> str:
    """As many whole characters as `limit` bytes of UTF-8 hold."""
    return without_lone_surrogates(text).encode()[:limit].decode(errors="ignore")


def cut_to(limit: int, fields: dict[str, object], known: frozenset[str]) -> dict[str, object]:
    """The fields with texts cut until their line has at most `limit` bytes, the least telling first.

    `known` are the names of format fields; any other field goes whole or stays whole.
    """
    cut = dict(fields)
    for give_way in (_cut_message, _cut_stack, _cut_command, _drop_unknown, _cut_texts):
        excess = len(encoded(cut)) - limit
        if excess <= 0:
            break
        give_way(cut, excess, known)
    return cut


def _cut_message(fields: dict[str, object], excess: int, _known: frozenset[str]) -> None:
    message = fields.get("errorMessage")
    if isinstance(message, str):
        room = max(_size(message) - excess, _MESSAGE_FLOOR_BYTES)
        fields["errorMessage"] = _last_of(message, room)


def _cut_stack(fields: dict[str, object], excess: int, _known: frozenset[str]) -> None:
    frames = fields.get("stack")
    if not isinstance(frames, list):
        return
    kept = list(frames)
    while kept and excess > 0:
        excess -= _size(kept.pop()) + len('"",')
    fields["stack"] = kept
    if not kept:
        del fields["stack"]


def _cut_command(fields: dict[str, object], excess: int, _known: frozenset[str]) -> None:
    command = fields.get("command")
    if isinstance(command, str):
        _put(fields, "command", _first_of(command, _size(command) - excess))


def _drop_unknown(fields: dict[str, object], excess: int, known: frozenset[str]) -> None:
    for name in [name for name in reversed(fields) if name not in known]:
        if excess <= 0:
            return
        excess -= len(encoded({name: fields.pop(name)})) - len("{}\n") + len(",")


def _cut_texts(fields: dict[str, object], excess: int, _known: frozenset[str]) -> None:
    """Cut the longest texts, names only after all others."""
    texts = {name: text for name, text in fields.items() if isinstance(text, str) and name not in _STRUCTURE}
    for name, text in sorted(texts.items(), key=lambda item: (item[0] in _NAMES, -_size(item[1]))):
        if excess <= 0:
            return
        keep = _last_of if name == "errorMessage" else _first_of
        before = len(encoded(fields))
        _put(fields, name, keep(text, _size(text) - excess))
        excess -= before - len(encoded(fields))


def _put(fields: dict[str, object], name: str, text: str) -> None:
    if text:
        fields[name] = text
    else:
        del fields[name]


def _size(text: str) -> int:
    """Bytes the text takes inside JSON, without its quotes."""
    return len(encoded({"": text})) - len('{"":""}\n')


def _first_of(text: str, room: int) -> str:
    """As much of the beginning as `room` bytes of JSON hold, and the sign that more stood there."""
    if _size(text) <= room:
        return text
    kept = _fitting(text[: max(room, 0)], room - _CUT_BYTES)
    return text[:kept] + _CUT if kept else ""


def _last_of(text: str, room: int) -> str:
    """The same from the end."""
    if _size(text) <= room:
        return text
    kept = _fitting(text[::-1][: max(room, 0)], room - _CUT_BYTES)
    return _CUT + text[len(text) - kept :] if kept else ""


def _fitting(text: str, room: int) -> int:
    """How many characters of the text fit."""
    for index, character in enumerate(text):
        room -= _size(character)
        if room < 0:
            return index
    return len(text)

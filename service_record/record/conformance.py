"""Checks that a record is as a writer leaves it: JSON Lines or one closed array, with only entries in it.

Our reader takes much more than that; other programs do not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

import msgspec
import orjson

from service_record.record.entry import BYTE_ORDER_MARK, Entry, Malformed, describe_value
from service_record.record.layout import read_entries

_HEAD_BYTES: Final = 4096
_FIELDS_OF_UPSTREAM: Final = frozenset(
    {"timestamp", "precommand", "postcommand", "stage", "phase", "result", "errorline", "errormessage"}
)
_TOKEN: Final = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)
"""An escape in a string, a quote, or the beginning or end of an array or object."""


class FormatFault(msgspec.Struct, frozen=True):
    """A fault of a record, with its place."""

    line: int
    """The line, from 1."""
    reason: str


def examine(stream: BinaryIO) -> Iterator[Entry | FormatFault]:
    """Yield every entry of a record and every fault, in the order of the file; the stream must be seekable.

    Where all pieces are entries, the first place that a strict reader of the file's layout refuses is the
    fault. For that an array is held in memory, as those readers hold it.
    """
    is_whole = True
    for piece in read_entries(stream):
        if isinstance(piece, Malformed):
            is_whole = False
            yield FormatFault(piece.line, piece.reason)
        else:
            yield piece
    fault = _departure(stream) if is_whole else None
    if fault is not None:
        yield fault


def is_array(stream: BinaryIO) -> bool:
    """Return whether a record begins as an array; the stream is at its beginning afterwards."""
    stream.seek(0)
    head = stream.read(_HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)
    stream.seek(0)
    return head.lstrip().startswith(b"[")


def _departure(stream: BinaryIO) -> FormatFault | None:
    array = is_array(stream)
    if stream.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK:
        return FormatFault(1, "a byte order mark, which JSON has not")
    stream.seek(0)
    return _departure_from_array(stream.read()) if array else _departure_from_lines(stream)


def _departure_from_array(content: bytes) -> FormatFault | None:
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        number = _lines_of_objects(error.doc[error.pos :])
        reason = _behind(number) if number else f"not one closed JSON array: {error.msg}"
        return FormatFault(error.lineno, reason)
    for value in values:
        if not isinstance(value, dict):
            return FormatFault(_line_of_inner_array(content), f"not an object: {describe_value(value)}")
        refused = _refused_field(value)
        if refused is not None:
            return FormatFault(_line_of_field(content, refused.partition(":")[0]), refused)
    return None


def _refused_field(entry: Mapping[str, object]) -> str | None:
    """Return why Go refuses an entry: it takes upstream's fields in any case, and only texts in them."""
    for name, value in entry.items():
        if name.casefold() in _FIELDS_OF_UPSTREAM and not isinstance(value, str | None):
            return f"{name}: expected a text, found {describe_value(value)}"
    return None


def _line_of_field(content: bytes, name: str) -> int:
    """Return the line of the first field of that name with another value than a text."""
    match = re.search(rb'(?<!\\)"%s"\s*:\s*(?!["n\s])' % re.escape(name.encode()), content)
    return 1 + content.count(b"\n", 0, match.start() if match else 0)


def _line_of_inner_array(content: bytes) -> int:
    """Return the line of the first array right within the outer one."""
    depth = place = 0
    is_in_string = False
    for token in _TOKEN.finditer(content):
        if token[0] == b'"':
            is_in_string = not is_in_string
        elif not is_in_string:
            place = token.start()
            if token[0] == b"[" and depth == 1:
                break
            depth += (token[0] in b"[{") - (token[0] in b"]}")
    return 1 + content.count(b"\n", 0, place)


def _lines_of_objects(text: str) -> int:
    """Return how many objects the text is, each on a line of its own; 0 when it is anything else."""
    try:
        values = [orjson.loads(line) for line in text.split("\n") if line.strip()]
    except orjson.JSONDecodeError:
        return 0
    return len(values) if all(isinstance(value, dict) for value in values) else 0


def _behind(number: int) -> str:
    """Return what a writer leaves that cannot wait for its turn to put an entry into the array."""
    things, them = ("entry", "it") if number == 1 else ("entries", "them")
    return (
        f"{number} {things} behind the array, which other readers do not see: "
        f"the exit helper folds {them} in, or --salvage does"
    )


def _departure_from_lines(stream: BinaryIO) -> FormatFault | None:
    is_empty = True
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        is_empty = False
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            return FormatFault(number, f"not JSON Lines: {error.msg}")
        if not isinstance(value, dict):
            return FormatFault(number, "not JSON Lines: an array")
        reason = _refused_field(value)
        if reason is not None:
            return FormatFault(number, reason)
    return FormatFault(1, "empty: nothing was ever written, or all of it is lost") if is_empty else None

"""Check that a record conforms to its format: JSON Lines or one closed array, of entries only.

Our reader accepts much more than that. Other programs do not.
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
    """Yield every entry and every fault of a record, in file order. The stream must be seekable.

    If all pieces are entries, the first place that a strict reader would reject is a fault. For this check,
    an array is read into memory, as strict readers do.
    """
    is_whole = True
    for piece in read_entries(stream):
        if isinstance(piece, Malformed):
            is_whole = False
            yield FormatFault(piece.line, piece.reason)
        else:
            yield piece
    fault = _strict_fault(stream) if is_whole else None
    if fault is not None:
        yield fault


def is_array(stream: BinaryIO) -> bool:
    """Return True if a record begins as an array, and seek to its beginning."""
    stream.seek(0)
    head = stream.read(_HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)
    stream.seek(0)
    return head.lstrip().startswith(b"[")


def _strict_fault(stream: BinaryIO) -> FormatFault | None:
    array = is_array(stream)
    if stream.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK:
        return FormatFault(1, "a byte order mark, which JSON has not")
    stream.seek(0)
    return _array_fault(stream.read()) if array else _lines_fault(stream)


def _array_fault(content: bytes) -> FormatFault | None:
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        reason = f"not one closed JSON array: {error.msg}"
        if number := _lines_of_objects(error.doc[error.pos :]):
            # A writer that could not wait for its turn has written these.
            things, them = ("entry", "it") if number == 1 else ("entries", "them")
            reason = (
                f"{number} {things} behind the array, which other readers do not see: "
                f"the exit helper folds {them} in, or --salvage does"
            )
        return FormatFault(error.lineno, reason)
    for value in values:
        if not isinstance(value, dict):
            return FormatFault(_line_of_inner_array(content), f"not an object: {describe_value(value)}")
        refused = _refused_field(value)
        if refused is not None:
            return FormatFault(_line_of_field(content, refused.partition(":")[0]), refused)
    return None


def _refused_field(entry: Mapping[str, object]) -> str | None:
    """Return why Go rejects an entry: it compares upstream's names without case, and accepts only texts."""
    for name, value in entry.items():
        if name.casefold() in _FIELDS_OF_UPSTREAM and not isinstance(value, str | None):
            return f"{name}: expected a text, found {describe_value(value)}"
    return None


def _line_of_field(content: bytes, name: str) -> int:
    """Return the line of the first field with that name whose value is not a text."""
    match = re.search(rb'(?<!\\)"%s"\s*:\s*(?!["n\s])' % re.escape(name.encode()), content)
    return 1 + content.count(b"\n", 0, match.start() if match else 0)


def _line_of_inner_array(content: bytes) -> int:
    """Return the line of the first array directly inside the outer one."""
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
    """Return the number of objects if the text has one object in each line; 0 for any other text."""
    try:
        values = [orjson.loads(line) for line in text.split("\n") if line.strip()]
    except orjson.JSONDecodeError:
        return 0
    return len(values) if all(isinstance(value, dict) for value in values) else 0


def _lines_fault(stream: BinaryIO) -> FormatFault | None:
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

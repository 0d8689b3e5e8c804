"""Locate the pieces at the end of a record that is being written. Pure.

`layout` defines the pieces. Here, each piece also gets the time for which it must be unchanged to count as
completely written. A piece with a line of its own, as our writers write it, also gets the offset of the line,
so that the next look can begin after it.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Final

import msgspec
import orjson
from msgspec import structs

from service_record.record.entry import BYTE_ORDER_MARK, MAX_REGION_BYTES, Entry, EntryError, Malformed, Piece
from service_record.record.layout import read_entries
from service_record.record.recovery import OBJECT_LINE, STRUCTURE, Region, entry_of

UNSETTLED_SECONDS: Final = 0.03
"""The wait for an entry of an array: a reader may see only a part of a write."""
UNFINISHED_SECONDS: Final = 1.0
"""The wait for a damaged piece, which may be an unfinished write, although writes take microseconds."""

_FOREIGN_LINE: Final = re.compile(
    rb"^[\[\], \t\r]* (?! \{ [^\n]* \} [\[\], \t\r]* $ ) ([^\[\], \t\r\n] [^\n]*)", re.MULTILINE | re.VERBOSE
)
"""A line that is neither blank nor an object."""
_MAY_BE_TAKEN_APART: Final = re.compile(rb"[\[\]{]")
"""A region without these characters is one piece."""
_BETWEEN_ELEMENTS: Final = (b"[\n", b",\n")
"""The bytes that our writers put before an element of an array.

After other bytes, a writer may be moving the entry into the array: it has overwritten the closing bracket,
but not yet the old copy of the entry.
"""


class LocatedPiece(msgspec.Struct, frozen=True):
    """A piece with its position in the file."""

    piece: Piece
    line: int
    """The line number, from 1; 0 for an entry without a line of its own."""
    wait_seconds: float = 0
    """Seconds for which the piece must be unchanged before it counts as completely written."""
    start: int = 0
    raw: bytes = b""
    """The bytes at `start`; empty for a piece without a line of its own."""


def located_pieces_in(
    data: bytes, offset: int, line: int, *, is_array: bool, is_end: bool
) -> list[LocatedPiece]:
    """Return the pieces in `data`, which begins at `offset` of the file and in line `line`.

    If `data` does not reach the end of the file (`is_end`), lines after its last entry are left for later.
    """
    pieces: list[LocatedPiece] = []
    region = _Region(line, is_first=offset == 0)
    done = 0
    for row in _split_rows(data, offset):
        entry = _parse_entry(row, region)
        if entry is None:
            region.content += row.content
            continue
        pieces += _locate_pieces(region, is_array=is_array, is_followed=True)
        start = row.start - offset
        is_settled = not is_array or data[done:start] in _BETWEEN_ELEMENTS
        wait_seconds = 0 if is_settled else UNSETTLED_SECONDS
        number = region.line + region.content.count(b"\n")
        pieces.append(LocatedPiece(entry, number, wait_seconds, row.start, row.core))
        done = start + len(row.core)
        region = _Region(number + row.content.count(b"\n"))
    return pieces + (_locate_pieces(region, is_array=is_array, is_followed=False) if is_end else [])


class _LineRow(msgspec.Struct, frozen=True):
    """One line of the file, or several lines that are not entries."""

    content: bytes
    core: bytes
    """The line without the brackets and commas of an array; for several lines, the first non-object."""
    start: int = 0
    """For one line, the offset of `core` in the file."""

    def looks_whole(self) -> bool:
        is_object = self.core.startswith(b"{") and self.core.endswith(b"}")
        return is_object and len(self.content) <= MAX_REGION_BYTES


class _Region(msgspec.Struct):
    """The lines between two lines that are both an entry."""

    line: int
    is_first: bool = False
    """True if it is at the beginning of the file."""
    content: bytearray = msgspec.field(default_factory=bytearray)
    is_taken_apart: bool = False
    """True if a line in it is not JSON, so that the whole region is searched for entries."""


def _split_rows(data: bytes, offset: int) -> Iterator[_LineRow]:
    position = 0
    if offset == 0 and data.startswith(BYTE_ORDER_MARK):
        row = _make_row(data, 0, offset)
        yield row
        position = len(row.content)
    while position < len(data):
        match = OBJECT_LINE.search(data, position)
        begin = match.start() if match else len(data)
        if begin > position:
            foreign = _FOREIGN_LINE.search(data, position, begin)
            yield _LineRow(data[position:begin], foreign[1] if foreign else b"")
        if begin < len(data):
            row = _make_row(data, begin, offset)
            yield row
            begin += len(row.content)
        position = begin


def _make_row(data: bytes, begin: int, offset: int) -> _LineRow:
    """Return the line that begins at `begin` in `data`, which begins at `offset` in the file."""
    end = data.find(b"\n", begin) + 1 or len(data)
    content = data[begin:end]
    text = content.removeprefix(BYTE_ORDER_MARK) if offset + begin == 0 else content
    start = offset + begin + len(content) - len(text.lstrip(STRUCTURE))
    return _LineRow(content, text.strip(STRUCTURE), start)


def _parse_entry(row: _LineRow, region: _Region) -> Entry | None:
    """Return the entry on a line, as `layout` reads it after this region; None if it is not an entry."""
    if not row.looks_whole():
        region.is_taken_apart |= bool(row.core)
        return None
    try:
        return Entry.from_json(orjson.loads(row.core))
    except orjson.JSONDecodeError:
        was_taken_apart, region.is_taken_apart = region.is_taken_apart, True
        return entry_of(row.core) if was_taken_apart else None
    except EntryError:
        return None


def _locate_pieces(region: _Region, *, is_array: bool, is_followed: bool) -> list[LocatedPiece]:
    """Return the pieces of a region.

    In a file of lines, a damaged piece before an entry cannot be an unfinished write. In an array it can,
    because one write changes both.
    """
    if not region.content.strip(STRUCTURE):
        return []
    pieces = list(_read_region(region))
    last_entry = max((index for index, piece in enumerate(pieces) if isinstance(piece, Entry)), default=-1)
    sure = 0 if is_array else len(pieces) if is_followed else last_entry
    return [
        LocatedPiece(
            piece,
            piece.line if isinstance(piece, Malformed) else 0,
            _wait_seconds(piece, is_sure=index < sure),
        )
        for index, piece in enumerate(pieces)
    ]


def _read_region(region: _Region) -> Iterator[Piece]:
    if not (
        region.is_first
        or len(region.content) > MAX_REGION_BYTES
        or _MAY_BE_TAKEN_APART.search(region.content)
    ):
        line_region = Region(region.line)
        line_region.add(bytes(region.content))
        yield from line_region.drain(final=True)
        return
    # Only the beginning of a file may have a byte order mark. Prevent its detection with a line before.
    before = b"" if region.is_first else b"\n"
    shift = region.line - 1 - len(before)
    for piece in read_entries(BytesIO(before + region.content)):
        yield piece if isinstance(piece, Entry) else structs.replace(piece, line=piece.line + shift)


def _wait_seconds(piece: Piece, *, is_sure: bool) -> float:
    if isinstance(piece, Entry):
        return UNSETTLED_SECONDS
    return 0 if is_sure else UNFINISHED_SECONDS

"""Entries out of bytes that are not one entry to a line: indented arrays, glued or torn lines, foreign text.

An object is found by its braces, in one pass; what lies between the entries found is malformed. Lines are
read one by one where they are not all entries as writers write them. The rules are in docs/record-format.md,
"Reading". It takes one pass, bounded memory and linear time.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple, NoReturn

import orjson

from service_record.record.entry import (
    BYTE_ORDER_MARK,
    LEAST_ENTRY_BYTES,
    MAX_REGION_BYTES,
    Entry,
    EntryError,
    Malformed,
    Piece,
)
from service_record.record.line import mended

STRUCTURE: Final = b"[], \t\r\n"
"""The bytes that may stand around an entry: white space, and the brackets and commas of an array."""

_SEPARATORS: Final = b", \t\r\n"
_VALUES: Final = frozenset(bytes([byte]) for byte in b'{["-0123456789tfn')
"""The first bytes of JSON values: a decoder takes longer to find none than all else of a short line."""
_BLANK_SECTOR: Final = b" " * 511 + b"\n"
"""In an array, a sector that was not written yet: docs/record-format.md, "The array layout"."""
_MAX_DEPTH: Final = 16
"""Braces followed at once; bounds how often a byte is looked at, whatever the nesting."""

_NEXT_BRACES: Final = re.compile(
    rb"""
    (?: [^"{}]++
      | "  (?: [^"\\\n{]++                      # a string: ends at its quote, or where it must be torn:
             | \\["\\/bfnrtu]                   # at the end of the line, at an escape that JSON has not,
             | \{ (?! "[^\s,:}\]] | [ \t\r]*\n ) # and before a brace that begins an object
           )*+ "?
      | \{ \s*+ \}
      | \{ (?! \s*+ (?: " | \Z ) )
    )*+
    ( \{ | \}++ )?
    """,
    re.VERBOSE,
)


class Region:
    """A stretch of a record that is taken apart as a whole, from a line of the file on."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._chunks: list[bytes] = []
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)

    def drain(self, *, final: bool) -> Iterator[Entry | Malformed]:
        """Yield all pieces of the region.

        Unless it is final, an object begun in its later half stays for more.
        """
        data = b"".join(self._chunks)
        recovered, opened = _scan(data)
        end = len(data) if final else next((start for start in opened if start > len(data) // 2), len(data))
        done = 0
        for piece in recovered:
            if piece.end > end:
                break
            yield from self._between(data[done : piece.start])
            yield piece.entry
            self._line += data.count(b"\n", piece.start, piece.end)
            done = piece.end
        yield from self._between(data[done:end])
        self._chunks = [data[end:]]
        self.size = len(data) - end

    def _between(self, gap: bytes) -> Iterator[Malformed]:
        """Yield what stood between two entries, if it is more than the structure of an array."""
        if gap.strip(STRUCTURE):
            start = len(gap) - len(gap.lstrip(_SEPARATORS))
            line = self._line + gap.count(b"\n", 0, start)
            text = gap.strip(_SEPARATORS)
            yield Malformed(line, text.decode(errors="backslashreplace"), _reason(text))
        self._line += gap.count(b"\n")


def entry_of(text: bytes) -> Entry | None:
    """Return the entry that the text is, read more leniently than JSON where no other reading is possible."""
    try:
        return Entry.from_json(_value_of(text))
    except ValueError:
        return None


class _RecoveredEntry(NamedTuple):
    start: int
    end: int
    entry: Entry


def _scan(data: bytes) -> tuple[list[_RecoveredEntry], deque[int]]:
    """Return the entries in the data, in order, and where the objects begin that it does not end."""
    recovered: list[_RecoveredEntry] = []
    opened: deque[int] = deque(maxlen=_MAX_DEPTH)
    position = 0
    while (braces := _NEXT_BRACES.match(data, position)) and braces[1]:
        first, position = braces.span(1)
        if braces[1] == b"{":
            opened.append(first)
            continue
        for brace in range(first, position):
            if not opened:
                break
            _keep(recovered, data, opened.pop(), brace + 1)
    return recovered, opened


def _keep(recovered: list[_RecoveredEntry], data: bytes, start: int, end: int) -> None:
    entry = entry_of(data[start:end]) if end - start >= LEAST_ENTRY_BYTES else None
    if entry is None:
        return
    while recovered and recovered[-1].start > start:
        recovered.pop()  # an object inside this entry that could have been one
    recovered.append(_RecoveredEntry(start, end, entry))


def _value_of(text: bytes) -> object:
    """Return the JSON value in the text; ValueError when there is none.

    Bytes that are not UTF-8 become backslash escapes, lone surrogates U+FFFD; control characters other than
    newline and NUL may stand in a string as they are. A writer that copies a journal's bytes makes such
    lines. But NULs, or a blank sector, are what a loss of power leaves between the halves of two other
    entries.
    """
    if _BLANK_SECTOR in text:
        raise ValueError("not one object")
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    decoder = _STRICT if b"\n" in text or b"\0" in text else _LENIENT
    try:
        return decoder.decode(text.decode(errors="surrogateescape"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _mended(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {mended(name): _mended_value(value) for name, value in pairs}


_STRICT: Final = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_mended)
_LENIENT: Final = json.JSONDecoder(strict=False, parse_constant=_refuse, object_pairs_hook=_mended)


def _mended_value(value: object) -> object:
    if isinstance(value, str):
        return mended(value)
    return [_mended_value(item) for item in value] if isinstance(value, list) else value


def _reason(text: bytes) -> str:
    if not text.strip(b"\0"):
        return f"{len(text)} NUL bytes"
    if text[:1] not in _VALUES:
        return "not an entry"
    try:
        Entry.from_json(_value_of(text))
    except EntryError as error:
        return str(error)
    except ValueError:
        pass
    return "a damaged entry" if text.startswith(b"{") else "not an entry"


_MAX_DAMAGED_LINES: Final = 1000
"""Damaged lines of a record that are a piece each; of more, those that follow one another are one piece."""

_CONTENT: Final = re.compile(rb"[^\[\], \t\r\n]")
"""The first byte that is more than the structure of an array."""
OBJECT_LINE: Final = re.compile(
    rb"^[\[\], \t\r]*+ \{ [^\n]{%d,} \} [\[\], \t\r]*+ $" % (LEAST_ENTRY_BYTES - len("{}")),
    re.MULTILINE | re.VERBOSE,
)
"""A line that may be an entry, with the structure of an array around it."""


class Lines:
    """The physical lines of a stream that somebody else reads, too.

    Iterating gives those that look like an entry, up to any other, or to the end of what was looked at ahead.
    """

    def __init__(self, stream: BinaryIO, read_lines: Callable[[], bytes]) -> None:
        """Prepare to read. `read_lines` reads the whole lines that come next in the stream."""
        self._stream = stream
        self._read_lines = read_lines
        self._ahead = BytesIO()
        self._ahead_bytes = 0
        self.following = 1
        """The number of the line behind all that was read."""
        self._number = 0
        self._current = b""
        self._damaged = 0
        """The number of lines that were objects, but not entries."""

    def read(self, text: bytes) -> Iterator[Piece]:
        """Yield the pieces of lines that were just read, and of those behind that belong with the last."""
        self._look_at(text)
        while True:
            yield from self._objects()
            if not self._current:
                return
            yield from self._salvaged()

    def _look_at(self, text: bytes) -> None:
        self._ahead = BytesIO(text)
        self._ahead_bytes = len(text)

    def __iter__(self) -> Iterator[bytes]:
        self._pass_over(_CONTENT)
        while self._is_ahead():
            self._advance()
            core = self._core()
            if core:
                yield core
            elif self._current.strip(STRUCTURE):
                return
            self._pass_over(_CONTENT)
        self._current = b""

    def _advance(self) -> None:
        """Go to the next line."""
        self._number = self.following
        self._current = self._ahead.readline(MAX_REGION_BYTES)
        if not self._current.endswith(b"\n"):
            self._current += self._stream.readline(MAX_REGION_BYTES - len(self._current))
        self.following += self._current.endswith(b"\n")
        if self._number == 1:
            self._current = self._current.removeprefix(BYTE_ORDER_MARK)

    def _advance_to_object(self) -> bytes:
        """Give the lines that cannot be an entry, or the next line where that may be one, and go behind.

        Gives nothing at the end of the stream.
        """
        if not self._is_ahead():
            self._look_at(self._read_lines())
        self._current = b""
        passed = self._pass_over(OBJECT_LINE)
        if not passed:
            self._advance()
        return passed or self._current

    def _is_ahead(self) -> bool:
        return self._ahead.tell() < self._ahead_bytes

    def _pass_over(self, pattern: re.Pattern[bytes]) -> bytes:
        """Go behind the whole lines ahead before the first in which that is, and give them."""
        begin = self._ahead.tell()
        text = self._ahead.getvalue()
        match = pattern.search(text, begin)
        end = text.rfind(b"\n", begin, match.start() if match else None) + 1
        if end <= begin:
            return b""
        passed = text[begin:end]
        self.following += passed.count(b"\n")
        self._ahead.seek(end)
        return passed

    def _core(self) -> bytes:
        """Return the line without an array's structure around it if that looks like an object; else
        nothing.
        """
        core = self._current.strip(STRUCTURE)
        return core if core.startswith(b"{") and core.endswith(b"}") else b""

    def _objects(self) -> Iterator[Piece]:
        """Yield the pieces of the lines that are JSON, up to the first that is to be taken apart."""
        for core in self:
            try:
                yield Entry.from_json(orjson.loads(core))
            except orjson.JSONDecodeError:
                return
            except EntryError as error:
                self._damaged += 1
                if self._damaged > _MAX_DAMAGED_LINES:
                    return
                yield Malformed(self._number, core.decode(), str(error))

    def _salvaged(self) -> Iterator[Piece]:
        """Yield the pieces from the current line on, up to and with the next line that is just an entry."""
        region = Region(self._number)
        region.add(self._current)
        while text := self._advance_to_object():
            core = self._core()
            entry = entry_of(core) if core else None
            if entry is not None:
                yield from region.drain(final=True)
                yield entry
                return
            if region.size + len(text) > MAX_REGION_BYTES:
                yield from region.drain(final=False)
            region.add(text)
        yield from region.drain(final=True)

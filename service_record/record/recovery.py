"""Find entries in indented arrays, glued or torn lines, and foreign text.

Objects are found by their braces, in one pass, in bounded memory and in linear time for any input.
The bytes between two entries are reported as malformed. The rules are in docs/record-format.md, "Reading".
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
from service_record.record.line import make_encodable

STRUCTURE: Final = b"[], \t\r\n"
"""Bytes allowed around an entry: white space, and the brackets and commas of an array."""

_SEPARATORS: Final = b", \t\r\n"
_VALUES: Final = frozenset(bytes([byte]) for byte in b'{["-0123456789tfn')
"""First bytes of JSON values. This check is much cheaper than an attempt to decode foreign text."""
_BLANK_SECTOR: Final = b" " * 511 + b"\n"
"""A sector of an array that was not written yet: docs/record-layouts.md, "The array layout"."""
_MAX_DEPTH: Final = 16
"""Maximum number of objects tracked at the same time. It limits how often deeply nested bytes are decoded."""

# Debian 12's own Python (3.11.2) skips matches of possessive quantifiers and atomic groups, so there are none
# here. Ordinary repetitions of a group are bounded instead, because `re` remembers each one for backtracking:
# without a bound, a long hostile record would fill the memory. Alternatives begin with different bytes, so
# backtracking is cheap: each byte is examined only a few times.
_NEXT_BRACES: Final = re.compile(
    rb"""
    (?: [^"{}]+
      | " [^"\\\n{]* (?: \\["\\/bfnrtu] [^"\\\n{]* ){0,50} "  # most strings; _scan takes the others
      | \{ \s* \}
      | \{ (?! \s* (?: " | \Z ) )
    ){0,100}
    ( \{ (?= \s* (?: " | \Z ) ) | \}+ )?
    """,
    re.VERBOSE,
)
"""Everything up to the next brace that begins or ends an object, that brace, and `}` that follow it."""
_STRING_PART: Final = re.compile(
    rb"""
    (?: [^"\\\n{]+
      | \\["\\/bfnrtu]
      | \{ (?! "[^\s,:}\]] | [ \t\r]*\n )
    ){1,1000}
    """,
    re.VERBOSE,
)
"""A part of a string. A torn string has no quote at its end.

It ends at the end of the line, at an escape that JSON does not have, or before a brace that begins an object.
"""


class Region:
    """Consecutive bytes of a record, searched for entries as a whole."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._chunks: list[bytes] = []
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)

    def drain(self, *, final: bool) -> Iterator[Entry | Malformed]:
        """Yield the pieces of the region and empty it.

        Unless `final`, an unfinished object that begins in the second half is kept: its end may still be
        added.
        """
        data = b"".join(self._chunks)
        recovered, opened = _scan(data)
        end = len(data) if final else next((start for start in opened if start > len(data) // 2), len(data))
        done = 0
        for piece in recovered:
            if piece.end > end:
                break
            yield from self._report_gap(data[done : piece.start])
            yield piece.entry
            self._line += data.count(b"\n", piece.start, piece.end)
            done = piece.end
        yield from self._report_gap(data[done:end])
        self._chunks = [data[end:]]
        self.size = len(data) - end

    def _report_gap(self, gap: bytes) -> Iterator[Malformed]:
        """Yield the bytes between two entries, unless they are only the structure of an array."""
        if gap.strip(STRUCTURE):
            start = len(gap) - len(gap.lstrip(_SEPARATORS))
            line = self._line + gap.count(b"\n", 0, start)
            text = gap.strip(_SEPARATORS)
            yield Malformed(line, text.decode(errors="backslashreplace"), _find_fault(text))
        self._line += gap.count(b"\n")


def entry_of(text: bytes) -> Entry | None:
    """Return the entry in the text, or None.

    Some text that is not strict JSON is accepted if its meaning is clear: see `_decode_value`.
    """
    try:
        return Entry.from_json(_decode_value(text))
    except ValueError:
        return None


class _RecoveredEntry(NamedTuple):
    start: int
    end: int
    entry: Entry


def _scan(data: bytes) -> tuple[list[_RecoveredEntry], deque[int]]:
    """Return the entries in the data in order, and the offsets of the objects without an end."""
    recovered: list[_RecoveredEntry] = []
    opened: deque[int] = deque(maxlen=_MAX_DEPTH)
    next_braces, string_part = _NEXT_BRACES.match, _STRING_PART.match  # hot loop: bind the methods once
    position = 0
    while position < len(data) and (match := next_braces(data, position)):
        position = match.end()
        braces = match[1]
        if braces is None:
            if data.startswith(b'"', position):  # a string, whole or torn
                position += 1
                while part := string_part(data, position):
                    position = part.end()
                if data.startswith(b'"', position):
                    position += 1
        elif braces == b"{":
            opened.append(position - 1)
        else:
            for end in range(match.start(1) + 1, position + 1):
                if not opened:
                    break
                _keep(recovered, data, opened.pop(), end)
    return recovered, opened


def _keep(recovered: list[_RecoveredEntry], data: bytes, start: int, end: int) -> None:
    entry = entry_of(data[start:end]) if end - start >= LEAST_ENTRY_BYTES else None
    if entry is None:
        return
    while recovered and recovered[-1].start > start:
        recovered.pop()  # an object inside this entry
    recovered.append(_RecoveredEntry(start, end, entry))


def _decode_value(text: bytes) -> object:
    """Return the JSON value in the text. Raises ValueError if there is none.

    Also accepts the output of a writer that copies bytes from a journal: bytes that are not UTF-8 become
    backslash escapes, lone surrogates become U+FFFD, and strings may contain control characters. Newlines
    and NULs in strings, and blank sectors anywhere, are refused: after a power loss they can separate the
    halves of two different entries.
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


def _make_encodable_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {make_encodable(name): _encodable_value(value) for name, value in pairs}


_STRICT: Final = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_make_encodable_object)
_LENIENT: Final = json.JSONDecoder(
    strict=False, parse_constant=_refuse, object_pairs_hook=_make_encodable_object
)


def _encodable_value(value: object) -> object:
    if isinstance(value, str):
        return make_encodable(value)
    return [_encodable_value(item) for item in value] if isinstance(value, list) else value


def _find_fault(text: bytes) -> str:
    """Return why a text is not an entry."""
    if not text.strip(b"\0"):
        return f"{len(text)} NUL bytes"
    if text[:1] not in _VALUES:
        return "not an entry"
    try:
        Entry.from_json(_decode_value(text))
    except EntryError as error:
        return str(error)
    except ValueError:
        pass
    return "a damaged entry" if text.startswith(b"{") else "not an entry"


_MAX_DAMAGED_LINES: Final = 1000
"""Maximum number of damaged lines that are reported separately. Later consecutive ones are one piece."""

_CONTENT: Final = re.compile(rb"[^\[\], \t\r\n]")
"""A byte that does not belong to the structure of an array."""
OBJECT_LINE: Final = re.compile(
    rb"^[\[\], \t\r]* \{ [^\n]{%d,} \} [\[\], \t\r]* $" % (LEAST_ENTRY_BYTES - len("{}")),
    re.MULTILINE | re.VERBOSE,
)
"""A line that may be an entry, perhaps with brackets and commas of an array around it."""


class Lines:
    """Reads lines of a stream that may be damaged or in another layout.

    Iterating yields the lines that look like an entry. It stops at the first other line, which becomes the
    current line, or at the end of the text that was read ahead.
    """

    def __init__(self, stream: BinaryIO, read_lines: Callable[[], bytes]) -> None:
        """`read_lines` returns the next whole lines of the same stream. The caller uses it too."""
        self._stream = stream
        self._read_lines = read_lines
        self._ahead = BytesIO()
        self._ahead_bytes = 0
        self.following = 1
        """Number of the first unread line."""
        self._number = 0
        self._current = b""
        self._damaged = 0
        """Number of lines so far that are objects but not entries."""

    def read(self, text: bytes) -> Iterator[Piece]:
        """Yield the pieces of these lines. If the last line is damaged, also read up to the next entry."""
        self._set_ahead(text)
        while True:
            yield from self._read_objects()
            if not self._current:
                return
            yield from self._recover_pieces()

    def _set_ahead(self, text: bytes) -> None:
        self._ahead = BytesIO(text)
        self._ahead_bytes = len(text)

    def __iter__(self) -> Iterator[bytes]:
        self._skip_to(_CONTENT)
        while self._is_ahead():
            self._advance()
            core = self._find_object()
            if core:
                yield core
            elif self._current.strip(STRUCTURE):
                return
            self._skip_to(_CONTENT)
        self._current = b""

    def _advance(self) -> None:
        """Make the next line the current one."""
        self._number = self.following
        self._current = self._ahead.readline(MAX_REGION_BYTES)
        if not self._current.endswith(b"\n"):
            self._current += self._stream.readline(MAX_REGION_BYTES - len(self._current))
        self.following += self._current.endswith(b"\n")
        if self._number == 1:
            self._current = self._current.removeprefix(BYTE_ORDER_MARK)

    def _advance_to_object(self) -> bytes:
        """Return the next lines that cannot be an entry or, if there are none, the next line.

        Returns nothing at the end of the stream.
        """
        if not self._is_ahead():
            self._set_ahead(self._read_lines())
        self._current = b""
        passed = self._skip_to(OBJECT_LINE)
        if not passed:
            self._advance()
        return passed or self._current

    def _is_ahead(self) -> bool:
        return self._ahead.tell() < self._ahead_bytes

    def _skip_to(self, pattern: re.Pattern[bytes]) -> bytes:
        """Skip and return the whole lines before the first line that contains a match."""
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

    def _find_object(self) -> bytes:
        """Return the object in the current line, without brackets and commas around it; else nothing."""
        core = self._current.strip(STRUCTURE)
        return core if core.startswith(b"{") and core.endswith(b"}") else b""

    def _read_objects(self) -> Iterator[Piece]:
        """Yield the pieces of lines that are valid JSON. Stop at the first line that is not."""
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

    def _recover_pieces(self) -> Iterator[Piece]:
        """Yield the pieces from the current line to the next line that is an entry, inclusive."""
        region = Region(self._number)
        region.add(self._current)
        while text := self._advance_to_object():
            core = self._find_object()
            entry = entry_of(core) if core else None
            if entry is not None:
                yield from region.drain(final=True)
                yield entry
                return
            if region.size + len(text) > MAX_REGION_BYTES:
                yield from region.drain(final=False)
            region.add(text)
        yield from region.drain(final=True)

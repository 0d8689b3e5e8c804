"""Lines of a record read one by one, where they are not all entries as writers write them.

The rules are in docs/record-format.md, "Reading". It takes one pass, bounded memory and linear time.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO, Final

import orjson

from service_record.record.entry import LEAST_ENTRY_BYTES, Entry, Malformed, Piece
from service_record.record.fields import EntryError
from service_record.record.layout import BLOCK_BYTES, BYTE_ORDER_MARK, MAX_REGION_BYTES, read_lines
from service_record.record.recovery import STRUCTURE, Region, entry_of

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

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
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

    def _advance(self) -> bool:
        """Go to the next line; whether there is one."""
        self._number = self.following
        self._current = self._ahead.readline(MAX_REGION_BYTES)
        if not self._current.endswith(b"\n"):
            self._current += self._stream.readline(MAX_REGION_BYTES - len(self._current))
        self.following += self._current.endswith(b"\n")
        if self._number == 1:
            self._current = self._current.removeprefix(BYTE_ORDER_MARK)
        return bool(self._current)

    def _advance_to_object(self) -> bytes:
        """Give the lines that cannot be an entry, or the next line where that may be one, and go behind.

        Gives nothing at the end of the stream.
        """
        if not self._is_ahead():
            self._look_at(read_lines(self._stream, BLOCK_BYTES))
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

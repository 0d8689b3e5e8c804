"""The layouts of a record file: from its bytes to entries, and to what is damaged between them.

Lines, arrays and any mixture of the two are read in one pass, in bounded memory and linear time; the rules
are in docs/record-format.md, "Reading". Plain lines are read many at once, all others carefully, one by one.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO, Final

import orjson

from service_record.record.entry import LEAST_ENTRY_BYTES, Entry, Malformed
from service_record.record.fields import EntryError
from service_record.record.plain import HeldLines, Passage, Reread, Rereadable, Stretch, block_of, pieces_of
from service_record.record.recovery import STRUCTURE, Region, entry_of

MAX_REGION_BYTES: Final = 4 << 20
"""What is held of a file at once. A longer line is read in pieces; no entry is longer."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_BLOCK_BYTES: Final = 1 << 16
"""Of lines that are read together: more is slower, as it leaves the caches of processors."""

_MAX_DAMAGED_LINES: Final = 1000
"""Damaged lines of a record that are a piece each; of more, those that follow one another are one piece."""

_CONTENT: Final = re.compile(rb"[^\[\], \t\r\n]")
"""The first byte that is more than the structure of an array."""
OBJECT_LINE: Final = re.compile(
    rb"^[\[\], \t\r]*+ \{ [^\n]{%d,} \} [\[\], \t\r]*+ $" % (LEAST_ENTRY_BYTES - len("{}")),
    re.MULTILINE | re.VERBOSE,
)
"""A line that may be an entry, with the structure of an array around it."""


def read_entries(stream: BinaryIO) -> Iterator[Entry | Malformed]:
    """Every piece of a record, in the order of the file. Raises nothing on content, and leaves nothing out.

    What is neither an entry, nor white space, nor the brackets and commas of an array is in a `Malformed`.
    """
    return pieces_of(read_stretches(stream))


def read_stretches(
    stream: BinaryIO, block_bytes: int = _BLOCK_BYTES, source: Rereadable | None = None
) -> Iterator[Stretch]:
    """The same with plain entries in blocks of about so many bytes, which is many times faster.

    Where the stream is all of a source that can be read again, no text is held, and lines are counted only
    when there is damage to be placed. Raises OSError when the source has become shorter by then.
    """
    lines = _Lines(stream, source)
    while text := lines.look_ahead(block_bytes):
        block = block_of(text, lines.passage(text))
        if block is None:
            yield from _carefully(lines)
        else:
            lines.skip(text)
            yield block


def _carefully(lines: "_Lines") -> Iterator[Entry | Malformed]:
    """The pieces of the lines that were looked at ahead, and of those behind that belong with the last."""
    while True:
        yield from _objects(lines)
        if not lines.current:
            return
        yield from _salvaged(lines)


def _objects(lines: "_Lines") -> Iterator[Entry | Malformed]:
    """The pieces of the lines that are JSON. `lines` stays at the first that is to be taken apart."""
    for core in lines:
        try:
            yield Entry.from_json(orjson.loads(core))
        except orjson.JSONDecodeError:
            return
        except EntryError as error:
            lines.damaged += 1
            if lines.damaged > _MAX_DAMAGED_LINES:
                return
            yield Malformed(lines.number, core.decode(), str(error))


class _Lines:
    """The physical lines of a stream.

    Iterating gives those that look like an entry, up to any other, or to the end of what was looked at ahead.
    """

    def __init__(self, stream: BinaryIO, source: Rereadable | None = None) -> None:
        self._stream = stream
        self._source = source
        self._ahead = BytesIO()
        self._ahead_bytes = 0
        self._begin = 0
        """Where in the stream that is which was looked at ahead."""
        self._end = 0
        """Up to where the stream was read."""
        self._uncounted = 0
        """Bytes before what was looked at ahead whose lines were not counted."""
        self._following = 1
        self.number = 0
        self.current = b""
        self.damaged = 0
        """How many lines were objects, but not entries."""

    def look_ahead(self, size: int) -> bytes:
        """The lines that come next, at least so many bytes where there are; none at the end of the stream.

        They are whole lines, unless that is more than is held of a file at once. To be called only when
        nothing is ahead any more.
        """
        text = self._stream.read(size) + self._stream.readline(MAX_REGION_BYTES - size)
        self._ahead = BytesIO(text)
        self._ahead_bytes = len(text)
        self._begin = self._end
        self._end += len(text)
        return text

    def passage(self, text: bytes) -> Passage:
        """Where the lines can be had again that were looked at ahead, whose text this is."""
        return HeldLines(text) if self._source is None else Reread(self._source, self._begin, len(text))

    def skip(self, text: bytes) -> None:
        """Go on behind the lines that were looked at ahead, whose text this is."""
        if self._source is None:
            self._following += text.count(b"\n")
        else:
            self._uncounted += len(text)
        self._ahead_bytes = 0

    def _count(self, source: Rereadable) -> None:
        """Count the lines that were skipped."""
        while self._uncounted:
            size = min(self._uncounted, _BLOCK_BYTES)
            self._following += source.read(self._begin - self._uncounted, size).count(b"\n")
            self._uncounted -= size

    def __iter__(self) -> Iterator[bytes]:
        self._pass_over(_CONTENT)
        while self._is_ahead():
            self.advance()
            core = self.core()
            if core:
                yield core
            elif self.current.strip(STRUCTURE):
                return
            self._pass_over(_CONTENT)
        self.current = b""

    def advance(self) -> bool:
        """Go to the next line; whether there is one."""
        if self._source is not None:
            self._count(self._source)
        self.number = self._following
        self.current = self._ahead.readline(MAX_REGION_BYTES)
        if not self.current.endswith(b"\n"):
            rest = self._stream.readline(MAX_REGION_BYTES - len(self.current))
            self._end += len(rest)
            self.current += rest
        self._following += self.current.endswith(b"\n")
        if self.number == 1:
            self.current = self.current.removeprefix(BYTE_ORDER_MARK)
        return bool(self.current)

    def advance_to_object(self) -> bytes:
        """Give the lines that cannot be an entry, or the next line where that may be one, and go behind.

        Gives nothing at the end of the stream.
        """
        if not self._is_ahead():
            self.look_ahead(_BLOCK_BYTES)
        self.current = b""
        passed = self._pass_over(OBJECT_LINE)
        if not passed:
            self.advance()
        return passed or self.current

    def _is_ahead(self) -> bool:
        return self._ahead.tell() < self._ahead_bytes

    def _pass_over(self, wanted: re.Pattern[bytes]) -> bytes:
        """Go behind the whole lines ahead before the first in which that is, and give them."""
        begin = self._ahead.tell()
        text = self._ahead.getvalue()
        found = wanted.search(text, begin)
        end = text.rfind(b"\n", begin, found.start() if found else None) + 1
        if end <= begin:
            return b""
        if self._source is not None:
            self._count(self._source)
        passed = text[begin:end]
        self._following += passed.count(b"\n")
        self._ahead.seek(end)
        return passed

    def core(self) -> bytes:
        """The line without an array's structure around it when that looks like an object; else nothing."""
        core = self.current.strip(STRUCTURE)
        return core if core.startswith(b"{") and core.endswith(b"}") else b""


def _salvaged(lines: _Lines) -> Iterator[Entry | Malformed]:
    """What the current line and those after it hold, up to and with the next line that is just an entry."""
    region = Region(lines.number)
    region.add(lines.current)
    while text := lines.advance_to_object():
        core = lines.core()
        entry = entry_of(core) if core else None
        if entry is not None:
            yield from region.drain(final=True)
            yield entry
            return
        if region.size + len(text) > MAX_REGION_BYTES:
            yield from region.drain(final=False)
        region.add(text)
    yield from region.drain(final=True)

"""The layouts of a record file: from its bytes to entries, and to what is damaged between them.

Lines, arrays and any mixture of the two are read in one pass, in bounded memory and linear time; the rules
are in docs/record-format.md, "Reading". Lines as writers write them are decoded many at once, all others are
read carefully, one by one.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO, Final

import msgspec
import orjson

from service_record.record import fields
from service_record.record.entry import LEAST_ENTRY_BYTES, Entry, Malformed, Piece
from service_record.record.fields import EntryError
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


def read_entries(stream: BinaryIO, block_bytes: int = _BLOCK_BYTES) -> Iterator[Piece]:
    """Every piece of a record, in the order of the file. Raises nothing on content, and leaves nothing out.

    What is neither an entry, nor white space, nor the brackets and commas of an array is in a `Malformed`.
    About so many bytes of lines are decoded at once. Where one of these is no entry as writers write it,
    they are read one by one, which comes to the same.
    """
    lines = _Lines(stream)
    while text := lines.look_ahead(block_bytes):
        entries = _decode(text)
        if entries is None:
            yield from _carefully(lines)
        else:
            lines.skip(text)
            yield from entries


_CERTAIN_TIMES: Final = re.compile(
    r"""(?:( [1-8]\d{3}
             -(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)
             T(?:[01]\d|2[0-3]):[0-5]\d: )
           [0-5]\d(?:\.\d{1,15}+)?+Z\n
        (?:\1[0-5]\d(?:\.\d{1,15}+)?+Z\n)*+)*+  # mostly many of the same minute
    """,
    re.VERBOSE | re.ASCII,
)
"""Times, a line each, that need no look at a calendar: all but those of a leap day, or with an offset."""
_DECODER: Final = msgspec.json.Decoder(Entry)
_BETWEEN: Final = b" \t\r\n,"
_COMMA: Final = b"},\n"


def _decode(text: bytes) -> list[Entry] | None:
    """Return the entries that these whole lines are; None when there is anything else in them.

    Between them there may be white space, or the commas of an array with an entry to a line.
    """
    try:
        entries = _decode_lines(text)
        is_whole = _ends_with_one_entry(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not is_whole or any(one.result is not None and one.phase.endswith("start") for one in entries):
        return None
    return entries if _are_times([one.timestamp for one in entries]) else None


def _decode_lines(text: bytes) -> list[Entry]:
    try:
        return _DECODER.decode_lines(text)
    except msgspec.DecodeError:
        if _COMMA not in text:
            raise
        return _DECODER.decode_lines(text.replace(_COMMA, b"}\n"))  # within a string there is no newline


def _ends_with_one_entry(text: bytes) -> bool:
    """Whether the last line is an entry. Others may hold two, or half of one, with what follows them."""
    end = len(text.rstrip(_BETWEEN))
    return len(_decode_lines(text[text.rfind(b"\n", 0, end) + 1 : end])) == 1


def _are_times(timestamps: list[str | None]) -> bool:
    known = [timestamp for timestamp in timestamps if timestamp is not None]
    together = "\n".join([*known, ""])
    if together.count("\n") == len(known) and _CERTAIN_TIMES.fullmatch(together):
        return True
    try:
        for timestamp in known:
            fields.timestamp("timestamp", timestamp)
    except EntryError:
        return False
    return True


def _carefully(lines: "_Lines") -> Iterator[Piece]:
    """The pieces of the lines that were looked at ahead, and of those behind that belong with the last."""
    while True:
        yield from _objects(lines)
        if not lines.current:
            return
        yield from _salvaged(lines)


def _objects(lines: "_Lines") -> Iterator[Piece]:
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

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ahead = BytesIO()
        self._ahead_bytes = 0
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
        return text

    def skip(self, text: bytes) -> None:
        """Go on behind the lines that were looked at ahead, whose text this is."""
        self._following += text.count(b"\n")
        self._ahead_bytes = 0

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
        self.number = self._following
        self.current = self._ahead.readline(MAX_REGION_BYTES)
        if not self.current.endswith(b"\n"):
            self.current += self._stream.readline(MAX_REGION_BYTES - len(self.current))
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
        passed = text[begin:end]
        self._following += passed.count(b"\n")
        self._ahead.seek(end)
        return passed

    def core(self) -> bytes:
        """The line without an array's structure around it when that looks like an object; else nothing."""
        core = self.current.strip(STRUCTURE)
        return core if core.startswith(b"{") and core.endswith(b"}") else b""


def _salvaged(lines: _Lines) -> Iterator[Piece]:
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

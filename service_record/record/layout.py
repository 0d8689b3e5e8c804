"""Read entries, and the damaged pieces between them, from a record file of any layout.

Lines, arrays and mixtures of both are read in one pass, in bounded memory and linear time; the rules are in
docs/record-format.md, "Reading". Undamaged lines are decoded many at a time. `recovery` reads all others one
by one.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, Final

import msgspec

from service_record.record.entry import MAX_REGION_BYTES, Entry, EntryError, Piece, check_time

_BLOCK_BYTES: Final = 1 << 16
"""The size of the lines that are decoded together. Larger blocks exceed the caches of processors."""


def read_entries(stream: BinaryIO, block_bytes: int = _BLOCK_BYTES) -> Iterator[Piece]:
    """Yield every piece of a record, in file order. No content raises an exception, and nothing is left out.

    Everything but entries, white space, and the brackets and commas of an array is in a `Malformed`. About
    `block_bytes` bytes of lines are decoded at once. If one of these lines is not an undamaged entry, they
    are read one by one, with the same result.
    """
    following, lines = 1, None
    following_lines = partial(_read_lines, stream, block_bytes)
    while text := following_lines():
        entries = decode_entries(text)
        if entries is not None:
            following += text.count(b"\n")
            yield from entries
            continue
        if lines is None:
            from service_record.record.recovery import Lines  # most records are undamaged

            lines = Lines(stream, following_lines)
        lines.following = following
        yield from lines.read(text)
        following = lines.following


def _read_lines(stream: BinaryIO, size: int) -> bytes:
    """Return the next `size` bytes, up to the end of a line; empty at the end of the stream.

    A line longer than `MAX_REGION_BYTES` is cut.
    """
    return stream.read(size) + stream.readline(MAX_REGION_BYTES - size)


_CERTAIN_TIMES: Final = re.compile(
    r"""(?:( [1-8]\d{3}
             -(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)
             T(?:[01]\d|2[0-3]):[0-5]\d: )
           [0-5]\d(?:\.\d{1,15})?Z\n
        (?:\1[0-5]\d(?:\.\d{1,15})?Z\n)* (?!\1) )*  # mostly many of the same minute
    """,
    re.VERBOSE | re.ASCII,
)
r"""Matches times, one in each line, that are certainly valid: all but leap days and times with an offset.

Do not remove `(?!\1)`: it leaves one way to match each line. Without it, a wrong last line takes exponential
time.
"""
_DECODER: Final = msgspec.json.Decoder(Entry)
_BETWEEN: Final = b" \t\r\n,"
_COMMA: Final = b"},\n"


def decode_entries(text: bytes) -> list[Entry] | None:
    """Return the entries in these lines; None if they contain anything else.

    White space, and the commas of an array with an entry in each line, are accepted.
    """
    try:
        entries = _decode_lines(text)
        # The last line of the block must be exactly one entry: it may hold half of another one.
        end = len(text.rstrip(_BETWEEN))
        last = _decode_lines(text[text.rfind(b"\n", 0, end) + 1 : end])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if len(last) != 1 or not _are_times([one.timestamp for one in entries]):
        return None
    for one in entries:
        if one.result is not None and one.phase.endswith("start"):
            return None
    return entries


def _decode_lines(text: bytes) -> list[Entry]:
    try:
        return _DECODER.decode_lines(text)
    except msgspec.DecodeError:
        if _COMMA not in text:
            raise
        return _DECODER.decode_lines(text.replace(_COMMA, b"}\n"))  # within a string there is no newline


def _are_times(timestamps: list[str | None]) -> bool:
    times = [timestamp for timestamp in timestamps if timestamp is not None]
    together = "\n".join([*times, ""])
    if together.count("\n") == len(times) and _CERTAIN_TIMES.fullmatch(together):
        return True
    try:
        for timestamp in times:
            check_time("timestamp", timestamp)
    except EntryError:
        return False
    return True

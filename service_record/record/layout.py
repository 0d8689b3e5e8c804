"""The layouts of a record file: from its bytes to entries, and to what is damaged between them.

Lines, arrays and any mixture of the two are read in one pass, in bounded memory and linear time; the rules
are in docs/record-format.md, "Reading". Lines as writers write them are decoded many at once, all others are
read carefully, one by one.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, Final

import msgspec

from service_record.record.entry import MAX_REGION_BYTES, Entry, EntryError, Piece, check_time

_BLOCK_BYTES: Final = 1 << 16
"""The size of lines that are read together: more is slower, as it leaves the caches of processors."""


def read_entries(stream: BinaryIO, block_bytes: int = _BLOCK_BYTES) -> Iterator[Piece]:
    """Yield every piece of a record, in file order. Raise nothing because of content, and leave nothing out.

    What is neither an entry, nor white space, nor the brackets and commas of an array is in a `Malformed`.
    About so many bytes of lines are decoded at once. Where one of these is no entry as writers write it,
    they are read one by one, which comes to the same.
    """
    following, lines = 1, None
    following_lines = partial(_read_lines, stream, block_bytes)
    while text := following_lines():
        entries = _decode(text)
        if entries is not None:
            following += text.count(b"\n")
            yield from entries
            continue
        if lines is None:
            from service_record.record.recovery import Lines  # most records need none of it

            lines = Lines(stream, following_lines)
        lines.following = following
        yield from lines.read(text)
        following = lines.following


def _read_lines(stream: BinaryIO, size: int) -> bytes:
    """Return the lines that come next, at least so many bytes where there are; none at the end of the stream.

    They are whole lines, unless that is more than is held of a file at once.
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
r"""Times, one a line, that are valid without a look at a calendar: all but leap days and times with an
offset.

`(?!\1)` leaves one way to match each line. Without it a bad line at the end takes exponential time.
"""
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
    if not is_whole or not _are_times([one.timestamp for one in entries]):
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


def _ends_with_one_entry(text: bytes) -> bool:
    """Return whether the last line is an entry.

    Others may hold two, or half of one, with what follows them.
    """
    end = len(text.rstrip(_BETWEEN))
    return len(_decode_lines(text[text.rfind(b"\n", 0, end) + 1 : end])) == 1


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

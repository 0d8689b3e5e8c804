"""Entries out of bytes that are not one entry to a line: indented arrays, glued or torn lines, foreign text.

An object is found by its braces, in one pass; what lies between the entries found is malformed.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

import orjson

from service_record.record.entry import LEAST_ENTRY_BYTES, Entry, Malformed
from service_record.record.fields import EntryError
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

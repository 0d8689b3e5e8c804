"""Find the lines that together encode one text: dumps, wrapped base64, quoted-printable. Pure."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

from service_record.redaction.encodings import BASE64_LINES, BASE64_REST, LINES, LineEncoding, is_text
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.types import ZEROS_FOR_DIGITS, Found, line_end

_ANY_LINE: Final = re.compile(b"|".join(each.line.pattern for each in LINES))
_LAST_RUN: Final = re.compile(
    rb"""(?<![A-Za-z0-9+/])(?=[a-z0-9+/]*[A-Z])(?=[A-Z0-9+/]*[a-z])"""
    rb"""([A-Za-z0-9+/]{40,}={0,2})["',\\ \t\r]*\Z"""
)
"""Matches base64 at the end of a line, and no digest in hexadecimal."""
_MAX_HEAD_BYTES: Final = 1 << 10
_MAX_LINE_BYTES: Final = 1 << 16
_KEY_END: Final = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY")
_MIN_KEY_BYTES: Final = 40
"""The least size of the lines of a key, except for the last one."""
_MIN_BLOCK_LINES: Final = 2
"""`encodings.decode_runs` decodes a single line of hexadecimal or base64."""
_Line: TypeAlias = tuple[int, int, int]
"""The span of a line's encoded part, and the line's end."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines that together encode one text."""

    end: int
    """The start of the line after the block."""
    spans: list[tuple[int, int]]
    """The span of the encoded part of each line."""
    starts: list[int]
    """The offset of each line in the decoded text; zeros for base64, whose lines are decoded together."""
    plain: bytes
    word: bytes
    """The encoded text, if all lines are decoded together; else empty."""
    is_dump: bool
    """True if the lines are a dump: offsets and bytes, and nothing else."""

    def places(self, secrets: Iterable[Found]) -> list[Found]:
        """Return the encoded parts of the lines with secrets of the decoded text."""
        kinds: dict[tuple[int, int], str] = {}
        for start, end, kind in secrets:
            first = bisect_right(self.starts, start) - 1 if self.starts[-1] else 0
            mark = ""
            for at, span in zip(self.starts[first:], self.spans[first:], strict=True):
                if at < end:
                    kinds.setdefault(span, mark + kind)
                    mark = "+"
        return [(*span, kind) for span, kind in sorted(kinds.items())]


def _match_line(text: bytes, start: int, form: re.Pattern[bytes], head: bytes) -> _Line | None:
    """Return the line at `start`, or None if it has another form.

    `head` is the text before the encoded part, with zeros for digits; empty for the prefix of a logger.
    """
    first = start + len(head) if head else prefix_end(text, start)
    end = line_end(text, start)
    if end - start >= _MAX_LINE_BYTES or (head and text[start:first].translate(ZEROS_FOR_DIGITS) != head):
        return None
    match = form.match(text, first, end)
    return (*match.span(1), end) if match is not None else None


def _lines_above(
    text: bytes, start: int, floor: int, form: re.Pattern[bytes], head: bytes
) -> Iterator[tuple[int, _Line]]:
    """Yield the offset and the parts of each line of a form, from the line at `start` up to `floor`."""
    while (line := _match_line(text, start, form, head)) is not None:
        yield start, line
        if start <= floor:
            break
        start = _start_above(text, start, floor)


def _start_above(text: bytes, start: int, floor: int) -> int:
    """Return the start of the line above the line at `start`, but not less than `floor`."""
    return text.rfind(b"\n", floor, max(start - 1, floor)) + 1 or floor


def _lines_below(text: bytes, position: int, encoding: LineEncoding, head: bytes) -> Iterator[_Line]:
    """Yield the lines of a block from `position` on.

    The lines of base64 have one width. A shorter one ends the block.
    """
    width = 0
    is_last = False
    while not is_last and position < len(text):
        line = _match_line(text, position, encoding.line, head)
        if line is None and encoding.last is not None:
            line = _match_line(text, position, encoding.last, head)
            is_last = True
        if line is None:
            break
        first, last, end = line
        size = last - first
        if encoding.is_joined:
            if width and (size > width or (is_last and size % 4)):
                break
            is_last |= size < width or text.endswith(b"=", first, last)
        yield line
        position, width = end + 1, size


def _find_last_run(text: bytes, start: int, end: int) -> re.Match[bytes] | None:
    """Return the base64 at the end of a line that is not too long for a block, or None."""
    return _LAST_RUN.search(text, start, end) if end - start < _MAX_LINE_BYTES else None


def _find_encoding(text: bytes, start: int) -> tuple[LineEncoding, bytes] | None:
    """Return the encoding of a line and the unknown text before it, or None.

    Base64 may be behind any text that a neighbouring line of base64 has, too.
    """
    first = prefix_end(text, start)
    end = line_end(text, start)
    if end - start >= _MAX_LINE_BYTES:
        return None
    match = _ANY_LINE.match(text, first, end)
    if match is not None:
        return LINES[(match.lastindex or 1) - 1], b""
    run = _find_last_run(text, first, end)
    if run is None or not 0 < run.start() - start <= _MAX_HEAD_BYTES:
        return None
    head = text[start : run.start()].translate(ZEROS_FOR_DIGITS)
    above = _start_above(text, start, 0)
    has_neighbour = (above < start and _match_line(text, above, BASE64_LINES.line, head) is not None) or (
        end + 1 < len(text) and _match_line(text, end + 1, BASE64_REST, head) is not None
    )
    return (BASE64_LINES, head) if has_neighbour else None


def may_be_in_block(line: bytes) -> bool:
    """Return True if the lines around a line decide whether it encodes a text or ends a private key."""
    run = _find_last_run(line, 0, len(line))
    return run is not None or ends_key(line) or _find_encoding(line, 0) is not None


def find_block(text: bytes, start: int, floor: int) -> Block | None:
    """Return the block around the line at `start`, or None. The block does not begin before `floor`."""
    end = line_end(text, start)
    found = _find_encoding(text, start)
    if found is None and _find_last_run(text, start, end) and end + 1 < len(text):
        start = end + 1  # the first line of base64 may have another text before it: `content: H4sI…`
        found = _find_encoding(text, start)
    if found is None:
        return None
    encoding, head = found
    begin, width = start, 0
    for above, line in _lines_above(text, start, floor, encoding.line, head):
        if encoding.is_joined and line[1] - line[0] < width:
            break
        begin, width = above, line[1] - line[0]
    lines = list(_lines_below(text, begin, encoding, head))
    if encoding.is_joined and begin > floor:
        run = _find_last_run(text, _start_above(text, begin, floor), begin - 1)
        if run is not None and not run[1].endswith(b"="):
            lines.insert(0, (*run.span(1), begin - 1))
    if len(lines) < _MIN_BLOCK_LINES and not encoding.is_dump:
        return None
    parts = [text[first:last] for first, last, _ in lines]
    word = b"".join(parts) if encoding.is_joined else b""
    pieces = [encoding.decode(part) for part in ([word] if encoding.is_joined else parts)]
    starts = list(accumulate(map(len, pieces[:-1]), initial=0))
    plain = b"".join(pieces)
    return Block(
        end=min(lines[-1][2] + 1, len(text)),
        spans=[(first, end if encoding.is_dump else last) for first, last, end in lines],
        starts=starts * len(lines) if encoding.is_joined else starts,
        plain=plain if encoding.is_dump or is_text(plain) else b"",
        word=word,
        is_dump=encoding.is_dump,
    )


def ends_key(line: bytes) -> bool:
    return b"-----END" in line and _KEY_END.search(line) is not None


def key_lines_above(text: bytes, start: int, floor: int) -> list[tuple[int, int]]:
    """Return the spans of base64 above the END line at `start`, for a key whose BEGIN line is missing."""
    spans: list[tuple[int, int]] = []
    for _, (first, last, _) in _lines_above(text, _start_above(text, start, floor), floor, BASE64_REST, b""):
        if spans and last - first < _MIN_KEY_BYTES:
            break
        spans.append((first, last))
    return spans[::-1]

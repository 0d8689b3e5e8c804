"""Find the lines that together encode one text: dumps, wrapped base64, quoted-printable. Pure."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from service_record.redaction.encodings import BASE64_LINES, BASE64_REST, LINES, LineEncoding, is_text
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.types import ZEROS_FOR_DIGITS, line_end

_CANDIDATE: Final = re.compile(
    rb"""[ \t>|"'*#-]*(?:[0-9A-Fa-f]{6,8}:? |[A-Za-z0-9+/]{16})|[^\n]{60,75}=\r?(?:\n|\Z)"""
    rb"""|begin [0-7]|M[ -`]{60}"""
)
"""Matches at the beginning of each line of `LINES`, in less time than all of their patterns."""
_ANY_LINE: Final = re.compile(b"|".join(each.line.pattern for each in LINES))
_LAST_RUN: Final = re.compile(
    rb"""(?<![A-Za-z0-9+/])(?=[a-z0-9+/]*[A-Z])(?=[A-Z0-9+/]*[a-z])"""
    rb"""([A-Za-z0-9+/]{40,}={0,2})["',\\ \t\r]*\Z"""
)
"""Matches base64 at the end of a line, and no digest in hexadecimal."""
_MAX_HEAD_BYTES: Final = 1 << 10
_MAX_BACK_BYTES: Final = 1 << 16
KEY_END: Final = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY")
_MIN_BLOCK_LINES: Final = 2
"""`encodings.decode_runs` decodes a single line of hexadecimal or base64."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines that together encode one text."""

    start: int
    end: int
    """The start of the line after the block."""
    spans: list[tuple[int, int]]
    """The span of the encoded part of each line."""
    starts: list[int]
    """The offset of each line in the decoded text; empty for base64, whose lines are decoded together."""
    plain: bytes
    word: bytes = b""
    """The encoded text, if all lines are decoded together."""
    is_key: bool = False
    """True if the next line ends a private key."""
    is_dump: bool = False
    """True if the lines are a dump: offsets and bytes, and nothing else."""

    def encoded_spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the encoded spans for a span of the decoded text."""
        if not self.starts:
            return self.spans
        first = bisect_right(self.starts, start) - 1
        return [span for at, span in zip(self.starts[first:], self.spans[first:], strict=True) if at < end]


def _match_line(
    text: bytes, start: int, form: re.Pattern[bytes], head: bytes = b""
) -> tuple[int, int, int] | None:
    """Return the span of a line's encoded part, and the line's end; None if the line has another form.

    `head` is the text before the encoded part, with zeros for digits, unless the prefix is known.
    """
    end = line_end(text, start)
    if end - start >= _MAX_BACK_BYTES:
        return None
    if not head:
        first = prefix_end(text, start)
    elif text[start : start + len(head)].translate(ZEROS_FOR_DIGITS) == head:
        first = start + len(head)
    else:
        return None
    match = form.match(text, first, end)
    return (*match.span(1), end) if match is not None else None


def _find_last_run(text: bytes, start: int, end: int) -> re.Match[bytes] | None:
    """Return the base64 at the end of a line that is not too long for a block, or None."""
    return _LAST_RUN.search(text, start, end) if end - start < _MAX_BACK_BYTES else None


def _find_encoding(text: bytes, start: int) -> tuple[LineEncoding, bytes] | None:
    """Return the encoding of a line and the unknown text before it, or None.

    Base64 may be behind any text that a neighbouring line of base64 has, too.
    """
    first = prefix_end(text, start)
    end = line_end(text, start)
    if end - start >= _MAX_BACK_BYTES:
        return None
    if _CANDIDATE.match(text, first) is not None:
        match = _ANY_LINE.match(text, first, end)
        if match is not None:
            return LINES[(match.lastindex or 1) - 1], b""
    run = _find_last_run(text, first, end)
    if run is None or not 0 < run.start() - start <= _MAX_HEAD_BYTES:
        return None
    head = text[start : run.start()].translate(ZEROS_FOR_DIGITS)
    before = text.rfind(b"\n", 0, max(start - 1, 0)) + 1
    below = end + 1
    is_alone = (before == start or _match_line(text, before, BASE64_LINES.line, head) is None) and (
        below >= len(text) or _match_line(text, below, BASE64_REST, head) is None
    )
    return None if is_alone else (BASE64_LINES, head)


def _width(text: bytes, start: int, form: re.Pattern[bytes], head: bytes) -> int:
    found = _match_line(text, start, form, head)
    return found[1] - found[0] if found is not None else 0


def may_be_in_block(line: bytes) -> bool:
    """Return True if the lines around a line decide whether it encodes a text or ends a private key."""
    run = _find_last_run(line, 0, len(line))
    return run is not None or ends_key(line) or _find_encoding(line, 0) is not None


def find_block(text: bytes, start: int, floor: int) -> Block | None:  # noqa: C901 - the steps in order
    """Return the block around the line at `start`, or None. The block does not begin before `floor`.

    The first line of base64 may have another text before it: `content: H4sI…`.
    """
    below = line_end(text, start) + 1
    found = _find_encoding(text, start)
    if found is None and _find_last_run(text, start, below - 1) and below < len(text):
        start = below
        found = _find_encoding(text, start)
    if found is None:
        return None
    encoding, head = found
    form, is_joined = encoding.line, encoding.is_joined
    begin = start
    lines: list[tuple[int, int, int]] = []
    while begin > floor and begin > start - _MAX_BACK_BYTES:
        before = text.rfind(b"\n", floor, begin - 1) + 1 or floor
        line = _match_line(text, before, form, head)
        if line is None or (is_joined and line[1] - line[0] < _width(text, begin, form, head)):
            run = _find_last_run(text, before, begin - 1) if is_joined and line is None else None
            if run is not None and not run[1].endswith(b"="):
                lines.append((*run.span(1), begin - 1))
            break
        begin = before
    position = begin
    begin = text.rfind(b"\n", floor, begin - 1) + 1 or floor if lines else begin
    width = 0
    is_open = True
    while is_open and position < len(text) and (line := _match_line(text, position, form, head)) is not None:
        size = line[1] - line[0]
        if is_joined and width and size > width:
            break
        lines.append(line)
        position = line[2] + 1
        is_open = not (is_joined and (size < width or text[line[1] - 1 : line[1]] == b"="))
        width = size
    if is_open and encoding.last is not None and position < len(text):
        last = _match_line(text, position, encoding.last, head)
        if last is not None and (
            not is_joined or (last[1] - last[0] < width and (last[1] - last[0]) % 4 == 0)
        ):
            lines.append(last)
            position = last[2] + 1
    position = min(position, len(text))
    is_key = encoding is BASE64_LINES and ends_key(text[position : line_end(text, position)])
    if not encoding.is_dump and len(lines) < _MIN_BLOCK_LINES and not is_key:
        return None
    spans = [(first, end if encoding.is_dump else after) for first, after, end in lines]
    parts = [text[first:after] for first, after, _ in lines]
    word = b"".join(parts) if is_joined else b""
    pieces = [encoding.decode(part) for part in ([word] if is_joined else parts)]
    starts = [] if is_joined else list(accumulate(map(len, pieces[:-1]), initial=0))
    plain = b"".join(pieces)
    if not encoding.is_dump:
        plain = plain if is_text(plain) else b""
    return Block(begin, position, spans, starts, plain, word, is_key, encoding.is_dump)


def end_before_block(text: bytes, end: int) -> int:
    """Return `end`; if the line before it may be part of a block, return the start of that block."""
    begin = end
    while begin > 0 and begin > end - _MAX_BACK_BYTES:
        before = text.rfind(b"\n", 0, begin - 1) + 1
        if _find_encoding(text, before) is None:
            break
        begin = before
    return begin or end


def key_lines_before(text: bytes, start: int, floor: int) -> list[tuple[int, int]]:
    """Return the spans of base64 before the END line at `start`, for a key whose BEGIN line is missing."""
    spans: list[tuple[int, int]] = []
    while start > floor:
        before = text.rfind(b"\n", floor, start - 1) + 1 or floor
        found = _match_line(text, before, BASE64_REST)
        if found is None or (spans and not _match_line(text, before, BASE64_LINES.line)):
            break
        spans.append(found[:2])
        start = before
    has_begin = b"-----BEGIN" in text[text.rfind(b"\n", floor, max(start - 1, floor)) + 1 : start]
    return [] if has_begin else spans[::-1]


def ends_key(line: bytes) -> bool:
    return b"-----END" in line and KEY_END.search(line) is not None

"""Find the lines of a private key below its BEGIN line. Pure.

Each line is masked as it is read, so nothing has to be kept until a key ends. A program may add a prefix or
suffix to each line of a key; these are learned from its first lines.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from service_record.redaction import ordinary_words
from service_record.redaction.types import MASK_BEGIN, Found, UnescapedText, iterate_lines

PRIVATE_KEY: Final = "private-key"
_MAX_LINES: Final = 4000
_MAX_FOREIGN_LINES: Final = 160
"""The limit of other lines between two lines of a key: of other programs, or fields of a journal."""
_SURE_BYTES: Final = 40
"""Inside a private key, base64 of this size or more is recognised anywhere in a line."""
_MAX_FRAMED_BYTES: Final = 1 << 13
_MAX_FRAMES: Final = 64
"""The limit of different texts around the lines of a key, each of which is compared with each line."""
_LONG: Final = 24
"""In a key, text of base64 characters of this size or more is not an ordinary word."""
_SHORT: Final = 16
"""The least size of the first line of a key."""
_PEM_UNIT: Final = 4
"""The size of a line of PEM is a multiple of this."""

_BEGIN: Final = re.compile(
    rb"(?:-----)?BEGIN[ +](?:[A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?"
    rb"|OpenVPN[ +]Static[ +]key[ +]V1)-----|Private-Lines:[ +][0-9]+"
)
"""Matches before the lines of a key: PEM, the static keys of OpenVPN, and the keys of PuTTY."""
_END: Final = re.compile(
    rb"-----END[ +](?:[A-Z0-9 +]{0,40}PRIVATE[ +]KEY|OpenVPN[ +]Static[ +]key)|Private-MAC:"
)
_SIGNS: Final = (b"PRIVATE", b"Static", b"Private-Lines")
"""Every text that `_BEGIN` matches contains one of these, which are faster to find."""
_MASK: Final = MASK_BEGIN + rb"[a-z0-9-]*>"
_RUN: Final = re.compile(_MASK + rb"|[A-Za-z0-9+/]+={0,2}")
_VARYING: Final = re.compile(rb"[0-9A-Fa-f]+")
_SEVERAL_BLANKS: Final = re.compile(rb"[ \t]{2,}|\t")
_CLOSING: Final = re.compile(rb"""[\s\0"'`\\,;$)}\]|+&<>*]*""")
_INDENT: Final = b" \t>#*|\"'`+-\0"


class _Frame(NamedTuple):
    """The text before and after the base64 in a line. Numbers become 0, because they differ between lines."""

    head: bytes
    tail: bytes

    @classmethod
    def from_line(cls, line: bytes, start: int, end: int) -> "_Frame":
        """Return the frame around a span of a line. All lines that are too long for a key share one frame."""
        if len(line) > _MAX_FRAMED_BYTES:
            return cls(b"-", b"-")
        return cls(_generalize(line[:start]), _generalize(line[end:]))


class OpenBody(NamedTuple):
    """A private key that may continue in the next line."""

    frames: tuple[_Frame, ...] = ()
    lines: int = 0
    foreign: int = 0
    """The number of other lines since the last line of the secret."""
    has_begun: bool = False

    def with_frame(self, line: bytes, start: int, end: int) -> "OpenBody":
        frame = _Frame.from_line(line, start, end)
        is_new = frame not in self.frames and len(self.frames) < _MAX_FRAMES
        return self._replace(frames=(*self.frames, frame)) if is_new else self


class Body:
    """Finds the lines of a private key, from one line to the next."""

    def __init__(self) -> None:
        self.open: OpenBody | None = None
        """The secret that may continue in the next line, or None."""

    def spans(self, view: UnescapedText) -> Iterator[Found]:
        """Yield the secret parts of the next line, and remember whether the secret continues after it."""
        if self.open is None and not any(sign in view.text for sign in _SIGNS):
            return
        for place, line in iterate_lines(view.text, 0, len(view.text)):
            position = 0
            for begin in _BEGIN.finditer(line):
                if begin.start() > position:
                    yield from self._find_pieces(place, line, position, begin.start())
                position = begin.end()
                self.open = OpenBody().with_frame(line, begin.start(), position)
            yield from self._find_pieces(place, line, position, len(line))

    def _find_pieces(self, place: int, line: bytes, start: int, end: int) -> Iterator[Found]:
        """Yield the pieces of the current secret in a part of a line."""
        if self.open is None:
            return
        closing = _END.search(line, start, end)
        limit = closing.start() if closing else end
        runs, body = _find_runs(self.open, line, start, limit)
        yield from ((place + a, place + b, PRIVATE_KEY) for a, b in runs)
        is_over = closing is not None or body.lines == _MAX_LINES
        body = body._replace(lines=body.lines + 1)
        if runs:
            body = body._replace(foreign=0, has_begun=True)
        elif limit > start and line.find(MASK_BEGIN, start, end) < 0:
            is_over |= body.foreign == _MAX_FOREIGN_LINES
            body = body._replace(foreign=body.foreign + 1)
        self.open = None if is_over else body


def _find_runs(body: OpenBody, line: bytes, start: int, end: int) -> tuple[list[tuple[int, int]], OpenBody]:
    """Return the base64 of the secret in a part of a line, and the secret with the frames of this line."""
    runs: list[tuple[int, int]] = []
    previous = 0
    for run in _RUN.finditer(line, start, end):
        first, last = run.span()
        if line.startswith(MASK_BEGIN, first):
            previous = last
            continue
        goes_on = 0 < previous <= first and not line[previous:first].strip(_INDENT)
        if _is_part(body, line, first, last, goes_on=goes_on):
            if not goes_on:
                body = body.with_frame(line, first, last)
            previous = last
            runs.append((first, last))
    return runs, body


def _is_part(body: OpenBody, line: bytes, start: int, end: int, *, goes_on: bool) -> bool:
    if end - start >= _SURE_BYTES and ordinary_words.is_random(line[start:end]):
        return True
    # A plus at the start may be part of the base64, or mark an added line in a diff.
    fits = _is_long_enough(body, end - start) or (
        line.startswith(b"+", start) and _is_long_enough(body, end - start - 1)
    )
    return fits and (goes_on or _has_known_frame(body, line, start, end))


def _has_known_frame(body: OpenBody, line: bytes, start: int, end: int) -> bool:
    """Return True if the base64 is alone in its line, or has the frame of an earlier line."""
    is_last = _CLOSING.fullmatch(line, end) is not None
    if is_last and start <= _MAX_FRAMED_BYTES and not line[:start].strip(_INDENT):
        return True
    if not is_last and _generalize(line[end : end + 1]) not in {frame.tail[:1] for frame in body.frames}:
        return False
    own = _Frame.from_line(line, start, end)
    return any(own == frame or (is_last and own.head == frame.head) for frame in body.frames)


def _is_long_enough(body: OpenBody, size: int) -> bool:
    """Return True if a run is long enough to be a line of the base64 and not a word."""
    if size >= _LONG:
        return True
    return size % _PEM_UNIT == 0 and (body.has_begun or size >= _SHORT)


def _generalize(text: bytes) -> bytes:
    """Return a text with each number replaced by 0, and with single blanks."""
    return _VARYING.sub(b"0", _SEVERAL_BLANKS.sub(b" ", text))

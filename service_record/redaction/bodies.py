"""Secrets that go on over lines: the base64 below `BEGIN PRIVATE KEY`, and that of a wrapped file. Pure.

Each line is masked by itself, so that lines stay lines and nothing is held back until the end is seen. What
programs put before and behind each line is learnt from the lines of the key, and makes no difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from service_record.redaction import ordinary_words, types
from service_record.redaction.types import MASK_BEGIN, mask
from service_record.redaction.unescaped import UnescapedText

FoundSpan: TypeAlias = tuple[int, int, str]
"""Beginning, end and kind of a secret."""

PRIVATE_KEY: Final = "private-key"
_ENCODED: Final = "encoded-secret"
_MAX_LINES: Final = 4000
_MAX_FOREIGN_LINES: Final = 160
"""Lines of other programs, or fields of a journal, between two lines of a key."""
_WRAPPED_AT: Final = 57
"""Base64 that fills a line is wrapped at 60, 64, 72 or 76 columns; a shorter line is the last."""
_SURE_BYTES: Final = 40
"""Base64 of a key that is so long is known by its letters, whatever stands around it."""
_MAX_FRAMED_BYTES: Final = 1 << 13
_LONG: Final = 24
_SHORT: Final = 16
"""The first line of a key is no shorter."""
_PEM_UNIT: Final = 4

_BEGIN: Final = types.compiled(rb"BEGIN[ +][A-Z0-9 +]*PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")
_END: Final = types.compiled(rb"-----END[ +][A-Z0-9 +]*PRIVATE[ +]KEY")
_RUN: Final = types.compiled(rb"[A-Za-z0-9+/]+={0,2}")
_URL_RUN: Final = types.compiled(rb"[A-Za-z0-9+/][A-Za-z0-9+/_-]*={0,2}")
_MASK: Final = types.compiled(rb"<redacted:[a-z0-9-]*>")
_VARYING: Final = types.compiled(rb"[0-9A-Fa-f]+")
_BLANKS: Final = types.compiled(rb"[ \t]+")
_CLOSING: Final = types.compiled(rb"""[\s\0"'`\\,;$)}\]|+&<>*]*""")
_INDENT: Final = b" \t>#*|\"'`+-\0"


def sub_lines(view: UnescapedText) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a view with their places in it: an escape may stand for the end of a line."""
    position = 0
    for line in view.text.split(b"\n"):
        yield position, line
        position += len(line) + 1


@dataclass(frozen=True, slots=True)
class _Frame:
    """The text around the base64 in a line, as far as it is the same in each line."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, line: bytes, start: int, end: int) -> "_Frame":
        """Return what is around a part of a line; of a line too long for one of a key, nothing."""
        if len(line) > _MAX_FRAMED_BYTES:
            return cls(b"-", b"-")
        return cls(_generalized(line[:start]), _generalized(line[end:]))


class Body:
    """Follows such a secret from line to line."""

    def __init__(self) -> None:
        self._kind = ""
        self._lines = 0
        self._foreign = 0
        self._has_begun = False
        self._frames: set[_Frame] = set()

    @property
    def is_open(self) -> bool:
        return bool(self._kind)

    def spans(self, view: UnescapedText) -> Iterator[FoundSpan]:
        """Yield what of the next line is secret, by its places in the view, and learn what begins in it."""
        if not self.is_open and b"PRIVATE" not in view.text:
            return
        for place, line in sub_lines(view):
            position = 0
            for begin in _BEGIN.finditer(line):
                yield from self._secret(place, line, position, begin.start())
                position = begin.end()
                self._open(PRIVATE_KEY)
            if position:
                first = line.rfind(b"-----", 0, begin.start())
                self._frames.add(_Frame.of(line, max(first, 0), position))
            if self.is_open:
                yield from self._secret(place, line, position, len(line))

    def follow(self, view: UnescapedText, masked: bytes) -> None:
        """Learn from a masked line whether wrapped base64 of a secret goes on in the next."""
        line = view.text
        if self.is_open or not masked.rstrip(b" \t\r\"',\\$}").endswith(mask(_ENCODED)):
            return
        runs = [run for run in _URL_RUN.finditer(line) if run.end() - run.start() >= _WRAPPED_AT]
        if runs:
            self._open(_ENCODED)
            self._frames.add(_Frame.of(line, *runs[-1].span()))

    def _secret(self, place: int, line: bytes, start: int, end: int) -> Iterator[FoundSpan]:
        """Yield what of a part of a line belongs to the secret that is open."""
        if not self.is_open:
            return
        closing = _END.search(line, start, end) if self._kind == PRIVATE_KEY else None
        limit = closing.start() if closing else end
        runs = list(self._runs(line, start, limit))
        yield from ((place + a, place + b, self._kind) for a, b in runs)
        self._lines += 1
        if closing or self._lines > _MAX_LINES:
            self._kind = ""
        elif runs:
            self._foreign = 0
            self._has_begun = True
            if self._kind == _ENCODED and runs[-1][1] - runs[-1][0] < _WRAPPED_AT:
                self._kind = ""
        elif limit > start and line.find(MASK_BEGIN, start, end) < 0:
            self._count_foreign()

    def _runs(self, line: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the base64 of the secret in a part of a line."""
        previous = -1
        pattern = _URL_RUN if self._kind == _ENCODED else _RUN
        masks = [mask.span() for mask in _MASK.finditer(line, start, end)]
        for run in pattern.finditer(line, start, end):
            first, last = run.span()
            if any(a < last and first < b for a, b in masks):
                previous = max(previous, *(b for a, b in masks if a < last))
                continue
            goes_on = 0 <= previous <= first and not line[previous:first].strip(_INDENT)
            if self._is_part(line, first, last, goes_on=goes_on):
                previous = last
                yield first, last

    def _is_part(self, line: bytes, start: int, end: int, *, goes_on: bool) -> bool:
        is_sure = (
            self._kind == PRIVATE_KEY
            and end - start >= _SURE_BYTES
            and ordinary_words.is_random(line[start:end])
        )
        # A plus at the beginning may be base64's, or the sign of a line that a diff adds.
        fits = self._fits(end - start) or (line.startswith(b"+", start) and self._fits(end - start - 1))
        if is_sure or (fits and (goes_on or self._is_known(line, start, end))):
            if not goes_on:
                self._frames.add(_Frame.of(line, start, end))
            return True
        return False

    def _is_known(self, line: bytes, start: int, end: int) -> bool:
        """Tell base64 that stands where it stood in other lines, or alone in its line."""
        if _CLOSING.fullmatch(line, end) is not None:
            if start <= _MAX_FRAMED_BYTES and not line[:start].strip(_INDENT):
                return True
            return any(_Frame.of(line, start, end).head == frame.head for frame in self._frames)
        next_bytes = {frame.tail[:1] for frame in self._frames}
        return _generalized(line[end : end + 1]) in next_bytes and _Frame.of(line, start, end) in self._frames

    def _fits(self, size: int) -> bool:
        """Tell the end of base64 from a word."""
        if self._kind == _ENCODED or size >= _LONG:
            return True
        return size % _PEM_UNIT == 0 and (self._has_begun or size >= _SHORT)

    def _count_foreign(self) -> None:
        self._foreign += 1
        if self._kind == _ENCODED or self._foreign > _MAX_FOREIGN_LINES:
            self._kind = ""

    def _open(self, kind: str) -> None:
        self._kind, self._lines, self._foreign, self._frames = kind, 0, 0, set()
        self._has_begun = False


def _generalized(text: bytes) -> bytes:
    """Return a text without its numbers, and with single blanks."""
    varying: bytes = _VARYING.sub(b"0", _BLANKS.sub(b" ", text))
    return varying

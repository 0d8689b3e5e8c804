"""Find the lines of a private key below its BEGIN line. Pure.

Each line is masked as it is read, so nothing has to be kept until a key ends. A program may add a prefix to
each line of a key, which is learned from its first lines.
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
_MAX_HEAD_BYTES: Final = 1 << 8
_MAX_HEADS: Final = 64
"""The limit of different texts before the lines of a key, each of which is compared with each line."""
_LONG: Final = 24
"""In a key, text of base64 characters of this size or more is not an ordinary word. If it is random, it may
be anywhere in a line.
"""
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
_NUMBER: Final = re.compile(rb"[0-9A-Fa-f]+")
_AFTER: Final = re.compile(rb"""\s*\Z|[\0"'`\\,;$)}\]|+&<>*]""")
"""Matches after base64: the end of the line, or a mark."""
_INDENT: Final = b" \t>#*|\"'`+-\0"


class OpenKey(NamedTuple):
    """A private key that may continue in the next line."""

    heads: tuple[bytes, ...] = ()
    """The texts before the base64 in its lines. Numbers are 0, because they differ between lines."""
    lines: int = 0
    foreign: int = 0
    """The number of other lines since the last line of the key."""
    has_begun: bool = False

    def with_head(self, line: bytes, start: int) -> "OpenKey":
        head = _read_head(line, start)
        is_new = head not in self.heads and len(self.heads) < _MAX_HEADS
        return self._replace(heads=(*self.heads, head)) if is_new else self


def _read_head(line: bytes, start: int) -> bytes:
    """Return the text before an offset, with 0 for each number, and with single blanks."""
    return _NUMBER.sub(b"0", b" ".join(line[max(0, start - _MAX_HEAD_BYTES) : start].split()))


class KeyFollower:
    """Finds the lines of a private key, from one line to the next."""

    def __init__(self) -> None:
        self.open: OpenKey | None = None
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
                self.open = OpenKey().with_head(line, begin.start())
            yield from self._find_pieces(place, line, position, len(line))

    def _find_pieces(self, place: int, line: bytes, start: int, end: int) -> Iterator[Found]:
        """Yield the pieces of the current secret in a part of a line."""
        if self.open is None:
            return
        closing = _END.search(line, start, end)
        limit = closing.start() if closing else end
        runs, key = _find_runs(self.open, line, start, limit)
        yield from ((place + a, place + b, PRIVATE_KEY) for a, b in runs)
        is_over = closing is not None or key.lines == _MAX_LINES
        key = key._replace(lines=key.lines + 1)
        if runs:
            key = key._replace(foreign=0, has_begun=True)
        elif limit > start and line.find(MASK_BEGIN, start, end) < 0:
            is_over |= key.foreign == _MAX_FOREIGN_LINES
            key = key._replace(foreign=key.foreign + 1)
        self.open = None if is_over else key


def _find_runs(key: OpenKey, line: bytes, start: int, end: int) -> tuple[list[tuple[int, int]], OpenKey]:
    """Return the base64 of the key in a part of a line, and the key with the heads of this line."""
    runs: list[tuple[int, int]] = []
    previous = 0
    for run in _RUN.finditer(line, start, end):
        first, last = run.span()
        if line.startswith(MASK_BEGIN, first):
            previous = last
            continue
        goes_on = 0 < previous <= first and not line[previous:first].strip(_INDENT)
        if _is_part(key, line, first, last, goes_on=goes_on):
            if not goes_on:
                key = key.with_head(line, first)
            previous = last
            runs.append((first, last))
    return runs, key


def _is_part(key: OpenKey, line: bytes, start: int, end: int, *, goes_on: bool) -> bool:
    size = end - start
    if size >= _LONG and ordinary_words.is_random(line[start:end]):
        return True
    # A plus at the start may be part of the base64, or mark an added line in a diff.
    sizes = (size, size - 1) if line.startswith(b"+", start) else (size,)
    least = _PEM_UNIT if key.has_begun else _SHORT
    if not any(each >= _LONG or (each >= least and each % _PEM_UNIT == 0) for each in sizes):
        return False
    if goes_on:
        return True
    before = line[max(0, start - _MAX_HEAD_BYTES) : start]
    is_after_head = not before.strip(_INDENT) or _read_head(line, start) in key.heads
    return is_after_head and _AFTER.match(line, end) is not None

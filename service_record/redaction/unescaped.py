"""One view of a text for all shapes: escapes become the characters that they stand for. Pure.

JSON, Go, C, shells, syslog, URLs, XML, `cat -A` and terminals escape characters, also one within the other.
Shapes are searched for in the text and in its view, so that no shape needs to know about escapes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from service_record.redaction import types

_MAX_LEVELS: Final = 4
"""JSON in JSON in JSON, with an escape in it."""
_BOUNDARY: Final = b"\0"
"""Stands for what is no character: a colour of a terminal, or the end of an escape before a word."""
_FOREIGN: Final = b"\x80"
"""Stands for a character beyond Latin-1."""
_NUL: Final = b"\0"
_NOT_NULS: Final = types.compiled(rb"[^\x00]+", groups=False)
_LEAST_SHARE_OF_NULS: Final = 3
"""Text in UTF-16 has NULs for nearly half of its bytes; a third is enough."""
_MAX_BYTE: Final = 0xFF
_MAX_CONTROL: Final = 0x20
_DELETE: Final = 0x7F

_ESCAPE: Final = types.compiled(
    rb"""\\(?:[0-3][0-7][0-7]|[nrtbfvae0"'/\\$` ]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f][0-9A-Fa-f])"""
    rb"|%[0-9A-Fa-f][0-9A-Fa-f]|#[0-3][0-7][0-7]|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[a-z]{2,5});"
    rb"|(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]|\^[IMJ]",
    groups=False,
)
_NAMED: Final[Mapping[bytes, bytes]] = {
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    b"a": b"\a",
    b"e": b"\x1b",
    b"0": b"\0",
    b"&quot;": b'"',
    b"&apos;": b"'",
    b"&lt;": b"<",
    b"&gt;": b">",
    b"&amp;": b"&",
    b"&nbsp;": b" ",
    b"^I": b"\t",
    b"^M": b"\r",
    b"^J": b"\n",
}


@dataclass(frozen=True, slots=True)
class UnescapedText:
    """A text without its escapes, and where each of its characters stands in the text itself."""

    text: bytes
    _starts: list[int]
    """The offset of each piece in the view."""
    _places: list[int]
    """The offset of the same piece in the source of the view."""
    _below: "UnescapedText | None" = None

    def place(self, position: int) -> int:
        """Return where a character of the view, or its end, stands in the text."""
        if not self._starts:
            return position
        piece = bisect_right(self._starts, position) - 1
        place = self._places[piece] + position - self._starts[piece]
        return self._below.place(place) if self._below else place


def views_of(text: bytes) -> list[UnescapedText]:
    """Return the text itself, and its view at each level of escapes."""
    views = [UnescapedText(text, [], [])]
    if _LEAST_SHARE_OF_NULS * text.count(_NUL) >= len(text) > 0:
        views.append(_without_nuls(views[0]))
    while len(views) <= _MAX_LEVELS and (finer := _one_level(views[-1])) is not None:
        views.append(finer)
    return views


def whole_escapes(finest: UnescapedText, start: int, end: int) -> tuple[int, int]:
    """Return a span of the text that begins behind an escape, not within it, and ends likewise."""
    size = len(finest.text)
    first, last = (bisect_left(range(size), place, key=finest.place) for place in (start, end))
    return finest.place(first), finest.place(last)


def _without_nuls(below: UnescapedText) -> UnescapedText:
    """Return the view of UTF-16 or UTF-32 in which a character is a byte."""
    runs = list(_NOT_NULS.finditer(below.text))
    pieces = [run.group() for run in runs]
    starts = [0, *accumulate(map(len, pieces))]
    return UnescapedText(b"".join(pieces), starts, [*(run.start() for run in runs), len(below.text)], below)


def _one_level(below: UnescapedText) -> UnescapedText | None:
    text = below.text
    pieces: list[bytes] = []
    starts: list[int] = []
    places: list[int] = []
    size = position = 0

    def add(piece: bytes, place: int) -> None:
        nonlocal size
        pieces.append(piece)
        starts.append(size)
        places.append(place)
        size += len(piece)

    for match in _ESCAPE.finditer(text):
        start, end = match.span()
        character = _character(text[start:end])
        if character is None:
            continue
        if start > position:
            add(text[position:start], position)
        add(character, start)
        if character.isalnum() and text[end : end + 1].isalnum():
            add(_BOUNDARY, end)
        position = end
    if not pieces:
        return None
    add(text[position:], position)
    return UnescapedText(b"".join(pieces), starts, places, below)


def _character(escape: bytes) -> bytes | None:
    """Return what an escape stands for, in one byte; None for what is no escape."""
    return _READERS[escape[:1]](escape)


def _behind_backslash(escape: bytes) -> bytes | None:
    kind, rest = escape[1:2], escape[2:]
    if kind in b"ux":
        return _byte(int(rest, 16))
    if len(escape) > len(rb"\n"):
        return _byte(int(escape[1:], 8))
    return _NAMED.get(kind, kind)


def _entity(escape: bytes) -> bytes | None:
    if not escape.startswith(b"&#"):
        return _NAMED.get(escape)
    digits = escape[2:-1].lower()
    return _byte(int(digits.strip(b"x"), 16) if digits.startswith(b"x") else int(digits))


def _of_syslog(escape: bytes) -> bytes | None:
    """`#012` is a line feed; `#123` is a number."""
    value = int(escape[1:], 8)
    return _byte(value) if value < _MAX_CONTROL or value == _DELETE else None


def _byte(value: int) -> bytes:
    return bytes([value]) if value <= _MAX_BYTE else _FOREIGN


_READERS: Final[Mapping[bytes, Callable[[bytes], bytes | None]]] = {
    b"\\": _behind_backslash,
    b"%": lambda escape: _byte(int(escape[1:], 16)),
    b"#": _of_syslog,
    b"&": _entity,
    b"^": lambda escape: _NAMED.get(escape, _BOUNDARY),
    b"\x1b": lambda _: _BOUNDARY,
}

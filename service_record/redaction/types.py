"""The types of redaction: patterns of RE2, secrets, maskers, the spans of a text to mask, and its views.

RE2 takes time linear in the text, whatever the pattern and whatever the text.

JSON, Go, C, shells, syslog, URLs, XML, `cat -A` and terminals escape characters, also one within the other.
Shapes are searched for in the text and in its view, where escapes are the characters that they stand for: no
shape needs to know about escapes. Pure.
"""

import base64
import binascii
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, Protocol, TypeAlias

import re2

Pattern: TypeAlias = Any  # re2 has no types
_MEMORY_BYTES: Final = 64 << 20
"""The limit of one pattern and of its states, which are made as the text asks for them."""


def compiled(pattern: bytes, *, groups: bool = True) -> Pattern:
    """Return the pattern over bytes as they are, a byte a character."""
    return re2.compile(pattern, _options(groups=groups))


class Finder:
    """Finds where a pattern matches, and nothing else.

    This uses two private names of google-re2, because the match objects of its public interface cost three
    times the search itself. The promise of 0.2 s for each MB needs that on lines that name secrets. A test
    compares both interfaces, and fails when a new version of the library changes the private one.
    """

    __slots__ = ("_match",)

    def __init__(self, pattern: bytes, *, groups: bool = False) -> None:
        self._match = compiled(pattern, groups=groups)._regexp.Match  # noqa: SLF001 - see the class

    def find(self, text: bytes, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """Return the place of the next match."""
        span: tuple[int, int] = self._match(_ANYWHERE, text, start, len(text) if end is None else end)[0]
        return span if span[0] >= 0 else None

    def groups(self, text: bytes, start: int = 0) -> list[tuple[int, int]] | None:
        """Return the places of the next match and of its groups; (-1, -1) for a group that has none."""
        spans: list[tuple[int, int]] = self._match(_ANYWHERE, text, start, len(text))
        return spans if spans[0][0] >= 0 else None


_ANYWHERE: Final = re2._Anchor.UNANCHORED  # noqa: SLF001 - see the class


def escaped(literal: bytes) -> bytes:
    return re2.escape(literal)  # type: ignore[no-any-return]


def any_of(patterns: Iterable[bytes]) -> Pattern:
    """Return all of them as one filter.

    `Match(text)` says which are in a text, in any order; `re(number)` is one of them, compiled. RE2 looks for
    the literals in all of them at once, and then for those whose literals are there. A set of whole patterns
    would make a new state of its machine for nearly every byte of a text in which many patterns nearly match.
    """
    forms = re2.Filter()
    for pattern in patterns:
        forms.Add(pattern, _options(groups=True))
    forms.Compile()
    return forms


def _options(*, groups: bool) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    options.never_capture = not groups
    return options


Found: TypeAlias = tuple[int, int, str]
"""Beginning, end and kind of a secret in a text."""

ZEROS_FOR_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
"""For `bytes.translate`: makes lines equal that differ only in times, processes and other numbers."""

MASK_BEGIN: Final = b"<redacted:"
"""`<` begins a plain word in YAML and needs no escape in JSON; `[` would make a YAML list of the value."""


def mask(kind: str) -> bytes:
    """Return the mask for a secret: `<redacted:pull-secret>`. It contains no quote and no backslash."""
    return MASK_BEGIN + kind.encode() + b">"


@dataclass(frozen=True, slots=True)
class Secret:
    """One exact secret of a host, as it stands in its file."""

    kind: str
    """Lower case letters, digits and hyphens: `pull-secret`, `kubeadmin-password`."""
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Leak:
    """A secret that would leave the host. The value itself is nowhere in it."""

    kind: str
    place: str
    """The place of the member, through the archives around it."""
    line: int
    """Counted from 1; 0 when it is no matter of lines: a member's name, or an archive that cannot be read."""

    def __str__(self) -> str:
        return f"{self.place or 'the stream'}{f':{self.line}' if self.line else ''}: {self.kind}"


class Redacting(Protocol):
    """Masks the secrets of one stream: what `Redactor(rules)` makes, one for each member of a bundle."""

    counts: Counter[str]
    """The number of secrets masked so far, by kind."""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, in chunks of any size; give what is ready, which may be nothing."""

    def finish(self) -> bytes:
        """Give what was held back. The stream has ended; nothing is fed after it."""


def report(counts: Iterable[Counter[str]]) -> dict[str, Any]:
    """Return the content of redaction.json for all members: how many were masked, by kind, and
    never a value.
    """
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return {"masked": total.total(), "kinds": dict(sorted(total.items()))}


@dataclass(frozen=True, slots=True)
class MaskedSpan:
    """A piece of a text to be masked; it never holds a newline."""

    start: int
    end: int
    kind: str
    is_first: bool
    """True for the first piece of one secret, which may go over several lines."""


def within_lines(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a piece without the newlines in it: lines stay lines, also those of UTF-16."""
    while (newline := text.find(b"\n", start, end)) >= 0:
        if newline > start:
            yield start, newline
        start = newline + 1
    if end > start:
        yield start, end


def line_end(text: bytes, position: int) -> int:
    """Return where the line ends in which a position is."""
    end = text.find(b"\n", position)
    return end if end >= 0 else len(text)


def lines_in(text: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a part of a text, with their places in the text."""
    for line in text[start:end].split(b"\n"):
        yield start, line
        start += len(line) + 1


def united(spans: Iterable[MaskedSpan]) -> list[MaskedSpan]:
    """Return the same in the order of the text, those that overlap or touch as one."""
    disjoint: list[MaskedSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if disjoint and span.start <= disjoint[-1].end:
            last = disjoint[-1]
            disjoint[-1] = MaskedSpan(last.start, max(last.end, span.end), last.kind, last.is_first)
        else:
            disjoint.append(span)
    return disjoint


def merged(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Beginnings and ends with those that touch as one, and none that is empty."""
    spans: list[tuple[int, int]] = []
    for start, end in pieces:
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif end > start:
            spans.append((start, end))
    return spans


_MAX_LEVELS: Final = 4
"""JSON in JSON in JSON, with an escape in it."""
_BOUNDARY: Final = b"\0"
"""Stands for what is no character: a colour of a terminal, or the end of an escape before a word."""
_FOREIGN: Final = b"\x80"
"""Stands for a character beyond Latin-1."""
_NUL: Final = b"\0"
_NOT_NULS: Final = compiled(rb"[^\x00]+", groups=False)
_LEAST_SHARE_OF_NULS: Final = 3
"""Text in UTF-16 has NULs for nearly half of its bytes; a third is enough."""
_MAX_BYTE: Final = 0xFF
_MAX_CONTROL: Final = 0x20
_DELETE: Final = 0x7F

_ESCAPE: Final = re.compile(
    rb"""(\\(?:[0-3][0-7][0-7]|[nrtbfvae0"'/\\$` ]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f][0-9A-Fa-f])"""
    rb"|%[0-9A-Fa-f][0-9A-Fa-f]|#[0-3][0-7][0-7]|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[a-z]{2,5});"
    rb"|(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]|\^[IMJ])"
)
_MAY_ESCAPE: Final = re.compile(rb"[\\%&#^\x1b]")
_QUOTED_ESCAPE: Final = re.compile(rb"""(\\(?:[nrtbf"'/\\$`]|u[0-9A-Fa-f]{4}))""")
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

    def replaced(self, spans: list[tuple[int, int]], by: bytes) -> "UnescapedText":
        """Return the text with one character in the place of each span."""
        pieces: list[bytes] = []
        places: list[int] = []
        position = 0
        for start, end in spans:
            pieces += [self.text[position:start], by]
            places += [position, start]
            position = end
        pieces.append(self.text[position:])
        starts = [0, *accumulate(map(len, pieces))]
        return UnescapedText(b"".join(pieces), starts[:-1], [*places, position], self)

    def part(self, start: int, end: int) -> "UnescapedText":
        """Return a part of the text, which keeps its places."""
        return UnescapedText(self.text[start:end], [0], [start], self)


def views_of(text: bytes) -> list[UnescapedText]:
    """Return the text itself, and its view at each level of escapes."""
    views = [UnescapedText(text, [], [])]
    if _LEAST_SHARE_OF_NULS * text.count(_NUL) >= len(text) > 0:
        views.append(_without_nuls(views[0]))
    while len(views) <= _MAX_LEVELS and (finer := unescape(views[-1])) is not None:
        views.append(finer)
    return views


def _without_nuls(below: UnescapedText) -> UnescapedText:
    """Return the view of UTF-16 or UTF-32 in which a character is a byte."""
    runs = list(_NOT_NULS.finditer(below.text))
    pieces = [run.group() for run in runs]
    starts = [0, *accumulate(map(len, pieces))]
    return UnescapedText(b"".join(pieces), starts, [*(run.start() for run in runs), len(below.text)], below)


def unescape(below: UnescapedText, *, is_quoted: bool = False) -> UnescapedText | None:
    """Return a text with one level of escapes as the characters that they stand for; None without escapes.

    `is_quoted`: only those of strings in quotes, as in JSON, with a backslash.
    """
    if not _MAY_ESCAPE.search(below.text):
        return None
    plain = _without_escapes(below.text, _QUOTED_ESCAPE if is_quoted else _ESCAPE)
    return UnescapedText(*plain, below) if plain is not None else None


@lru_cache(maxsize=4)
def _without_escapes(text: bytes, pattern: re.Pattern[bytes]) -> tuple[bytes, list[int], list[int]] | None:
    """Return the text without its escapes, and where its pieces are in it and in the text.

    A dense text has an escape for each character: do not call a function of Python for each.
    """
    plain, escapes = (parts := pattern.split(text))[::2], parts[1::2]
    characters = [each or escape for each, escape in zip(map(_character, escapes), escapes, strict=True)]
    if characters == escapes:
        return None
    # A piece without escapes, what the escape behind it stands for, and a boundary before a word; and again.
    pieces = [b""] * (3 * len(escapes) + 1)
    pieces[::3], pieces[1::3] = plain, characters
    pieces[2::3] = [
        _BOUNDARY if character in _WORD_CHARACTERS and behind[:1] in _WORD_CHARACTERS else b""
        for character, behind in zip(characters, plain[1:], strict=True)
    ]
    sizes = [0] * len(pieces)
    sizes[::3], sizes[1::3] = map(len, plain), map(len, escapes)
    starts, places = accumulate(map(len, pieces), initial=0), accumulate(sizes, initial=0)
    return b"".join(pieces), list(starts)[:-1], list(places)[:-1]


_WORD_CHARACTERS: Final = frozenset(bytes([byte]) for byte in range(256) if bytes([byte]).isalnum())


@lru_cache(maxsize=1024)
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


_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


def from_base64(value: bytes, *, is_strict: bool = False) -> bytes:
    """Return what a value is the base64 of, in either alphabet; empty when it is none.

    `is_strict` takes no other character in it.
    """
    plain = value.translate(_STANDARD).rstrip(b"=")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=is_strict)
    except binascii.Error:
        return b""

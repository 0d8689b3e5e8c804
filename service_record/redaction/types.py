"""Types that the modules of redaction share: RE2 patterns, secrets, spans to mask, and unescaped texts. Pure.

Patterns run in RE2, whose time is linear in the size of the text for every pattern and every text.

JSON, Go, C, shells, syslog, URLs, XML, `cat -A` and terminals escape characters, and their escapes may be
nested. Shapes are searched for in the text and in its unescaped copies, so no shape has to match escapes.
"""

import base64
import binascii
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import accumulate
from operator import floordiv
from typing import Any, Final, Protocol, TypeAlias

import re2

Pattern: TypeAlias = Any  # re2 has no types
_MEMORY_BYTES: Final = 64 << 20
"""RE2's memory limit for one pattern, including the automaton states that it builds while it searches."""


ZEROS_FOR_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
"""Table for `bytes.translate`. Lines that differ only in times, process IDs and numbers become equal."""


def compile_pattern(pattern: bytes, *, groups: bool = True) -> Pattern:
    """Compile a pattern that treats each byte as one character."""
    return re2.compile(pattern, _options(groups=groups))


class Finder:
    """Finds the spans of a pattern's matches, without the cost of match objects.

    This class uses two private names of google-re2, because the match objects of the public interface take
    three times as long as the search. The promise of 0.2 s for each MB of lines that name secrets needs this
    speed. A test compares both interfaces and fails if a new version of the library changes the private one.
    """

    __slots__ = ("_match",)

    def __init__(self, pattern: bytes, *, groups: bool = False) -> None:
        self._match = compile_pattern(pattern, groups=groups)._regexp.Match  # noqa: SLF001 - see the class

    def find(self, text: bytes, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """Return the span of the first match between `start` and `end`, or None."""
        span: tuple[int, int] = self._match(_ANYWHERE, text, start, len(text) if end is None else end)[0]
        return span if span[0] >= 0 else None

    def groups(self, text: bytes, start: int = 0) -> list[tuple[int, int]] | None:
        """Return the spans of the next match and of its groups, or None. An unmatched group is (-1, -1)."""
        spans: list[tuple[int, int]] = self._match(_ANYWHERE, text, start, len(text))
        return spans if spans[0][0] >= 0 else None

    def lines(self, text: bytes) -> list[tuple[int, int]]:
        """Return start and end of each line in which a match begins. A newline belongs to the next line."""
        match, size = self._match, len(text)
        lines: list[tuple[int, int]] = []
        position = 0
        while position < size:
            place: int = match(_ANYWHERE, text, position, size)[0][0]
            if place < 0:
                break
            place += text.startswith(b"\n", place)
            start = text.rfind(b"\n", position, place) + 1 or position
            end = text.find(b"\n", place)
            if end < 0:
                end = size
            lines.append((start, end))
            position = end + 1
        return lines


_ANYWHERE: Final = re2._Anchor.UNANCHORED  # noqa: SLF001 - see the class


def escape_literal(literal: bytes) -> bytes:
    return re2.escape(literal)  # type: ignore[no-any-return]


def make_filter(patterns: Iterable[bytes]) -> Pattern:
    """Return an RE2 filter for many patterns.

    Its `Match(text)` returns the indexes of the matching patterns, in any order. RE2 first searches for the
    literals in all patterns at once, and then tries the patterns whose literals it found. An RE2 set would
    instead build a new state for nearly every byte of a text in which many patterns almost match.
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
"""Start, end and kind of a secret in a text."""

MASK_BEGIN: Final = b"<redacted:"
"""`<` may begin a plain YAML scalar and needs no escape in JSON. `[` would begin a YAML list."""


_MASK: Final = re.compile(MASK_BEGIN + rb"[a-z0-9-]{0,64}(?:>|[\r\n]|\Z)")
"""Matches a mask, which the end of a line or of the text may cut. Any other text may contain a secret."""


def mask_end(text: bytes, start: int = 0) -> int:
    """Return the end of the mask that begins at `start`, or 0 if none does."""
    found = _MASK.match(text, start)
    return found.end() if found is not None else 0


@cache
def mask(kind: str) -> bytes:
    """Return the mask for a kind of secret: `<redacted:pull-secret>`. It has no quote and no backslash."""
    return MASK_BEGIN + kind.encode() + b">"


@dataclass(frozen=True, slots=True)
class Secret:
    """A known secret of a host, with the value from its file."""

    kind: str
    """Lower case letters, digits and hyphens: `pull-secret`, `kubeadmin-password`."""
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Leak:
    """A secret that would leave the host. A leak does not contain the value."""

    kind: str
    place: str
    """The member with the secret: `ARCHIVE: MEMBER` in nested archives, empty for a plain stream."""
    line: int
    """The line, counted from 1; 0 if the secret is in a member's name or the archive cannot be read."""

    def __str__(self) -> str:
        return f"{self.place or 'the stream'}{f':{self.line}' if self.line else ''}: {self.kind}"


class Redacting(Protocol):
    """Masks the secrets in one stream, such as a member of a bundle. `Redactor` implements it."""

    counts: Counter[str]
    """The number of secrets masked so far, by kind."""

    def feed(self, data: bytes) -> bytes:
        """Take the next chunk, of any size. Return the masked output that is ready, which may be empty."""

    def finish(self) -> bytes:
        """Return the rest of the masked output. Call it once, at the end of the stream."""


def report(counts: Iterable[Counter[str]]) -> dict[str, Any]:
    """Return the content of redaction.json: the number of masked secrets of all members, and by kind."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return {"masked": total.total(), "kinds": dict(sorted(total.items()))}


@dataclass(frozen=True, slots=True)
class MaskedSpan:
    """A part of a text to mask. It contains no newline."""

    start: int
    end: int
    kind: str
    is_first: bool
    """True for the first span of a secret. A secret of several lines has one span for each line."""


def split_at_newlines(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span between its newlines. Masking them keeps the number of lines."""
    while (newline := text.find(b"\n", start, end)) >= 0:
        if newline > start:
            yield start, newline
        start = newline + 1
    if end > start:
        yield start, end


def line_end(text: bytes, position: int) -> int:
    """Return the end of the line that contains `position`, without its newline."""
    end = text.find(b"\n", position)
    return end if end >= 0 else len(text)


def iterate_lines(text: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a part of a text, each with its offset in the text."""
    for line in text[start:end].split(b"\n"):
        yield start, line
        start += len(line) + 1


def merge_spans(spans: Iterable[MaskedSpan]) -> list[MaskedSpan]:
    """Return the spans sorted, with overlapping and adjacent spans merged into one."""
    disjoint: list[MaskedSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if disjoint and span.start <= disjoint[-1].end:
            last = disjoint[-1]
            disjoint[-1] = MaskedSpan(last.start, max(last.end, span.end), last.kind, last.is_first)
        else:
            disjoint.append(span)
    return disjoint


def merge_adjacent(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge each pair of start and end with the next one if they are adjacent, and drop empty ones."""
    spans: list[tuple[int, int]] = []
    for start, end in pieces:
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif end > start:
            spans.append((start, end))
    return spans


_MAX_LEVELS: Final = 4
"""Enough for three levels of JSON with an escape in the innermost one."""
_BOUNDARY: Final = b"\0"
"""Replaces a terminal's colour code, and separates an unescaped letter or digit from a word after it."""
_FOREIGN: Final = b"\x80"
"""Replaces a character beyond Latin-1."""
_NUL: Final = b"\0"
_NOT_NULS: Final = compile_pattern(rb"[^\x00]+", groups=False)
_NULS_DIVISOR: Final = 3
"""A text is read as UTF-16 if a third of its bytes are NUL. Nearly half are, in ASCII text."""
_MAX_BYTE: Final = 0xFF
_MAX_CONTROL: Final = 0x20
_DELETE: Final = 0x7F

_MAX_RUN: Final = 32
"""The number of equal escapes that are decoded as one piece. The pieces are remembered, so it is small."""


def _runs(escape: bytes) -> bytes:
    return b"%b(?:%b){0,%d}" % (escape, escape, _MAX_RUN - 1)


_HEX: Final = b"[0-9A-Fa-f]"
_OF_UNICODE: Final = rb"\\u" + 4 * _HEX
_RUNS: Final = (rb"%" + 2 * _HEX, rb"\\x" + 2 * _HEX, _OF_UNICODE, rb"\\[0-3][0-7][0-7]")
"""Escapes whose runs are decoded at once."""
_ESCAPE: Final = re.compile(
    b"("
    + b"|".join(map(_runs, _RUNS))
    + b"|"
    + _runs(rb"""\\(?:[nrtbfvae"'/\\$` ]|0(?![0-7][0-7]))""")
    # Each alternative begins with one character, so that `re` skips other text fast.
    + rb"|#[0-3][0-7][0-7]|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[a-z]{2,5});"
    rb"|\x1b\[[0-9;?]*[A-Za-z]|\^\[\[[0-9;?]*[A-Za-z])"
)
_CARET_ESCAPE: Final = re.compile(rb"(\^[IMJ])")
"""Matches control characters as cat(1) writes them. A password may contain the same two characters."""
_MAY_ESCAPE: Final = re.compile(rb"[\\%&#^\x1b]")
_QUOTED_ESCAPE: Final = re.compile(b"(" + _runs(_OF_UNICODE) + b"|" + _runs(rb"""\\[nrtbf"'/\\$`]""") + b")")
_SIMPLE: Final = bytes.maketrans(b"nrtbfvae0", b"\n\r\t\b\f\v\a\x1b\0")
"""Table for the character after a backslash."""
_NAMED: Final[Mapping[bytes, bytes]] = {
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
    """A text without its escapes, with a map from its offsets to those of the original text."""

    text: bytes
    _starts: list[int]
    """The offset of each piece in this text."""
    _places: list[int]
    """The offset of the same piece in the text below, from which this one was made."""
    _below: "UnescapedText | None" = None
    _widths: list[int] | None = None
    """The number of bytes in the text below for each byte of a piece; None if it is always 1."""

    def place(self, position: int) -> int:
        """Return the offset in the original text for an offset in this one, which may be its end."""
        if not self._starts:
            return position
        piece = bisect_right(self._starts, position) - 1
        width = self._widths[piece] if self._widths is not None else 1
        place = self._places[piece] + width * (position - self._starts[piece])
        return self._below.place(place) if self._below else place

    def replace_spans(self, spans: list[tuple[int, int]], by: bytes) -> "UnescapedText":
        """Return the text with each span replaced by the byte `by`."""
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
        """Return a part of the text; its offsets still map to the original text."""
        return UnescapedText(self.text[start:end], [0], [start], self)


def unescaped_views(text: bytes) -> list[UnescapedText]:
    """Return the text itself, and a copy for each level of escapes removed."""
    views = [UnescapedText(text, [], [])]
    if _NULS_DIVISOR * text.count(_NUL) >= len(text) > 0:
        views.append(_remove_nuls(views[0]))
    while len(views) <= _MAX_LEVELS and (finer := unescape(views[-1])) is not None:
        views.append(finer)
    return views


def _remove_nuls(below: UnescapedText) -> UnescapedText:
    """Return UTF-16 or UTF-32 text with one byte for each character."""
    runs = list(_NOT_NULS.finditer(below.text))
    pieces = [run.group() for run in runs]
    starts = [0, *accumulate(map(len, pieces))]
    return UnescapedText(b"".join(pieces), starts, [*(run.start() for run in runs), len(below.text)], below)


def unescape(below: UnescapedText, *, is_quoted: bool = False) -> UnescapedText | None:
    """Return a text with one level of escapes replaced by their characters, or None if it has no escapes.

    `is_quoted`: replace only the backslash escapes of quoted strings, as in JSON.
    """
    if not _MAY_ESCAPE.search(below.text):
        return None
    plain = decode_escapes(below.text, _QUOTED_ESCAPE if is_quoted else _ESCAPE)
    if plain is None and not is_quoted:
        plain = decode_escapes(below.text, _CARET_ESCAPE)
    if plain is None:
        return None
    text, starts, places, widths = plain
    return UnescapedText(text, starts, places, below, widths)


@lru_cache(maxsize=4)
def decode_escapes(
    text: bytes, pattern: re.Pattern[bytes]
) -> tuple[bytes, list[int], list[int], list[int]] | None:
    """Return the unescaped text; None without escapes. `UnescapedText` describes the three lists.

    Some texts have an escape for each character. So a run of equal escapes is one piece, and this function
    works on whole lists and calls no Python function for each run, apart from the cached `_characters`.
    """
    plain, runs = (parts := pattern.split(text))[::2], parts[1::2]
    characters = list(map(_characters, runs))
    if characters == runs:
        return None
    # Text without escapes and runs take turns. A boundary separates a run from a word after it.
    pieces = [b""] * len(parts)
    pieces[::2] = plain
    pieces[1::2] = [
        decoded + _BOUNDARY if decoded[-1:] in _WORDS and behind[:1] in _WORDS and decoded != run else decoded
        for run, decoded, behind in zip(runs, characters, plain[1:], strict=True)
    ]
    widths = [1] * len(parts)
    widths[1::2] = map(floordiv, map(len, runs), map(len, characters))
    starts, places = (list(accumulate(map(len, each), initial=0)) for each in (pieces, parts))
    return b"".join(pieces), starts[:-1], places[:-1], widths


_WORDS: Final = frozenset(bytes([byte]) for byte in range(256) if bytes([byte]).isalnum())


@lru_cache(maxsize=1024)
def _characters(run: bytes) -> bytes:
    """Return the characters of a run of escapes, one byte each; the run itself if they are not escapes."""
    return _READERS[run[:1]](run)


def _decode_percent(run: bytes) -> bytes:
    return binascii.unhexlify(run.replace(b"%", b""))


def _decode_backslashes(run: bytes) -> bytes:
    kind = run[1:2]
    if kind == b"x":
        return binascii.unhexlify(run.replace(rb"\x", b""))
    if kind == b"u":
        return b"".join(_byte(int(digits, 16)) for digits in run.split(rb"\u")[1:])
    if run[2:3].isdigit():
        return b"".join(_byte(int(digits, 8)) for digits in run.split(b"\\")[1:])
    return run[1::2].translate(_SIMPLE)


def _decode_entity(escape: bytes) -> bytes:
    if not escape.startswith(b"&#"):
        return _NAMED.get(escape, escape)
    digits = escape[2:-1].lower()
    return _byte(int(digits.strip(b"x"), 16) if digits.startswith(b"x") else int(digits))


def _decode_syslog(escape: bytes) -> bytes:
    """Decode an escape of rsyslog: `#012` is a line feed, but `#123` is a number and stays."""
    value = int(escape[1:], 8)
    return _byte(value) if value < _MAX_CONTROL or value == _DELETE else escape


def _byte(value: int) -> bytes:
    return bytes([value]) if value <= _MAX_BYTE else _FOREIGN


_READERS: Final[Mapping[bytes, Callable[[bytes], bytes]]] = {
    b"%": _decode_percent,
    b"\\": _decode_backslashes,
    b"#": _decode_syslog,
    b"&": _decode_entity,
    b"^": lambda escape: _NAMED.get(escape, _BOUNDARY),
    b"\x1b": lambda _: _BOUNDARY,
}


_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


def from_base64(value: bytes, *, is_strict: bool = False) -> bytes:
    """Decode base64 or base64url, with or without padding. Returns empty bytes if the value is not valid.

    `is_strict` rejects other characters, which are otherwise ignored.
    """
    plain = value.translate(_STANDARD).rstrip(b"=")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=is_strict)
    except binascii.Error:
        return b""


def blank_out(text: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return the text with each byte of the spans replaced by a neutral one."""
    pieces: list[bytes] = []
    position = 0
    for start, end in spans:
        pieces += [text[position:start], b"\x02" * (end - start)]
        position = end
    return b"".join((*pieces, text[position:]))


def is_in_mask(line: bytes, position: int) -> bool:
    begin = line.rfind(MASK_BEGIN, max(0, position - _MAX_MASK_BYTES), position + len(MASK_BEGIN))
    return begin >= 0 and position < mask_end(line, begin)


_MAX_MASK_BYTES: Final = 64

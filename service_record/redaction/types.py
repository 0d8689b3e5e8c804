"""Types that the modules of redaction share: RE2 patterns, secrets, spans to mask, and decoded texts. Pure.

Patterns run in RE2, whose time is linear in the size of the text for every pattern and every text.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
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
    # Of equal spans the further one of a secret comes first, so that the secret is counted once.
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.is_first)):
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
        return self._place_in(bisect_right(self._starts, position) - 1, position)

    def spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans of a part of this text in the original one. Between them, text was left out."""
        if not self._starts:
            return [(start, end)]
        first, last = bisect_right(self._starts, start), bisect_left(self._starts, end)
        edges = pairwise([start, *self._starts[first:last], end])
        return merge_adjacent(
            (self._place_in(piece, begin), self._place_in(piece, after))
            for piece, (begin, after) in enumerate(edges, first - 1)
        )

    def _place_in(self, piece: int, position: int) -> int:
        width = self._widths[piece] if self._widths is not None else 1
        place = self._places[piece] + width * (position - self._starts[piece])
        return self._below.place(place) if self._below else place

    @classmethod
    def join(
        cls, below: "UnescapedText", pieces: Iterable[tuple[bytes, int]], widths: list[int] | None = None
    ) -> "UnescapedText":
        """Return the text of some pieces, each with its offset in the text below."""
        texts, places = [], []
        for text, place in pieces:
            texts.append(text)
            places.append(place)
        starts = accumulate(map(len, texts), initial=0)
        return cls(b"".join(texts), list(starts)[: len(texts)], places, below, widths)

    def replace_spans(self, spans: Iterable[tuple[int, int]], by: bytes) -> "UnescapedText":
        """Return the text with each span replaced by the bytes `by`."""
        pieces: list[tuple[bytes, int]] = []
        position = 0
        for start, end in spans:
            pieces += [(self.text[position:start], position), (by, start)]
            position = end
        return self.join(self, [*pieces, (self.text[position:], position)])

    def part(self, start: int, end: int) -> "UnescapedText":
        """Return a part of the text; its offsets still map to the original text."""
        return UnescapedText(self.text[start:end], [0], [start], self)


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

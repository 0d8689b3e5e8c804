"""The types of redaction: patterns of RE2, secrets, maskers, and the spans of a text that are to be masked.

RE2 takes time linear in the text, whatever the pattern and whatever the text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import re2

Pattern: TypeAlias = Any  # re2 has no types
_MEMORY_BYTES: Final = 64 << 20
"""The limit of one pattern and of its states, which are made as the text asks for them."""


def compiled(pattern: bytes, *, groups: bool = True) -> Pattern:
    """Return the pattern over bytes as they are, a byte a character."""
    return re2.compile(pattern, _options(groups=groups))


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

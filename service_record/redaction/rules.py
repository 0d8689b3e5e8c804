"""Patterns compiled once for all streams: a host's exact secrets, and the shapes of others. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from service_record.redaction import ordinary_words, types
from service_record.redaction.exact import Exact
from service_record.redaction.over_lines import TRIGGER
from service_record.redaction.secrets import SecretShape, shapes
from service_record.redaction.types import (
    MASK_BEGIN,
    MaskedSpan,
    Secret,
    UnescapedText,
    line_end,
    mask,
    united,
    views_of,
    whole_escapes,
)

_MOST_TURNS: Final = 8
"""The limit of passes: the text that a mask lays bare is looked at again; more than two passes are seldom
needed.
"""
_QUOTES: Final = {b'"', b"'", b"`"}
_LONGEST_MASK: Final = 64
_LONGEST_NAME: Final = 48
_NAMED: Final = "token"
_PUBLIC_NAME: Final = types.compiled(
    rb"(?i:(?:public|pub|host|known|verification|verify)[ _.-]?keys?"
    rb"""(?:["'`>\]\s:=?,({-]|string|base64)*$)"""
)
"""Keys that are no secrets."""
_LEAST_REPEATED: Final = 12
"""A shorter value may stand elsewhere in its line as something else."""
_SEPARATOR: Final = types.compiled(
    rb"""[,;&|](?:\s|$|\\*["'{\[]|\\*["']?[A-Za-z0-9_.-]+\\*["']?\s*[=:])|[)}\]>,;.]+$"""
)
_NUMBER: Final = b"0123456789.eE+-"
_NESTED: Final = frozenset(b"([")
"""Signs in a pattern after which a `|` may not be between alternatives of the whole."""


@dataclass(frozen=True, slots=True)
class _Rule:
    number: int
    shape: SecretShape
    pattern: types.Pattern


class _Patterns:
    """The patterns of all shapes, compiled."""

    def __init__(self, shapes: Sequence[SecretShape]) -> None:
        self._which = types.any_of(b"(?m)" + shape.pattern for shape in shapes)
        self._rules = [_Rule(number, shape, self._which.re(number)) for number, shape in enumerate(shapes)]
        self.trigger = _trigger(shapes, TRIGGER)
        self.certain_trigger = _trigger(shape for shape in shapes if shape.is_certain)

    def rules_in(self, text: bytes) -> Sequence[_Rule]:
        """Return the shapes that are in a text, in their order."""
        return [self._rules[index] for index in sorted(self._which.Match(text) or ())]


@cache
def _patterns() -> _Patterns:
    return _Patterns(shapes())


class Rules:
    """Compiled once, used for any number of streams, by any number of threads."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._exact = Exact(secrets)
        self._patterns = _patterns()

    @property
    def left_out(self) -> Counter[str]:
        """Count, by kind, the exact secrets over the limit, which are not looked for; the first ones are."""
        return self._exact.left_out

    def exact_spans(self, text: bytes) -> list[MaskedSpan]:
        """Return the exact secrets in a text of any number of lines."""
        return self._exact.spans(text)

    def suspects(self, text: bytes, *, certain: bool = False) -> Iterator[tuple[int, int]]:
        """Yield the lines that may have the shape of a secret: where each begins and ends."""
        trigger = self._patterns.certain_trigger if certain else self._patterns.trigger
        position = 0
        while (match := trigger.search(text, position)) is not None:
            place = match.start() + text.startswith(b"\n", match.start())
            start = max(position, text.rfind(b"\n", position, place) + 1)
            end = line_end(text, start)
            yield start, end
            position = end + 1

    def without(
        self,
        line: bytes,
        masked_spans: Iterable[tuple[int, int, str]],
        views: Sequence[UnescapedText],
        counts: Counter[str],
    ) -> bytes:
        """Return a line without what was found in its finest view."""
        placed = ((*_placed(views[-1], views[-1], start, end), kind) for start, end, kind in masked_spans)
        spans = united(
            MaskedSpan(start, end, kind, is_first=True) for start, end, kind in placed if start < end
        )
        return _replaced(line, [(span.start, span.end, span.kind) for span in spans], counts)

    def masked(self, line: bytes, counts: Counter[str], *, certain: bool = False) -> bytes:
        """Return the line, which has no newline, without what has the shape of a secret.

        `certain`: without what is never legitimate, and with the rest.
        """
        for _ in range(_MOST_TURNS):
            spans = self._spans_in(line, certain=certain)
            if not spans:
                break
            line = _replaced(line, spans, counts)
        return line

    def values(self, text: bytes) -> Iterator[Secret]:
        """Yield the values that have the shape of a secret in a text of any number of lines, as they stand
        there.
        """
        for start, end in self.suspects(text):
            views = views_of(text[start:end])
            for rule in self._patterns.rules_in(_together(views)):
                for view in views:
                    kind = rule.shape.kind
                    yield from (Secret(kind, view.text[a:b]) for a, b in _values(rule, view.text))

    def _spans_in(self, line: bytes, *, certain: bool) -> list[tuple[int, int, str]]:
        """Return what to mask, in the order of the line; overlapping shapes are one span, of the first one's
        kind.
        """
        views = views_of(line)
        spans: list[tuple[int, int, int, str]] = []
        for rule in self._patterns.rules_in(_together(views)):
            for view in views:
                if certain <= rule.shape.is_certain:
                    values = _with_repeats(view.text, _values(rule, view.text))
                    places = (_placed(view, views[-1], *span) for span in values)
                    spans.extend(
                        (start, end, rule.number, rule.shape.kind) for start, end in places if start < end
                    )
        in_order: list[tuple[int, int, str]] = []
        for start, end, _, kind in sorted(spans):
            if in_order and start < in_order[-1][1]:
                in_order[-1] = (in_order[-1][0], max(end, in_order[-1][1]), in_order[-1][2])
            else:
                in_order.append((start, end, kind))
        return in_order


def _trigger(shapes: Iterable[SecretShape], *others: bytes) -> types.Pattern:
    """Return one pattern of all triggers, in order, so that RE2 finds what neighbours have in common."""
    triggers = (*(shape.trigger for shape in shapes), *others)
    alternatives = {each for trigger in triggers for each in _plain(trigger)}
    return types.compiled(b"(?m)" + b"|".join(sorted(alternatives)), groups=False)


def _plain(trigger: bytes) -> list[bytes]:
    """Return the alternatives of a trigger that has nothing else; any other as a whole."""
    return [b"(?:" + trigger + b")"] if _NESTED & set(trigger) else trigger.split(b"|")


def _values(rule: _Rule, line: bytes) -> Iterator[tuple[int, int]]:
    """Yield the groups of a shape that are secret."""
    for match in rule.pattern.finditer(line):
        for group in range(1, rule.pattern.groups + 1):
            start, end = match.span(group)
            if start < 0:
                continue
            if rule.shape.is_assigned:
                end = _own_end(line, start, end)
            check = rule.shape.check
            if check is ordinary_words.is_password and line[start - 1 : start] in _QUOTES:
                check = ordinary_words.is_value  # prose is not in quotes
            if end - start < rule.shape.least or _is_in_mask(line, start):
                continue
            if rule.shape.kind == _NAMED and _PUBLIC_NAME.search(line[max(0, start - _LONGEST_NAME) : start]):
                continue
            if check(line[start:end]):
                yield start, end


def _with_repeats(line: bytes, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield each value and the other places of the same in its line, which have no name before them."""
    values: set[bytes] = set()
    for start, end in spans:
        value = line[start:end]
        if len(value) < _LEAST_REPEATED or value in values or not ordinary_words.is_token(value):
            yield start, end
            continue
        values.add(value)
        place = line.find(value)
        while place >= 0:
            yield place, place + len(value)
            place = line.find(value, place + len(value))


def _together(views: Sequence[UnescapedText]) -> bytes:
    return b"\n".join(view.text for view in views)


def _placed(view: UnescapedText, finest: UnescapedText, start: int, end: int) -> tuple[int, int]:
    return whole_escapes(finest, view.place(start), view.place(end))


def _is_in_mask(line: bytes, position: int) -> bool:
    start = max(0, position - _LONGEST_MASK)
    return line.rfind(MASK_BEGIN, start, position) > line.rfind(b">", start, position)


def _own_end(line: bytes, start: int, end: int) -> int:
    """Return where an unquoted value ends: before a separator and the next name, or a closing bracket."""
    if line[start - 1 : start] in _QUOTES:
        return end
    separator = _SEPARATOR.search(line[start:end])
    return start + separator.start() if separator else end


def _replaced(line: bytes, spans: Iterable[tuple[int, int, str]], counts: Counter[str]) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for start, end, kind in spans:
        counts[kind] += 1
        quote = _quote(line, start, end)
        pieces += [line[position:start], quote, mask(kind), quote]
        position = end
    return b"".join((*pieces, line[position:]))


def _quote(line: bytes, start: int, end: int) -> bytes:
    """Return the quote to put around a mask in the place of a number in JSON: the one around its name."""
    if line[start:end].strip(_NUMBER):
        return b""
    head = line[max(0, start - 64) : start].rstrip(b" \t")
    if not head.endswith(b'":'):
        return b""
    name = head[:-2]
    return name[len(name.rstrip(b"\\")) :] + b'"'

"""Find the lines that may contain a secret, in a few passes over many lines. Pure.

Only these lines are read; `reader` decides what is a secret. Lines that differ only in digits are searched
once.
"""

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, compress, count
from operator import add
from typing import Any, Final, TypeAlias

from service_record.redaction import (
    commands,
    encodings,
    long_commands,
    ordinary_words,
    random_words,
    types,
    values_below,
)
from service_record.redaction.command_words import AUDIT_TRIGGER
from service_record.redaction.named_values import SQL_TRIGGER
from service_record.redaction.shapes import SecretShape, expand_parts, shapes
from service_record.redaction.types import ZEROS_FOR_DIGITS

Suspect: TypeAlias = tuple[int, int, bytes, int]
"""A line that may contain a secret: start, end, the line with zeros for its digits, its groups of shapes."""
_NESTED: Final = frozenset(b"([")
"""A pattern with one of these bytes is not split at `|`, which may be inside a group or a class."""
NAMES_TRIGGER: Final = expand_parts(rb"<<NAMED>>|<<LISTS>>")
PROSE_TRIGGER: Final = expand_parts(
    rb"(?i:<<PASSWORDS>>|<<TOKENS>>)<<SUFFIX>>\\*[\"'`]?[ \t]+"
    rb"(?:to|from|is|was|has|now|set|reset|changed|updated)[ \t]"
    rb"|(?i:<<PASSWORDS>>)<<SUFFIX>>[ \t]+\\*[\"'][^\s\"'\\]"
    rb"|(?:[_.-](?i:pass(?:word|wd|phrase)?|pw|psk|authtok|token|secret|api_?key)|[A-Z]PASS(?:WORD|WD|PHRASE)?"
    rb"|[a-z](?:Pass(?:word|phrase)?|Token|Secret|ApiKey)"
    rb"|requirepass|bindpw|masterauth)[ \t]+[^\s\"'\\]+;?[ \t]*(?:\r?$|[\\\"'`<])|Invalid[ \t]value:"
)
"""Matches a name and the beginning of an assignment in a sentence, an identifier and a last word, or an error
message of Kubernetes with a value.
"""


NAMES, WORDS, TOKENS, RUNS, ENCODED = 1, 2, 4, 8, 16
"""Groups of shapes, as bits. Each group has one automaton that searches for its triggers.

- NAMES: names whose values are secret.
- WORDS: other words, such as commands and headers.
- TOKENS: shapes that depend on certain digits; most are prefixes of tokens.
- RUNS: runs of letters and digits that may be random.
- ENCODED: runs that may encode a text.

A single automaton would need a state for each combination of partial matches. An ordinary log leads to
thousands of these states, and building them takes longer than the search.
"""
GROUPS: Final = (NAMES, WORDS, TOKENS, RUNS, ENCODED)
EXACT: Final = TOKENS | ENCODED
"""Each digit matters in lines with shapes of these groups."""
_ANY_DIGIT: Final = re.compile(rb"0-9|\{[0-9,]+\}")
_LITERAL_DIGIT: Final = re.compile(rb"[0-9]")
_TOKEN_KINDS: Final = frozenset({"service-token", "private-key", "encoded-secret"})
_ENCODED_TRIGGER: Final = encodings.TRIGGER + b"|" + AUDIT_TRIGGER
_DIGIT_CHECKS: Final = (ordinary_words.is_credential, ordinary_words.is_registry_auth)
"""These checks decode base64, so each digit affects their result."""


@dataclass(frozen=True, slots=True)
class _Group:
    filter: Any
    """An RE2 filter that returns the indexes of the `shapes` in a text."""
    shapes: Sequence[tuple[int, SecretShape, bytes]]
    """The position of each shape among all shapes, the shape, and its pattern."""


class Patterns:
    """The compiled patterns of all shapes."""

    def __init__(self, every: Sequence[SecretShape]) -> None:
        self.scanner = types.Finder(expand_parts(rb"(?i:(<<NAME>><<SUFFIX>>))<<IS>>"), groups=True)
        others = {
            NAMES: NAMES_TRIGGER,
            ENCODED: _ENCODED_TRIGGER,
            WORDS: b"|".join(
                (
                    values_below.TRIGGER,
                    long_commands.TRIGGER,
                    SQL_TRIGGER,
                    PROSE_TRIGGER,
                    commands.make_trigger(),
                )
            ),
            TOKENS: encodings.ESCAPED,
            RUNS: random_words.SCRAMBLED + rb"|" + random_words.SIGNED,
        }
        self._all = _make_search(every, others)
        self._without_scrambled = types.Finder(
            _join_triggers(shape.trigger for shape in every if shape.is_run),
        )
        certain = [shape for shape in every if shape.is_certain]
        self._certain = _make_search(certain, {ENCODED: _ENCODED_TRIGGER})

    def find_groups(self, text: bytes, *, certain: bool = False) -> int:
        """Return a bit mask of the groups of shapes that a text may contain."""
        return (self._certain if certain else self._all).find_groups(text)

    def find_triggers(self, text: bytes, start: int, end: int, *, certain: bool) -> list[tuple[int, int]]:
        """Return where triggers of shapes match between `start` and `end`, in order."""
        return (self._certain if certain else self._all).find_triggers(text, start, end)

    def find_suspects(
        self, text: bytes, *, certain: bool = False, harmless: Container[bytes] = frozenset()
    ) -> list[Suspect]:
        """Return each line that may contain a secret, in order.

        Leaves out the lines that become one of `harmless` with zeros for their digits, unless they may
        contain tokens or encoded texts.

        The bits of TOKENS and ENCODED are exact: in such a line each digit matters, so it is not read from a
        cache. Other bits may be set without a match.

        Most lines of a log repeat a few messages and differ only in digits, so each form of a line, with
        zeros for its digits, is searched once.
        """
        search = self._certain if certain else self._all
        forms = text.translate(ZEROS_FOR_DIGITS).split(b"\n")
        possible = {
            form: numbers
            for form, numbers in search.possible_groups(set(forms)).items()
            if form not in harmless or numbers & EXACT
        }
        if not possible:
            return []
        # Iterators of C only: this is the hot path for logs without secrets.
        every = zip(forms, accumulate(map(len, forms)), count())
        lines = [
            (end - len(form) + newlines, end + newlines, form)
            for form, end, newlines in compress(every, map(possible.__contains__, forms))
        ]
        groups = [possible[form] for _, _, form in lines]
        texts = [text[start:end] for start, end, _ in lines]
        for number, trigger in search.exact.items():
            exact = {at: texts[at] for at, numbers in enumerate(groups) if numbers & number}
            for at in exact.keys() - _find_matching(trigger, exact):
                groups[at] &= ~number
        if not certain:
            by_run = {at: texts[at] for at, numbers in enumerate(groups) if numbers == RUNS}
            for at in self._ordinary_words(by_run):
                groups[at] = 0
        return [(*line, numbers) for line, numbers in zip(lines, groups, strict=True) if numbers]

    def _ordinary_words(self, texts: Mapping[int, bytes]) -> set[int]:
        """Return the keys of the lines that have no trigger but a word that is not random.

        Reading such a line takes ten times as long as this, and there is one in a hundred ordinary lines.
        """
        without = texts.keys() - _find_matching(self._without_scrambled, texts)
        return {at for at in without if not random_words.may_have_random_word(texts[at])}

    def matching_shapes(
        self, text: bytes, groups: int, *, certain: bool
    ) -> Iterator[tuple[int, SecretShape, types.Finder]]:
        """Yield the position, the shape and the pattern of each shape of `groups` that a text contains."""
        for number, group in (self._certain if certain else self._all).groups.items():
            if groups & number:
                for index in group.filter.Match(text) or ():
                    order, shape, pattern = group.shapes[index]
                    yield order, shape, compile_shape(pattern)


def _join_lines(lines: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """Return the lines with line breaks around them, and the offset of each."""
    pieces = [b"", *lines, b""]
    starts = map(add, accumulate(map(len, pieces[1:-1]), initial=1), count())
    return b"\n".join(pieces), list(starts)


def _find_in_lines(trigger: types.Finder, joined: bytes, starts: Sequence[int]) -> set[int]:
    """Return the indexes of the lines of `_join_lines` in which a trigger matches."""
    return {bisect_right(starts, place) - 1 for place, _ in trigger.lines(joined)}


def _find_matching(trigger: types.Finder, lines: Mapping[int, bytes]) -> set[int]:
    """Return the keys of the lines in which a trigger matches.

    Searches all lines at once, with line breaks around them: a trigger may begin or end with one. A search of
    each line would take several times as long.
    """
    if not lines:
        return set()
    keys = list(lines)
    return {keys[at] for at in _find_in_lines(trigger, *_join_lines(lines.values()))}


@cache
def compile_shape(pattern: bytes) -> types.Finder:
    """Compile the pattern of a shape when it is first needed. Most never are, and compiling all is slow."""
    return types.Finder(pattern, groups=True)


class _Search:
    """Finds the groups of shapes that lines may contain, and remembers them for equal lines."""

    def __init__(self, groups: Mapping[int, _Group], triggers: Mapping[int, Sequence[bytes]]) -> None:
        self.groups = groups
        # RE2 builds a state for each combination of partial matches, which takes far longer than a step. A
        # trigger with many partial matches shares a pass only with similar ones.
        many = [each for each in triggers[WORDS] if _has_many_matches(each)]
        passes = (
            (NAMES | WORDS, [*triggers[NAMES], *(each for each in triggers[WORDS] if each not in many)]),
            (NAMES | WORDS, many),
            (TOKENS, triggers[TOKENS]),
            (ENCODED, triggers[ENCODED]),
        )
        self._passes = [(numbers, _make_form_trigger(own)) for numbers, own in passes if own]
        self._runs = _make_form_trigger(triggers[RUNS])
        self.exact = {number: types.Finder(_join_triggers(triggers[number])) for number in (TOKENS, ENCODED)}
        """The triggers of the groups in which each digit matters."""
        self._without: set[bytes] = set()
        """Remembered lines that contain no shape."""
        self._possible: dict[bytes, int] = {}
        """Remembered lines that may contain some, and their groups."""
        self._size = 0

    def find_groups(self, text: bytes) -> int:
        """Return a bit mask of the groups of shapes that a text may contain.

        The digits are zeros in the search, as in the first pass: RE2 has built most of the states for that.
        """
        form = text.translate(ZEROS_FOR_DIGITS)
        found = RUNS if self._runs.find(form) is not None else 0
        for numbers, trigger in self._passes:
            if not found & numbers and trigger.find(form) is not None:
                found |= numbers
        for number, trigger in self.exact.items():
            if found & number and trigger.find(text) is None:
                found &= ~number
        return found

    def find_triggers(self, text: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """Return where triggers match between `start` and `end`, in order."""
        form = text.translate(ZEROS_FOR_DIGITS)
        searches = [(self._runs, form), *((trigger, text) for trigger in self.exact.values())]
        searches += [(trigger, form) for numbers, trigger in self._passes if not numbers & EXACT]
        found: list[tuple[int, int]] = []
        for trigger, searched in searches:
            position = start
            while (hit := trigger.find(searched, position, end)) is not None:
                found.append(hit)
                position = max(hit[1], hit[0] + 1)
        return sorted(found)

    def possible_groups(self, forms: set[bytes]) -> dict[bytes, int]:
        """Return the groups of each line that may contain shapes, given lines with zeros for digits."""
        if self._size > _MAX_REMEMBERED_BYTES:
            # Not emptied, because another thread may be using them.
            self._without, self._possible, self._size = set(), {}, 0
        without, possible = self._without, self._possible
        # Sets do this without a step of Python for each line: it is the hot path for logs without secrets.
        # Two calls, because `difference(without, possible)` would look at each line in `possible`.
        new = forms.difference(without).difference(possible)
        if new:
            found = self._search(new)
            possible.update(found)
            without |= new.difference(found)
            self._size += sum(map(len, new))
        return {form: possible[form] for form in possible.keys() & forms}

    def _search(self, forms: set[bytes]) -> dict[bytes, int]:
        lines = list(forms)
        joined = _join_lines(lines)
        by_run = [lines[at] for at in _find_in_lines(self._runs, *joined)]
        # The words in base64 are random, and lead RE2 to a new state at nearly every byte. A line of only
        # base64 has a random run, so the others need no closer look.
        base64 = set(filter(encodings.is_only_base64, by_run))
        others = [line for line in lines if line not in base64] if base64 else lines
        words = _join_lines(others) if base64 else joined
        found = dict.fromkeys((line for line in by_run if line not in base64), RUNS)
        for numbers, trigger in self._passes:
            own, text = (lines, joined) if numbers & EXACT else (others, words)
            for at in _find_in_lines(trigger, *text):
                found[own[at]] = found.get(own[at], 0) | numbers
        return found


_CLASS: Final = re.compile(rb"\[[^\]]*\]")
_REPEATED_CLASS: Final = re.compile(rb"\[\][*+{]")
_COUNTS_LETTERS: Final = re.compile(rb"a-z[^\]]*\]\{")
_WORD: Final = re.compile(rb"[A-Za-z]{3,}")


def _has_many_matches(trigger: bytes) -> bool:
    """Return True if ordinary lines have many partial matches of a trigger, or long ones.

    Such a trigger counts the letters of a value, or repeats a class of characters before its first word and
    has no other one: `/[^/]+ password `.
    """
    before, *others = _WORD.split(_CLASS.sub(b"[]", trigger))
    return _COUNTS_LETTERS.search(trigger) is not None or (
        len(others) <= 1 and _REPEATED_CLASS.search(before) is not None
    )


_MAX_REMEMBERED_BYTES: Final = 1 << 22
_DIGIT: Final = re.compile(rb"(\\x[0-9A-Fa-f]{2}|\\.|\{[0-9,]+\})|[0-9]")
"""Matches a digit. Its group matches escapes and counts, whose digits stand for something else."""


def _ignore_digits(pattern: bytes) -> bytes:
    """Return a pattern that matches wherever `pattern` does, in a text with zeros for its digits."""
    return _DIGIT.sub(lambda match: match[1] or b"0", pattern)


def _make_form_trigger(triggers: Iterable[bytes]) -> types.Finder:
    return types.Finder(_ignore_digits(_join_triggers(triggers)))


def _make_search(every: Sequence[SecretShape], others: Mapping[int, bytes]) -> _Search:
    """Return the search for these shapes. `others` has one more trigger for some groups."""
    groups: dict[int, _Group] = {}
    triggers: dict[int, list[bytes]] = {}
    for number in GROUPS:
        own = [(order, shape) for order, shape in enumerate(every) if _group_number(shape) == number]
        triggers[number] = [shape.trigger for _, shape in own]
        triggers[number] += [others[number]] if number in others else []
        if not triggers[number]:
            continue
        patterns = [(order, shape, b"(?m)" + shape.pattern) for order, shape in own]
        groups[number] = _Group(
            types.make_filter(pattern for _, _, pattern in patterns),
            patterns,
        )
    return _Search(groups, triggers)


def _group_number(shape: SecretShape) -> int:
    if shape.is_run:
        return RUNS
    if shape.trigger == expand_parts(b"<<NAMED>>"):
        return NAMES
    # A class with only some digits, such as [13], counts as a literal digit.
    digits = _LITERAL_DIGIT.search(_ANY_DIGIT.sub(b"", shape.pattern))
    return TOKENS if digits or shape.kind in _TOKEN_KINDS or shape.check in _DIGIT_CHECKS else WORDS


@cache
def patterns() -> Patterns:
    return Patterns(shapes())


def _join_triggers(triggers: Iterable[bytes]) -> bytes:
    """Return one pattern of all triggers. They are sorted so that RE2 merges common prefixes."""
    alternatives = {
        each for trigger in triggers for each in _split_trigger(trigger.replace(rb"[ \t]", _SPACE))
    }
    return b"(?m)" + b"|".join(sorted(alternatives))


_SPACE: Final = rb"(?:[ \t+]|%(?:20|09)|\\+(?:(?:u00|x)(?:20|09)|t)|\\*[\"'](?:, ?| )\\*[\"'])"
"""A blank in a trigger also matches an escaped blank, and what separates the words of a list."""


def _split_trigger(trigger: bytes) -> list[bytes]:
    """Split a trigger at `|`; return it whole, as a group, if it has groups or classes."""
    return [b"(?:" + trigger + b")"] if _NESTED & set(trigger) else trigger.split(b"|")

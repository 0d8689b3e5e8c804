"""Patterns of lines, and many patterns looked for at once. Pure.

Patterns are RE2's, in time linear in the text whatever the pattern: messages come from anywhere, and rules
from whoever wrote them. To compile all of them takes longer than all else that a small bundle needs. So a
short text is first searched for the words that a pattern cannot match without; only what is left is compiled.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from re import _parser  # undocumented; used only where rules are made from YAML
from typing import Any, Final, Self

import msgspec

_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_NAMED_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")
"""Of RE2; Python reads it as something else."""
_LEAST_NEEDLE: Final = 3
_MOST_NEEDLES: Final = 12
_SET_BYTES: Final = 64 << 20
_FEW_BYTES: Final = 1 << 14
"""In so much text, words are found in less time than a set of all patterns takes to compile."""
_BYTES_OF_A_CALL: Final = 1 << 8
"""One look at a text costs as much as so many bytes of it."""


class Pattern(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A pattern of RE2, without regard to case; compiled when it is first searched for."""

    text: str
    names: tuple[str, ...] = ()
    """Its groups."""
    needles: tuple[str, ...] = ()
    """Words in small letters: each text that it matches has one of them. Empty where none is certain."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the pattern that is written so, compiled or not valid."""
        return cls(text, tuple(_GROUP.findall(text)), needles_of(text))

    @cached_property
    def compiled(self) -> Any:
        """Compile the pattern with RE2. Raises re2.error where it is not valid."""
        import re2  # noqa: PLC0415  # only where a text is looked at

        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        return re2.compile(self.text.encode(), options)

    def search(self, text: bytes) -> Any:
        """Return the first match in a text, or None."""
        return self.compiled.search(text)

    def may_match(self, folded: str) -> bool:
        """Return False where a text in small letters certainly does not match."""
        return not self.needles or any(needle in folded for needle in self.needles)


class LineSet:
    """Patterns that are looked for all at once, each with the number of the test that it belongs to."""

    def __init__(self, patterns: Iterable[tuple[int, Pattern]]) -> None:
        self._patterns = tuple(patterns)
        self._looked = 0

    def tests(self, text: bytes) -> set[int]:
        """Return the numbers of the tests of which a pattern is in the text."""
        self._looked += _BYTES_OF_A_CALL + len(text)
        return self.tests_by_words(text) if self._looked <= _FEW_BYTES else self.tests_by_set(text)

    def tests_by_words(self, text: bytes) -> set[int]:
        """Return the same, and compile only patterns whose words are in the text."""
        folded = text.decode(errors="replace").casefold()
        return {test for test, one in self._patterns if one.may_match(folded) and one.search(text)}

    def tests_by_set(self, text: bytes) -> set[int]:
        """Return the same, and read the text once whatever the number of patterns."""
        return (
            {self._patterns[index][0] for index in self._set.Match(text) or ()} if self._patterns else set()
        )

    @cached_property
    def _set(self) -> Any:
        import re2  # noqa: PLC0415  # as above

        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _SET_BYTES
        patterns = re2.Set.SearchSet(options)
        for _, pattern in self._patterns:
            patterns.Add(pattern.text.encode())
        patterns.Compile()
        return patterns


def needles_of(pattern: str) -> tuple[str, ...]:
    """Return words in small letters of which each match has one; none where that is not certain."""
    if _NAMED_CLASS.search(pattern):
        return ()
    try:
        parts = _parser.parse(pattern)
    except (re.error, OverflowError):  # a form of RE2 only, or not valid
        return ()
    return max(_needles(parts), key=_worth, default=())


def _worth(needles: Sequence[str]) -> int:
    return min(map(len, needles))


def _needles(parts: Any) -> Iterator[tuple[str, ...]]:
    """Yield each choice of words that there is: one of each choice is in every match."""
    run = ""
    for kind, value in [*_flattened(parts), (None, None)]:
        if kind is _parser.LITERAL and chr(value).isascii():
            run += chr(value).lower()
            continue
        if kind is _parser.AT:  # has no width
            continue
        if len(run) >= _LEAST_NEEDLE:
            yield (run,)
        run = ""
        if kind is _parser.BRANCH:
            best = [max(_needles(branch), key=_worth, default=()) for branch in value[1]]
            choice = tuple(dict.fromkeys(needle for needles in best for needle in needles))
            if all(best) and len(choice) <= _MOST_NEEDLES:
                yield choice
        elif kind in {_parser.MAX_REPEAT, _parser.MIN_REPEAT} and value[0] >= 1:
            yield from _needles(value[2])


def _flattened(parts: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of a pattern, those of its groups in their places."""
    for kind, value in parts:
        if kind is _parser.SUBPATTERN:
            yield from _flattened(value[3])
        else:
            yield kind, value

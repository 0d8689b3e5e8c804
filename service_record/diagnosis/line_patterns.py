"""Patterns of lines, and looking for very many of them at once. Pure.

Patterns are RE2's, in time linear in the text whatever the pattern: messages come from anywhere, and rules
from whoever wrote them. To compile all of them takes longer than all else that a small bundle needs. So a
text is searched for the words that patterns cannot match without, and only patterns whose word is there are
compiled and tried.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from re import _parser  # undocumented; used only where rules are made from YAML
from typing import Any, Final, Self, TypeAlias

import msgspec

_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_NAMED_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")
"""Of RE2; Python reads it as something else."""
_LEAST_NEEDLE: Final = 3
_MOST_NEEDLES: Final = 12
_HEAD: Final = 12
"""Characters of a needle that find its line: few enough to compile fast, and enough to be rare."""
_MOST_TRIED: Final = 64
"""Patterns that are tried one by one on one text. No log has so many words in a line, but an attack may."""
_MOST_REMEMBERED: Final = 4096
"""Combinations of words whose patterns are remembered."""
_AUTOMATON_BYTES: Final = 64 << 20


class Pattern(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A pattern of RE2, without regard to case; compiled when it is first searched for."""

    text: str
    names: tuple[str, ...] = ()
    """Its groups."""
    needles: tuple[str, ...] = ()
    """Words in small letters: each text that it matches has one of them. Empty where none is certain."""
    is_word: bool = False
    """True if each text with its word matches, so that it need not be tried."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the pattern that is written so, compiled or not valid."""
        return cls(text, tuple(_GROUP.findall(text)), needles_of(text))

    @cached_property
    def compiled(self) -> Any:
        """Compile the pattern with RE2. Raises re2.error where it is not valid."""
        import re2  # only where a text is looked at

        return re2.compile(self.text.encode(), _options())

    def search(self, text: bytes) -> Any:
        """Return the first match in a text, or None."""
        return self.compiled.search(text)


_Named: TypeAlias = tuple[frozenset[int], tuple[tuple[int, Pattern], ...]]


class LineSet:
    """Patterns that are looked for all at once, each with the number of the test that it belongs to."""

    def __init__(self, patterns: Iterable[tuple[int, Pattern]]) -> None:
        self._patterns = tuple(patterns)
        self._of_words: dict[tuple[int, ...], _Named] = {}

    def prepare(self) -> None:
        """Compile all but single patterns, before processes are made that share it."""
        if self._patterns:
            self._heads.search(b"")
            self.tests(b"")

    def tests(self, text: bytes) -> set[int]:
        """Return the numbers of the tests of which a pattern is in the text."""
        if not self._patterns:
            return set()
        words = tuple(self._words.Match(text) or ())
        # Lines of one program have the same words again and again.
        known = self._of_words.get(words)
        if known is None:
            if len(self._of_words) >= _MOST_REMEMBERED:
                self._of_words.clear()
            known = self._of_words[words] = self._named_by(words)
        certain, tried = known
        if not tried:
            return set(certain)
        if len(tried) > _MOST_TRIED:
            return self.tests_by_set(text)
        return {*certain, *(test for test, pattern in tried if pattern.search(text))}

    def _named_by(self, words: Iterable[int]) -> "_Named":
        """Return the tests that these words suffice for, and the patterns that they make possible."""
        patterns = [self._patterns[index] for index in {i for word in words for i in self._of_word[word]}]
        return (
            frozenset(test for test, pattern in patterns if pattern.is_word),
            tuple(one for one in patterns if not one[1].is_word),
        )

    def lines(self, block: bytes, longest: int) -> Iterator[tuple[int, int, set[int]]]:
        """Yield the start and the end of each line that has a pattern, and the numbers of its tests.

        Only the first `longest` bytes of a line are looked at.
        """
        # This is the hot path of large bundles. A match goes to the end of its line, so that each line with a
        # word is one match, however many words are in it.
        at = 0
        for head in self._heads.finditer(block) if self._patterns else ():
            found, end = head.span()
            if found < at:
                continue  # the empty word is found again at the end of a line
            start, at = block.rfind(b"\n", at, found) + 1 or at, end + 1
            if tests := self.tests(block[start : min(end, start + longest)]):
                yield start, end, tests

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        """Return the places of the patterns that each word stands for; the empty word is in every text."""
        by_word: dict[str, list[int]] = {}
        for index, (_, pattern) in enumerate(self._patterns):
            for word in pattern.needles or ("",):
                by_word.setdefault(word, []).append(index)
        return by_word

    @cached_property
    def _of_word(self) -> Sequence[Sequence[int]]:
        return tuple(self._by_word.values())

    @cached_property
    def _words(self) -> Any:
        """Compile the set of all words, numbered as in `_of_word`."""
        import re2  # as above

        return _compile_set(re2.escape(word) for word in self._by_word)

    @cached_property
    def _heads(self) -> Any:
        """Compile the pattern that finds the beginning of any word, and goes on to the end of the line."""
        import re2  # as above

        options = _options()
        options.never_capture = True
        options.max_mem = _AUTOMATON_BYTES
        heads = {word[:_HEAD] for word in self._by_word}
        words = "|".join(map(re2.escape, sorted(heads)))
        return re2.compile(rf"(?:{words})[^\n]*".encode(), options)

    def tests_by_set(self, text: bytes) -> set[int]:
        """Return the same in a time that is linear in the text, whatever it says; slow to begin with."""
        return {self._patterns[index][0] for index in self._set.Match(text) or ()}

    @cached_property
    def _set(self) -> Any:
        return _compile_set(pattern.text for _, pattern in self._patterns)


def end_of_line(text: bytes, at: int) -> int:
    """Return where the line ends that this place is in."""
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def _options() -> Any:
    import re2  # as above

    options = re2.Options()
    options.case_sensitive = options.log_errors = False
    return options


def _compile_set(patterns: Iterable[str]) -> Any:
    import re2  # as above

    options = _options()
    options.never_capture = True
    options.max_mem = _AUTOMATON_BYTES
    compiled = re2.Set.SearchSet(options)
    for pattern in patterns:
        compiled.Add(pattern.encode())
    compiled.Compile()
    return compiled


def needles_of(pattern: str) -> tuple[str, ...]:
    """Return words in small letters of which each match has one; none where that is not certain."""
    if _NAMED_CLASS.search(pattern):
        return ()
    try:
        parts = _parser.parse(pattern)
    except (re.error, OverflowError):  # a form of RE2 only, or not valid
        return ()
    return max(_needles(parts), key=_worth, default=())


_RARE_LENGTH: Final = 5
_FREQUENT: Final = frozenset(
    {
        *(
            "failed to",
            "failed",
            "error",
            "error in",
            "connection refused",
            "timed out",
            "not found",
            "denied",
        ),
        *(
            "unable to",
            "cannot",
            "could not",
            "invalid",
            "read",
            "load",
            "parse",
            "i/o timeout",
            "no such host",
        ),
        *("context deadline exceeded", "no such file or directory", "permission denied", "not ready"),
        *("cluster", "service", "container", "kubelet", "node", "kernel", "network", "device"),
    }
)
"""Words of very many lines: a pattern that is known by other words, too, is tried on fewer lines."""


def _worth(needles: Sequence[str]) -> tuple[bool, int]:
    shortest = min(map(len, needles))
    is_rare = shortest >= _RARE_LENGTH and _FREQUENT.isdisjoint(needle.strip() for needle in needles)
    return is_rare, shortest


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

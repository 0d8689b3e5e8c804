"""Patterns of log lines, and a fast search for hundreds of them at once. Pure.

Patterns use RE2, which takes linear time for any pattern: neither messages nor rules are trusted. Compiling
all patterns would take longer than everything else for a small bundle. So each pattern has needles: words of
which every match contains at least one. A text is searched for all needles at once with the algorithm of Aho
and Corasick, and only patterns with a needle in the text are compiled and tried.

`re2.Filter` would do the same without needles of our own, and as fast. It compiles all patterns, which
adds 0.1 s to each start.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import msgspec

if TYPE_CHECKING:
    import ahocorasick_rs

_GROUP: Final = r"\(\?P?<([A-Za-z_]\w*)>"
_UNUSUAL: Final = r"(?a)\[:\^?[a-z]+:\]|\\[QpPxC\d]|\(\?\w*x"
"""Syntax that `_parse` does not know: [[:alpha:]], \\Q..\\E, \\p{Greek}, \\x{41}, (?x)."""
_LEAST_NEEDLE_CHARACTERS: Final = 3
_MOST_NEEDLES: Final = 12
_MOST_TRIED: Final = 64
"""The most patterns tried one by one on one text. Only an attack has more needles in one line."""
_MOST_REMEMBERED: Final = 4096
"""The most combinations of needles whose patterns are cached."""
_USES_BEFORE_SET: Final = 20
"""The number of lines with the same needles whose patterns are tried one by one."""
_TEXTS_BEFORE_AUTOMATON: Final = 8
_SHORT_TEXT_BYTES: Final = 1024
"""So many short texts are searched for one needle after the other, which takes 0.2 to 1 ms each. A host that
has only records needs no more, and the automaton takes 8 ms to make."""
_AUTOMATON_BYTES: Final = 64 << 20


class Pattern(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A case-insensitive RE2 pattern, compiled on first use."""

    text: str
    names: tuple[str, ...] = ()
    """The names of its groups."""
    needles: tuple[str, ...] = ()
    """Lower-case words of which every match contains at least one. Empty if there are no such words."""
    is_word: bool = False
    """True if every text with the needle matches, so that the pattern need not be tried."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Make a pattern from its text. The text is not checked here; `compiled` raises if it is invalid."""
        return cls(text, tuple(re.findall(_GROUP, text)), find_needles(text))

    @cached_property
    def compiled(self) -> Any:
        """Compile the pattern with RE2. Raises re2.error if it is not valid."""
        import re2  # slow import, needed only to search

        return re2.compile(self.text.encode(), _options())

    def search(self, text: bytes) -> Any:
        """Return the first match in a text, or None."""
        return self.compiled.search(text)


class LineSet:
    """Patterns that are searched all at once, each with the number of the test that it belongs to."""

    def __init__(
        self, patterns: Iterable[tuple[int, Pattern]], own_only: frozenset[int] = frozenset()
    ) -> None:
        """Search `patterns`. Tests in `own_only` are for single texts, not for the lines of files."""
        self._patterns = tuple(patterns)
        self._own_only = own_only
        self._groups: dict[frozenset[int], _PatternGroup] = {}
        self._texts = 0

    def prepare(self) -> None:
        """Compile the search before worker processes are forked, so that they share the memory."""
        self._automaton  # noqa: B018  # a cached property

    def tests(self, text: bytes) -> set[int]:
        """Return the numbers of the tests with a pattern that matches the text."""
        lowered = text.lower()
        self._texts += 1
        is_early = self._texts <= _TEXTS_BEFORE_AUTOMATON and "_automaton" not in vars(self)
        if is_early and len(text) <= _SHORT_TEXT_BYTES:
            characters = lowered.decode("latin-1")  # str.__contains__ is faster than that of bytes
            words = {number for number, word in enumerate(self._by_word) if word in characters}
        else:
            words = {word for word, _, _ in self._find_needles(lowered)}
        return self._try_patterns(text, frozenset(words))

    def lines(self, block: bytes, longest: int) -> Iterator[tuple[int, int, set[int]]]:
        """Yield the start and the end of each line that matches, and the numbers of its tests.

        Only the first `longest` bytes of a line are searched. The tests in `own_only` are left out.
        """
        # This is the hot path of large bundles. Most lines contain no needle and cost no step in Python.
        lowered = block.lower()
        start = end = -1
        words: set[int] = set()
        for word, found, found_end in chain(self._find_needles(lowered), [(-1, len(block), 0)]):
            if found >= end:  # in a later line; the last item only ends the loop
                if words and (
                    tests := self._try_patterns(block[start : min(end, start + longest)], frozenset(words))
                    - self._own_only
                ):
                    yield start, end, tests
                words.clear()
                start, end = lowered.rfind(b"\n", 0, found) + 1, end_of_line(lowered, found)
            if found_end <= start + longest:
                words.add(word)

    def _try_patterns(self, text: bytes, words: frozenset[int]) -> set[int]:
        """Return the tests that match a text with these needles."""
        # Lines of one program have the same needles again and again: cache by the set of needles.
        group = self._groups.get(words)
        if group is None:
            if len(self._groups) >= _MOST_REMEMBERED:
                self._groups.clear()
            group = self._groups[words] = _PatternGroup(self._select_patterns(words))
        if len(group.tried) > _MOST_TRIED:
            return self.tests_by_set(text)
        return group.tests(text)

    def _select_patterns(self, words: Iterable[int]) -> list[tuple[int, Pattern]]:
        """Return the patterns that can match a text with these needles."""
        numbers = {index for word in words for index in self._by_number[word]}
        return [self._patterns[index] for index in sorted(numbers)]

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        """Return needle -> positions of its patterns. Patterns without a needle have the empty needle."""
        by_word: dict[str, list[int]] = {}
        for index, (_, pattern) in enumerate(self._patterns):
            for word in pattern.needles or ("",):
                by_word.setdefault(word, []).append(index)
        return dict(sorted(by_word.items()))  # the empty needle is number 0

    @cached_property
    def _by_number(self) -> Sequence[Sequence[int]]:
        return tuple(self._by_word.values())

    @cached_property
    def _automaton(self) -> "ahocorasick_rs.BytesAhoCorasick":
        import ahocorasick_rs  # needed only to search

        return ahocorasick_rs.BytesAhoCorasick([word.encode() for word in self._by_word if word])

    def _find_needles(self, lowered: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield the number, the start and the end of each needle, in the order of their lines."""
        found = self._automaton.find_matches_as_indexes(lowered, overlapping=True)
        if "" not in self._by_word:
            yield from found
            return
        starts = [0, *(match.end() for match in re.finditer(rb"\n(?!\Z)", lowered))]
        numbered = ((number + 1, start, end) for number, start, end in found)
        yield from merge(((0, start, start) for start in starts), numbered, key=itemgetter(1))

    def tests_by_set(self, text: bytes) -> set[int]:
        """Return the same as `tests`, in linear time for any text. Compiling the set takes long."""
        return {self._patterns[index][0] for index in self._set.Match(text) or ()}

    @cached_property
    def _set(self) -> Any:
        return _compile_set(pattern for _, pattern in self._patterns)


class _PatternGroup:
    """The patterns that can match the lines with certain needles."""

    def __init__(self, patterns: Iterable[tuple[int, Pattern]]) -> None:
        patterns = tuple(patterns)
        self._certain = frozenset(test for test, pattern in patterns if pattern.is_word)
        self.tried = tuple(one for one in patterns if not one[1].is_word)
        self._uses = 0
        self._set: Any = None

    def tests(self, text: bytes) -> set[int]:
        """Return the tests that match a text with the needles of this group."""
        if self._set is None:
            self._uses += 1
            if self._uses <= _USES_BEFORE_SET or not self.tried:
                return {*self._certain, *(test for test, pattern in self.tried if pattern.search(text))}
            # A set answers for all patterns in one call, four times as fast. Compiling it pays off only for
            # needles that occur often: the compiled patterns above are shared by all groups.
            self._set = _compile_set(pattern for _, pattern in self.tried)
        return {*self._certain, *(self.tried[index][0] for index in self._set.Match(text) or ())}


def _compile_set(patterns: Iterable[Pattern]) -> Any:
    import re2  # slow import, needed only to search

    options = _options()
    options.never_capture = True
    options.max_mem = _AUTOMATON_BYTES
    compiled = re2.Set.SearchSet(options)
    for pattern in patterns:
        compiled.Add(pattern.text.encode())
    compiled.Compile()
    return compiled


def end_of_line(text: bytes, at: int) -> int:
    """Return the end of the line that contains position `at`."""
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def _options() -> Any:
    import re2  # as above

    options = re2.Options()
    options.case_sensitive = options.log_errors = False
    return options


def find_needles(pattern: str) -> tuple[str, ...]:
    """Return lower-case words of which every match contains at least one; empty if there are none."""
    if re.search(_UNUSUAL, pattern):
        return ()
    return max(_find_needles(_parse(re.finditer(_TOKENS, pattern))), key=_rate, default=())


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
"""Words in very many lines: a pattern that has other needles is tried on fewer lines."""


def _rate(needles: Sequence[str]) -> tuple[bool, int]:
    shortest = min(map(len, needles))
    is_rare = shortest >= _RARE_LENGTH and _FREQUENT.isdisjoint(needle.strip() for needle in needles)
    return is_rare, shortest


_TOKENS: Final = r"""(?xs)
        (?P<none> \(\?[A-Za-z-]+\) | [\^$] | \\[bBAzZ] )  # flags and positions match no character
      | (?P<group> \( (?: \?P?<\w+> | \?[a-z-]*: )? )
      | (?P<gap> \. | \\[dDsSwWantrfv] | \[ \^? \]? (?: \\. | [^\]\\] )* \] )
      | (?P<repeat> [*+?]\?? | \{ (?P<least>\d+) (?:,\d*)? \} \?? )
      | \\? (?P<literal> . )
    """
_Sequence: TypeAlias = "list[str | list[_Sequence] | None]"
"""Literal characters, None for anything else, and groups with their alternatives."""


def _parse(tokens: Iterator[re.Match[str]]) -> list[_Sequence]:
    """Return the alternatives of a pattern up to the end of the group.

    Only as much is parsed as the needles need, so a pattern that is not valid gives needles nobody uses.
    """
    alternatives: list[_Sequence] = [[]]
    for token in tokens:
        sequence = alternatives[-1]
        if token["group"]:
            sequence.append(_parse(tokens))
        elif token["gap"]:
            sequence.append(None)
        elif token["repeat"]:
            if token["repeat"][0] in "*?" or token["least"] == "0":
                sequence[-1:] = [None]
            else:
                sequence.append(None)  # "ab+c" has "ab", but not always "abc"
        elif token.group() == ")":
            break
        elif token.group() == "|":
            alternatives.append([])
        elif token["literal"]:
            literal = token["literal"]
            sequence.append(literal.lower() if literal.isascii() else None)
    return alternatives


def _find_needles(alternatives: list[_Sequence]) -> Iterator[tuple[str, ...]]:
    """Yield possible sets of needles: every match contains at least one word of each set."""
    if len(alternatives) > 1:
        best = [max(_find_needles([one]), key=_rate, default=()) for one in alternatives]
        choice = tuple(dict.fromkeys(needle for needles in best for needle in needles))
        if all(best) and len(choice) <= _MOST_NEEDLES:
            yield choice
        return
    run = ""
    for part in [*_flatten(alternatives[0]), None]:
        if isinstance(part, str):
            run += part
            continue
        if len(run) >= _LEAST_NEEDLE_CHARACTERS:
            yield (run,)
        run = ""
        if part is not None:
            yield from _find_needles(part)


def _flatten(sequence: _Sequence) -> Iterator[str | list[_Sequence] | None]:
    """Yield the parts of a sequence, with groups that have one alternative replaced by their parts."""
    for part in sequence:
        if isinstance(part, list) and len(part) == 1:
            yield from _flatten(part[0])
        else:
            yield part

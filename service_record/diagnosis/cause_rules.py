"""Rules that know a cause by evidence: their patterns of lines, and texts that evidence fills. Pure.

Patterns are RE2's, in time linear in the text whatever the pattern: messages come from anywhere, and rules
from whoever wrote them. To compile all of them takes longer than all else that a small bundle needs. So a
text is first searched for the words that a pattern cannot match without; only what is left is compiled.

The commands of a rule are safe to paste.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from re import _parser  # undocumented; used only where rules are made from YAML
from typing import Any, Final, Self

import msgspec

_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_NAMED_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")
"""Of RE2; Python reads it as something else."""
_LEAST_NEEDLE: Final = 3
_MOST_NEEDLES: Final = 12
_HEAD: Final = 12
"""Characters of a needle that are looked for first: few enough to compile fast, and enough to be rare."""
_AUTOMATON_BYTES: Final = 64 << 20
_FEW_BYTES: Final = 1 << 14
"""In so much text, words are found in less time than what finds all their beginnings takes to compile."""
_BYTES_OF_A_CALL: Final = 1 << 8
"""One look at a text costs as much as so many bytes of it."""
_FEW_HEADS: Final = 64
_BYTES_OF_A_HEAD: Final = 1 << 7
"""With more than one head in so many bytes, a set of all patterns takes less time."""


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
        import re2  # only where a text is looked at

        return re2.compile(self.text.encode(), _options())

    def search(self, text: bytes) -> Any:
        """Return the first match in a text, or None."""
        return self.compiled.search(text)

    def may_match(self, folded: str) -> bool:
        """Return False where a text in small letters certainly does not match."""
        return not self.needles or any(needle in folded for needle in self.needles)


class LineSet:
    """Patterns that are looked for all at once, each with the number of the test that it belongs to.

    A text is read once for the beginnings of all needles. A pattern is tried only where its needle is.
    Where needles lie too close together for that, all patterns are one set of RE2. A line then takes the same
    time whatever it says, but the set takes ten times as long to compile, and is slow to begin with.
    """

    def __init__(self, patterns: Iterable[tuple[int, Pattern]]) -> None:
        self._patterns = tuple(patterns)
        self._looked = 0

    def prepare(self) -> None:
        """Compile what all but the shortest texts need, before processes are made that share it."""
        head = max(self._by_head, default="")  # what finds a head is compiled when there is one
        self.tests(b"." * _FEW_BYTES + head.encode())

    def tests(self, text: bytes) -> set[int]:
        """Return the numbers of the tests of which a pattern is in the text."""
        self._looked += _BYTES_OF_A_CALL + len(text)
        if self._looked <= _FEW_BYTES:
            return _tests(self._patterns, text)
        heads: set[str] = set()
        for _, head in self._heads_in(text):
            if head is None:
                return self.tests_by_set(text)
            heads.add(head)
        return self._tests_of(heads, text, 0, len(text))

    def lines(self, block: bytes, longest: int) -> Iterator[tuple[int, int, set[int]]]:
        """Yield the start and the end of each line that has a pattern, and the numbers of its tests.

        A line is looked at as far as `longest` bytes.
        """
        start, end, heads = 0, -1, set[str]()
        for at, head in self._heads_in(block):
            if at > end:
                if tests := self._tests_of(heads, block, start, min(end, start + longest)):
                    yield start, end, tests
                start, end, heads = block.rfind(b"\n", 0, at) + 1, end_of_line(block, at), set()
            if head is None:
                yield from self._lines_by_set(block, start, longest)
                return
            heads.add(head)
        if tests := self._tests_of(heads, block, start, min(end, start + longest)):
            yield start, end, tests

    def _lines_by_set(self, block: bytes, start: int, longest: int) -> Iterator[tuple[int, int, set[int]]]:
        """Yield the same of the rest of a block."""
        for raw in block[start:].split(b"\n"):
            if tests := self.tests_by_set(raw[:longest]):
                yield start, start + len(raw), tests
            start += len(raw) + 1

    def _heads_in(self, text: bytes) -> Iterator[tuple[int, str | None]]:
        """Yield where a needle begins, and how; None where so many do, or a pattern is without one."""
        if not self._patterns:
            return
        if "" in self._by_head:
            yield 0, None
            return
        at, rest = 0, _FEW_HEADS + len(text) // _BYTES_OF_A_HEAD
        while match := self._heads.search(text, at):
            at, end = match.span()
            rest -= 1
            yield at, text[at:end].decode().casefold() if rest else None
            at += 1

    def _tests_of(self, heads: Iterable[str], text: bytes, start: int, end: int) -> set[int]:
        """Return the numbers of the tests of which a pattern is in a part of a text with these heads."""
        patterns = [one for head in heads for one in self._by_head[head]]
        return _tests(patterns, text[start:end]) if patterns else set()

    @cached_property
    def _by_head(self) -> Mapping[str, Sequence[tuple[int, Pattern]]]:
        """Return the patterns that a head stands for, by it and by each that is longer."""
        by_head: dict[str, list[tuple[int, Pattern]]] = {}
        for one in self._patterns:
            for head in {needle[:_HEAD] for needle in one[1].needles or ("",)}:
                by_head.setdefault(head, []).append(one)
        sizes = range(_LEAST_NEEDLE, _HEAD + 1)
        return {
            head: [
                one
                for start in dict.fromkeys(head[:size] for size in sizes)
                for one in by_head.get(start, ())
            ]
            for head in by_head
        }

    @cached_property
    def _heads(self) -> Any:
        """Compile what finds heads: at each place the longest."""
        import re2  # as above

        options = _options()
        options.longest_match = options.never_capture = True
        options.max_mem = _AUTOMATON_BYTES
        return re2.compile(b"|".join(re.escape(head).encode() for head in sorted(self._by_head)), options)

    def tests_by_set(self, text: bytes) -> set[int]:
        """Return the numbers of the tests of which a pattern is in the text, whatever the text."""
        return {self._patterns[index][0] for index in self._set.Match(text) or ()}

    @cached_property
    def _set(self) -> Any:
        import re2  # as above

        options = _options()
        options.never_capture = True
        options.max_mem = _AUTOMATON_BYTES
        patterns = re2.Set.SearchSet(options)
        for _, pattern in self._patterns:
            patterns.Add(pattern.text.encode())
        patterns.Compile()
        return patterns


def end_of_line(text: bytes, at: int) -> int:
    """Return where the line ends that this place is in."""
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def _options() -> Any:
    import re2  # as above

    options = re2.Options()
    options.case_sensitive = options.log_errors = False
    return options


def _tests(patterns: Iterable[tuple[int, Pattern]], text: bytes) -> set[int]:
    """Return the numbers of the tests of which a pattern is in a text: tried only where its words are."""
    folded = text.decode(errors="replace").casefold()
    return {test for test, one in patterns if one.may_match(folded) and one.search(text)}


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


_PLACEHOLDER: Final = re.compile(r"(?<![${])\{([a-z]+)\}(?!\})")
_CHOICE: Final = re.compile(r"\[([^\[\]|]*)(?:\|([^\[\]]*))?\]")
_MAX_PASTED: Final = 200
_MAX_TOLD: Final = 100
_CUT: Final = "..."


def placeholders(text: str) -> frozenset[str]:
    """Return the names of the placeholders in a text. `${x}` and `{{x}}` are not: shells have those."""
    return frozenset(_PLACEHOLDER.findall(text))


class _TextPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text, and one that is said in its place when all that this names is known."""

    text: str
    fuller: str | None = None


class Phrase(msgspec.Struct, frozen=True):
    """A text for people that says more where more is known: `[port {port}|the port] is in use`."""

    parts: tuple[_TextPart, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the phrase that is written so. Brackets without a placeholder stand for themselves."""
        parts: list[_TextPart] = []
        end = 0
        for choice in _CHOICE.finditer(text):
            if placeholders(choice[1]):
                parts += _TextPart(text[end : choice.start()]), _TextPart(choice[2] or "", choice[1])
                end = choice.end()
        return cls((*parts, _TextPart(text[end:])))

    @property
    def names(self) -> frozenset[str]:
        """Return all names that it may use."""
        texts = (text for part in self.parts for text in (part.text, part.fuller or ""))
        return frozenset[str]().union(*map(placeholders, texts))

    @property
    def needs(self) -> frozenset[str]:
        """Return the names that it uses even where they are not known."""
        return frozenset[str]().union(*(placeholders(part.text) for part in self.parts))

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the text where these values are known, which are all that it needs and perhaps more."""
        return self.filled_with(values, _plain)

    def filled_with(self, values: Mapping[str, str], show: Callable[[str], str]) -> str:
        """Return the same, each value as `show` has it."""
        chosen = (
            part.text if part.fuller is None or placeholders(part.fuller) - values.keys() else part.fuller
            for part in self.parts
        )
        return "".join(_PLACEHOLDER.sub(lambda match: show(values[match[1]]), text) for text in chosen)


def commands_filled(commands: Iterable[str], values: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands whose every placeholder has a value that is safe to paste into a shell.

    Brackets choose as in a phrase: `{host}:[{port}|443]`.
    """
    safe = {name: shlex.quote(value) for name, value in values.items() if _is_safe(value)}
    for command in commands:
        phrase = Phrase.of(command)
        if phrase.needs <= safe.keys():
            yield phrase.filled_with(safe, lambda value: value)


def _is_safe(value: str) -> bool:
    return value.isprintable() and len(value) <= _MAX_PASTED and not value.startswith("-")


def _plain(value: str) -> str:
    """Return a value in one line, without its middle when it is long."""
    line = " ".join(value.split())
    if len(line) <= _MAX_TOLD:
        return line
    half = (_MAX_TOLD - len(_CUT)) // 2
    return f"{line[:half]}{_CUT}{line[-half:]}"


class Rank(StrEnum):
    """The strength of a rule. Only a cause is named in the headline."""

    CAUSE = "cause"
    POINTER = "points to"
    """The likely cause, which the evidence cannot prove."""
    CONTRIBUTING = "contributing"
    """It makes failures likelier or later, and explains none by itself."""
    SYMPTOM = "symptom"
    """Something else has gone wrong before."""
    FORM = "form of death"
    """A form of death: how it ended, and not why."""


OWN: Final = "own"
"""Of `where`: what the failed service itself said."""


class LineTest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines to find: what they say, and where."""

    patterns: tuple[Pattern, ...]
    where: frozenset[str] = frozenset({OWN})
    times: int = 1
    """Healthy hosts log the line less often than this. Fewer lines elsewhere only point to the cause."""
    measure: str | None = None
    """A test of the numbers in the line."""
    same: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Named group -> fact of this host that has the same value."""

    @property
    def elsewhere(self) -> frozenset[str]:
        """Return where to look beside the service's own lines."""
        return self.where - {OWN}


class FactTest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact that one of the patterns has to fit."""

    name: str
    patterns: tuple[Pattern, ...]


class Condition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tests that all have to hold."""

    lines: LineTest | None = None
    facts: tuple[FactTest, ...] = ()
    check: str | None = None
    roles: frozenset[str] = frozenset()
    """The roles of hosts to which it applies; one of them has to fit."""
    rules: frozenset[str] = frozenset()
    """Other rules, one of which has to fit."""
    texts: Mapping[str, tuple[Pattern, ...]] = msgspec.field(default_factory=dict)
    words: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        tests = (self.lines, self.facts, self.check, self.roles, self.rules, self.texts, self.words)
        return not any(tests)

    @property
    def is_of_trouble(self) -> bool:
        """Return True where it holds only of a service in trouble."""
        return bool(self.texts or self.words) or (self.lines is not None and not self.lines.elsewhere)


class CauseRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cause and what it is known by."""

    name: str
    says: Phrase
    explains: Phrase | None = None
    rank: Rank = Rank.CAUSE
    is_last: bool = False
    """True of a symptom that comes of other symptoms, too."""
    next: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Project and file of each message that it quotes."""
    condition: Condition
    needs: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    within: str = "run"
    """The part whose time lines elsewhere have to fit."""
    heals: bool = False
    """True if the problem may pass by itself, such as a refused connection: old lines then prove nothing."""
    noise: bool = False
    """True if healthy hosts log it too: without a failed service it names no cause."""
    over: frozenset[str] = frozenset()
    """Rules that this one accounts for: they are not the cause where it fits."""

    def line_tests(self) -> Iterator[LineTest]:
        """Yield all its tests of lines."""
        for condition in (self.condition, *self.needs, *self.unless):
            if condition.lines is not None:
                yield condition.lines

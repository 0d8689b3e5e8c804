"""Rules that know a cause by evidence: their conditions, and texts that evidence fills. Pure.

The commands of a rule are safe to paste.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Self

import msgspec

from service_record.diagnosis.line_patterns import Pattern

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

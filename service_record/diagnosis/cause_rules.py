"""Rules of known causes: their conditions, and texts with placeholders. Pure.

Placeholders in commands are quoted, so that the commands are safe to paste into a shell.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Self

import msgspec

from service_record.diagnosis.evidence.line_patterns import Pattern

_PLACEHOLDER: Final = re.compile(r"(?<![${])\{([a-z]+)\}(?!\})")
_CHOICE: Final = re.compile(r"\[([^\[\]|]*)(?:\|([^\[\]]*))?\]")
_MAX_PASTED_CHARACTERS: Final = 200
_MAX_SHOWN_CHARACTERS: Final = 100
_ELLIPSIS: Final = "..."


def find_placeholders(text: str) -> frozenset[str]:
    """Return the names of the placeholders in a text. `${x}` and `{{x}}` belong to the shell."""
    return frozenset(_PLACEHOLDER.findall(text))


class _TextPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text, and a fuller one that replaces it if all its placeholders have values."""

    text: str
    fuller: str | None = None


class Phrase(msgspec.Struct, frozen=True):
    """A text with optional parts: `[port {port}|the port] is in use`."""

    parts: tuple[_TextPart, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a phrase. Brackets without a placeholder are ordinary text."""
        parts: list[_TextPart] = []
        end = 0
        for choice in _CHOICE.finditer(text):
            if find_placeholders(choice[1]):
                parts += _TextPart(text[end : choice.start()]), _TextPart(choice[2] or "", choice[1])
                end = choice.end()
        return cls((*parts, _TextPart(text[end:])))

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all its placeholders."""
        texts = (text for part in self.parts for text in (part.text, part.fuller or ""))
        return frozenset[str]().union(*map(find_placeholders, texts))

    @property
    def needs(self) -> frozenset[str]:
        """Return the names of the placeholders that must have a value."""
        return frozenset[str]().union(*(find_placeholders(part.text) for part in self.parts))

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with these values, shortened for people. `needs` names the required values."""
        return self.fill_with(values, _shorten)

    def fill_with(self, values: Mapping[str, str], show: Callable[[str], str]) -> str:
        """Return the text with these values, each converted by `show`."""
        chosen = (
            part.fuller
            if part.fuller is not None and find_placeholders(part.fuller) <= values.keys()
            else part.text
            for part in self.parts
        )
        return "".join(_PLACEHOLDER.sub(lambda match: show(values[match[1]]), text) for text in chosen)


def fill_commands(commands: Iterable[str], values: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands whose every placeholder has a value that is safe to paste into a shell.

    Brackets work as in a phrase: `{host}:[{port}|443]`.
    """
    safe = {name: shlex.quote(value) for name, value in values.items() if _is_safe(value)}
    for command in commands:
        phrase = Phrase.parse(command)
        if phrase.needs <= safe.keys():
            yield phrase.fill_with(safe, lambda value: value)


def _is_safe(value: str) -> bool:
    return value.isprintable() and len(value) <= _MAX_PASTED_CHARACTERS and not value.startswith("-")


def _shorten(value: str) -> str:
    """Return a value in one line. The middle of a long value is left out."""
    line = " ".join(value.split())
    if len(line) <= _MAX_SHOWN_CHARACTERS:
        return line
    half = (_MAX_SHOWN_CHARACTERS - len(_ELLIPSIS)) // 2
    return f"{line[:half]}{_ELLIPSIS}{line[-half:]}"


class Rank(StrEnum):
    """What a rule proves. Only a `cause` is named in the first line as certain."""

    CAUSE = "cause"
    POINTER = "points to"
    """A likely cause that the evidence never proves."""
    CONTRIBUTING = "contributing"
    """Contributes to failures, but does not explain one by itself."""
    SYMPTOM = "symptom"
    """A consequence: something else failed before."""
    FORM = "form of death"
    """How the service ended, not why."""


OWN: Final = "own"
"""The value of `where` for the failed service's own lines."""


class LineTest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A test for log lines: patterns, and the sources in which a match proves the cause."""

    patterns: tuple[Pattern, ...]
    where: frozenset[str] = frozenset({OWN})
    times: int = 1
    """Healthy hosts log the line less often. Fewer lines than this in other sources only point to the
    cause."""
    measure: str | None = None
    """The name of a test in MEASURES for the numbers in the line."""
    same: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Named group -> the fact of this host that must have the same value."""

    @property
    def elsewhere(self) -> frozenset[str]:
        """Return the sources other than the service's own lines."""
        return self.where - {OWN}


class FactTest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A test for a fact: one of the patterns must match its value."""

    name: str
    patterns: tuple[Pattern, ...]


class Condition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tests that must all pass."""

    lines: LineTest | None = None
    facts: tuple[FactTest, ...] = ()
    check: str | None = None
    roles: frozenset[str] = frozenset()
    """The host must have one of these roles; empty if any role will do."""
    rules: frozenset[str] = frozenset()
    """Names of other rules, one of which must fit."""
    texts: Mapping[str, tuple[Pattern, ...]] = msgspec.field(default_factory=dict)
    """`service`, `stage` or `command` -> patterns, one of which must match."""
    words: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """`kind`, `exit`, `signal` or `systemd` -> values, one of which must be equal."""

    @property
    def is_empty(self) -> bool:
        tests = (self.lines, self.facts, self.check, self.roles, self.rules, self.texts, self.words)
        return not any(tests)

    @property
    def is_of_trouble(self) -> bool:
        """Return True if it can only hold for a service in trouble."""
        return bool(self.texts or self.words) or (self.lines is not None and not self.lines.elsewhere)


class CauseRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule: a cause, and the conditions by which it is recognised."""

    name: str
    says: Phrase
    explains: Phrase | None = None
    rank: Rank = Rank.CAUSE
    is_last: bool = False
    """True for a symptom that can follow from other symptoms."""
    next: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Project and file of each message that the rule quotes."""
    condition: Condition
    needs: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    """Conditions of which each speaks against the cause."""
    within: str = "run"
    """The period of lines in other sources: `run`, `boot` or `any`."""
    heals: bool = False
    """True if the problem may pass by itself, such as a refused connection: old lines then prove nothing."""
    noise: bool = False
    """True if healthy hosts log it too: without a failed service it names no cause."""
    program: Pattern | None = None
    """Words that name the program whose messages these are, for messages that other programs print, too.

    If neither the line, nor the last lines of the service, nor the names of its writer, service, stage or
    command have one of them, the rule only points to the cause."""
    over: frozenset[str] = frozenset()
    """Names of rules that this rule explains: if both fit, this one is the cause."""

    def list_line_tests(self) -> Iterator[LineTest]:
        """Yield all line tests of its conditions."""
        for condition in (self.condition, *self.needs, *self.unless):
            if condition.lines is not None:
                yield condition.lines

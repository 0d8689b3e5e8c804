"""Known causes: rules that know a trouble by its message and its end, and say in plain words what it is.

Patterns are matched by RE2, in time linear in the text whatever the pattern: messages come from anywhere, and
rules from whoever wrote them. Of diagnosis this module alone needs it.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

import re2

from service_record.diagnosis.placed import FileError, Value, document
from service_record.diagnosis.trouble_facts import KINDS, KnownCause, TroubleFacts

__all__ = ["CauseRule", "Causes", "FileError", "read_rules"]

_PLACEHOLDER: Final = re.compile(r"(?<![${])\{([a-z]+)\}(?!\})")
_CHOICE: Final = re.compile(r"\[([^\[\]|]*)(?:\|([^\[\]]*))?\]")
_MAX_PASTED: Final = 200
_MAX_TOLD: Final = 100
_CUT: Final = "..."


def placeholders(text: str) -> frozenset[str]:
    """The names of the placeholders in a text. `${x}` and `{{x}}` are none: shells and formats have those."""
    return frozenset(_PLACEHOLDER.findall(text))


@dataclass(frozen=True, slots=True)
class _TextPart:
    """A text, and one that is said in its place when all that this names is known."""

    text: str
    fuller: str | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """A text for people that says more where more is known: `[port {port}|the port] is in use`."""

    parts: tuple[_TextPart, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """The phrase that is written so. Brackets without a placeholder stand for themselves."""
        parts: list[_TextPart] = []
        end = 0
        for choice in _CHOICE.finditer(text):
            if placeholders(choice[1]):
                parts += _TextPart(text[end : choice.start()]), _TextPart(choice[2] or "", choice[1])
                end = choice.end()
        return cls((*parts, _TextPart(text[end:])))

    @property
    def names(self) -> frozenset[str]:
        """All that it may name."""
        texts = (text for part in self.parts for text in (part.text, part.fuller or ""))
        return frozenset[str]().union(*map(placeholders, texts))

    @property
    def needs(self) -> frozenset[str]:
        """What it names even where that is not known."""
        return frozenset[str]().union(*(placeholders(part.text) for part in self.parts))

    def filled(self, values: Mapping[str, str]) -> str:
        """What it says where these are known, which are all that it needs and perhaps more."""
        return self.filled_with(values, _told)

    def filled_with(self, values: Mapping[str, str], show: Callable[[str], str]) -> str:
        """Likewise, each value as `show` has it."""
        chosen = (
            part.text if part.fuller is None or placeholders(part.fuller) - values.keys() else part.fuller
            for part in self.parts
        )
        return "".join(_PLACEHOLDER.sub(lambda found: show(values[found[1]]), text) for text in chosen)


def commands_filled(commands: Iterable[str], values: Mapping[str, str]) -> Iterator[str]:
    """The commands whose every placeholder has a value that is safe to paste into a shell.

    What stands in brackets is chosen as in a phrase: `{host}:[{port}|443]`.
    """
    safe = {name: shlex.quote(value) for name, value in values.items() if _is_safe(value)}
    for command in commands:
        phrase = Phrase.of(command)
        if phrase.needs <= safe.keys():
            yield phrase.filled_with(safe, lambda value: value)


def _is_safe(value: str) -> bool:
    return value.isprintable() and len(value) <= _MAX_PASTED and not value.startswith("-")


def _told(value: str) -> str:
    """A value in one line, of which the middle is left out when it is long."""
    line = " ".join(value.split())
    if len(line) <= _MAX_TOLD:
        return line
    half = (_MAX_TOLD - len(_CUT)) // 2
    return f"{line[:half]}{_CUT}{line[-half:]}"


_Pattern: TypeAlias = Any  # re2 has no types
_Match: TypeAlias = Any

_MAX_BYTES: Final = 1 << 16
"""What is looked at of a message: its end."""
_LAST: Final = "last"
"""Of `symptom`: it comes of other symptoms, too."""
_PATTERNS: Final[tuple[str, ...]] = ("service", "stage", "command", "message")
_WORDS: Final[tuple[str, ...]] = ("kind", "exit", "signal", "systemd")
_FIELDS: Final = ("name", "says", "explains", "symptom", "next", *_PATTERNS, *_WORDS)
_ALWAYS: Final = frozenset({"service", "unit"})
_GIVEN: Final = _ALWAYS | {"stage", "invocation"}
"""What every rule may put into its texts, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRule:
    """One cause and what it is known by; all of that has to fit, and of each one of the alternatives."""

    name: str
    says: Phrase
    explains: Phrase | None = None
    is_symptom: bool = False
    is_last: bool = False
    next: tuple[str, ...] = ()
    patterns: Mapping[str, tuple[_Pattern, ...]] = field(default_factory=dict)
    words: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def cause(
        self, evidence: TroubleFacts, words: Mapping[str, Collection[str]], texts: Mapping[str, bytes]
    ) -> KnownCause | None:
        """The cause as it applies to the evidence, which has these words and texts; None when it does not."""
        if any(wanted.isdisjoint(words[name]) for name, wanted in self.words.items()):
            return None
        found: dict[str, _Match] = {}
        for name, patterns in self.patterns.items():
            match = _first(patterns, texts[name])
            if match is None:
                return None
            found[name] = match
        values = _given(evidence) | _groups(found.values())
        return KnownCause(
            name=self.name,
            says=self.says.filled(values),
            explains=self.explains.filled(values).strip() or None if self.explains else None,
            commands=tuple(commands_filled(self.next, values)),
            is_symptom=self.is_symptom,
            is_last=self.is_last,
            line=_line(found["message"], texts["message"]) if "message" in found else None,
        )


class Causes:
    """Rules in the order in which they are tried: those that came first, and causes before symptoms."""

    def __init__(self, rules: Iterable[CauseRule]) -> None:
        self._rules = sorted(rules, key=lambda rule: rule.is_symptom)

    def explain(self, evidence: TroubleFacts) -> KnownCause | None:
        """The cause that the first fitting rule knows."""
        words, texts = _words(evidence), _texts(evidence)
        causes = (rule.cause(evidence, words, texts) for rule in self._rules)
        return next((cause for cause in causes if cause is not None), None)


def read_rules(text: str, path: str) -> tuple[CauseRule, ...]:
    """The rules in the text of a file, whose form is in docs/analyze.md. Raises FileError, with the line."""
    root = document(text, path)
    rules: dict[str, CauseRule] = {}
    for value in root.items("rules") if root is not None else ():
        rule = _rule(value)
        if rule.name in rules:
            raise value.fault(f"a rule is called {rule.name!r} already")
        rules[rule.name] = rule
    return tuple(rules.values())


def _rule(value: Value) -> CauseRule:
    fields = value.fields("a rule", _FIELDS)
    for required in ("name", "says"):
        if required not in fields:
            raise value.fault(f"a rule needs `{required}`")
    patterns = {
        name: tuple(_pattern(one, name) for one in fields[name].texts(f"`{name}`"))
        for name in _PATTERNS
        if name in fields
    }
    words = {
        name: frozenset(_word(one, name) for one in fields[name].texts(f"`{name}`"))
        for name in _WORDS
        if name in fields
    }
    if not patterns and not words:
        raise value.fault(f"a rule needs something to be known by: {', '.join((*_PATTERNS, *_WORDS))}")
    known = _GIVEN.union(*(_names(pattern) for each in patterns.values() for pattern in each))
    commands = fields["next"].texts("`next`") if "next" in fields else []
    return CauseRule(
        name=fields["name"].text("`name`"),
        says=_phrase(fields["says"], "says", known),
        explains=_phrase(fields["explains"], "explains", known) if "explains" in fields else None,
        is_symptom="symptom" in fields and _symptom(fields["symptom"]) != "false",
        is_last="symptom" in fields and _symptom(fields["symptom"]) == _LAST,
        next=tuple(_command(one, known) for one in commands),
        patterns=patterns,
        words=words,
    )


def _symptom(value: Value) -> str:
    word = value.text("`symptom`").lower()
    if word not in {"true", "false", _LAST}:
        raise value.fault("`symptom` is true, false or last")
    return word


def _pattern(value: Value, name: str) -> _Pattern:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(value.text(f"a pattern of `{name}`").encode(), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise value.fault(f"not a pattern of RE2: {_decoded(reason)}") from None


def _word(value: Value, name: str) -> str:
    word = value.text(f"`{name}`")
    if name == "kind" and word not in KINDS:
        raise value.fault(f"no kind {word!r}; kinds are {', '.join(sorted(KINDS))}")
    if name == "exit" and not word.isdecimal():
        raise value.fault(f"{word!r} is no exit status")
    return word.removeprefix("SIG") if name == "signal" else word


def _command(value: Value, known: Collection[str]) -> str:
    command = value.text("a command of `next`")
    _check_names(value, placeholders(command), known)
    return command


def _phrase(value: Value, name: str, known: Collection[str]) -> Phrase:
    phrase = Phrase.of(value.text(f"`{name}`"))
    _check_names(value, phrase.names, known)
    unsure = phrase.needs - _ALWAYS
    if unsure:
        one = f"{{{min(unsure)}}}"
        raise value.fault(f"{one} may not be known; write [{one}|something], or [what is left out {one}]")
    return phrase


def _check_names(value: Value, names: Collection[str], known: Collection[str]) -> None:
    unknown = set(names) - set(known)
    if unknown:
        raise value.fault(f"nothing is called {{{min(unknown)}}} here; there are {', '.join(sorted(known))}")


def _words(evidence: TroubleFacts) -> dict[str, Collection[str]]:
    facts = evidence.facts
    return {
        "kind": evidence.kinds,
        "exit": () if facts.exit_code is None else (str(facts.exit_code),),
        "signal": () if facts.signal is None else (facts.signal,),
        "systemd": () if facts.service_result is None else (facts.service_result,),
    }


def _texts(evidence: TroubleFacts) -> dict[str, bytes]:
    texts = {
        "service": evidence.service,
        "stage": evidence.stage,
        "command": evidence.facts.command,
        "message": evidence.facts.message,
    }
    return {name: (text or "")[-_MAX_BYTES:].encode(errors="replace") for name, text in texts.items()}


def _first(patterns: Sequence[_Pattern], text: bytes) -> _Match | None:
    if not text:
        return None
    return next(filter(None, (pattern.search(text) for pattern in patterns)), None)


def _names(pattern: _Pattern) -> list[str]:
    return [_decoded(name) for name in pattern.groupindex]


def _decoded(name: bytes | str) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def _given(evidence: TroubleFacts) -> dict[str, str]:
    given = {
        "service": evidence.service,
        "unit": f"{evidence.service}.service",
        "stage": evidence.stage,
        "invocation": evidence.invocation_id,
    }
    return {name: value for name, value in given.items() if value}


def _groups(matches: Iterable[_Match]) -> dict[str, str]:
    return {
        _decoded(name): _decoded(value)
        for match in matches
        for name, value in match.groupdict().items()
        if value and value.strip()
    }


def _line(match: _Match, text: bytes) -> str:
    begin = text.rfind(b"\n", 0, match.start()) + 1
    end = text.find(b"\n", match.end())
    return text[begin : end if end >= 0 else None].decode(errors="replace").strip()

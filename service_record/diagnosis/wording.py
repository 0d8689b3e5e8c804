"""Texts of rules, with placeholders that evidence fills, and commands that are safe to paste. Pure."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Self

import msgspec

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

"""The shapes of unknown secrets. Pure.

They are data in three files: our own, and two from public sets of rules. If several shapes match, the first
one decides the kind.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from service_record.redaction import ordinary_words, secret_names


@dataclass(frozen=True, slots=True)
class SecretShape:
    """One kind of secret that is found by a pattern.

    Only the groups of the pattern are masked.
    """

    kind: str
    pattern: bytes
    trigger: bytes
    """Matches wherever the pattern can match, in the text with its escapes.

    Triggers are joined into a few patterns, so a trigger with a count or a `$` would slow down all of them.
    """
    check: Callable[[bytes], bool] = ordinary_words.VALUE
    """Returns True if the text of a group is a secret."""
    least: int = 1
    """The least size of a secret in bytes. A count in the pattern would cost RE2 a state for each byte."""
    is_certain: bool = False
    """True if outgoing data with this shape is refused, because only a secret has it."""
    is_run: bool = False
    """True if the trigger is a run of letters and digits without a fixed word. See `first_pass.RUNS`."""
    is_word: bool = False
    """True if a group begins a word of a command line. The syntax of the text decides where it ends."""


OURS: Final = "shapes.toml"
PUBLIC: Final = "shapes_public.toml"
SERVICES: Final = "shapes_services.toml"
"""Tokens of services, from other public sets of rules."""
COMMANDS: Final = "commands.toml"
"""Usages of programs, in the table `command`."""

_PART: Final = re.compile(rb"<<([A-Z_]+)>>")


@cache
def shapes() -> tuple[SecretShape, ...]:
    """Return all shapes, ours first."""
    return tuple(shape for name in (OURS, PUBLIC, SERVICES) for shape in shapes_in(name))


def expand_parts(pattern: bytes) -> bytes:
    """Replace each `<<NAME>>` in a pattern by the part of that name, also within parts."""
    return _PART.sub(lambda part: _expand_part(part[1].decode()), pattern)


@cache
def _expand_part(name: str) -> bytes:
    return b"(?:" + expand_parts(_parts()[name]) + b")"


def rows(name: str, table: str = "shape") -> list[dict[str, Any]]:
    """Return the rows of a table in a file of data, with their examples."""
    found: list[dict[str, Any]] = _document(name)[table]
    return found


def shapes_in(name: str) -> Iterator[SecretShape]:
    """Yield the shapes of one file."""
    for row in rows(name):
        yield SecretShape(
            kind=row["kind"],
            pattern=expand_parts(row["pattern"].encode()),
            trigger=expand_parts(row["trigger"].encode()),
            check=ordinary_words.find_check(row.get("check", "value")),
            least=row.get("least", 1),
            is_certain=row.get("certain", False),
            is_run=row.get("run", False),
            is_word=any(f"<<{part}>>" in row["pattern"] for part in _WORDS),
        )


_WORDS: Final = ("WORD", "QUOTED", "STRING")
"""The parts of patterns that begin a word."""


@cache
def _parts() -> Mapping[str, bytes]:
    ours = {key: text.encode() for key, text in _document(OURS)["parts"].items()}
    return secret_names.make_patterns() | ours


@cache
def _document(name: str) -> dict[str, Any]:
    text = files("service_record.redaction").joinpath(name).read_text(encoding="utf-8")
    return tomllib.loads(text)

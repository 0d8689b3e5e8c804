"""One row of the tables of shapes, and what the patterns of many rows have in common. Pure."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from service_record.redaction import words

WORD: Final = (
    rb"""(?:'([^'\n]+)|\\+"([^"\\\n]+)|"((?:[^"\\\n]|\\[^\n])+)|([^\s"'\\,;|&<>()][^\s"'\\,;|&<>]*))"""
)
"""An argument of a command: in quotes of either kind, in quotes of JSON, or bare."""
NEXT: Final = rb"""(?:\\*["'])?(?:[ \t]*[=,][ \t]*|[ \t]+)"""
"""Between one argument and the next, on a command line or in a list of JSON or Python."""
AT_ONCE: Final = b"(?:" + NEXT + b")?"
"""The same, or nothing: `-p WORD` and `-pWORD`."""
OPTIONS: Final = rb"""[^\n]*?[\s"']"""
IS: Final = rb"""\\*["']?[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8}"""
"""Between a name and its value, in any language."""
VALUE: Final = (
    rb"""(?:\\"((?:[^"\\\n]|\\\\\\"|\\\\[^"\\\n])+)|\\{2,}"([^"\\\n]+)|"((?:[^"\\\n]|\\[^\n])+)"""
    rb"""|\\*'([^'\\\n]+)|([^\s"'\\,;&|<>(){}\[\]=][^\s"'\\]*))"""
)
"""A value behind its name: in JSON in JSON, in quotes, or bare."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a kind of secret looks like.

    A pattern of RE2 within one line. Its groups are what is masked; what stands around them is what they are
    known by, and stays. Each is looked for at every place: none needs to begin with a repetition.
    """

    kind: str
    pattern: bytes
    check: Callable[[bytes], bool] = words.is_value
    """Whether what a group holds is a secret."""
    trigger: bytes = b""
    """Looked for in a whole text, where the pattern may match; empty for the pattern itself.

    All triggers are one pattern, so one that counts or waits for the end of a line makes all of them slow.
    """
    is_certain: bool = False
    """Never legitimate in what leaves a host: shipping is refused for it."""
    is_assigned: bool = False
    """A bare value behind a name: what follows a separator belongs to the next name."""


def cores(text: bytes) -> Iterator[bytes]:
    """Patterns of the base64 of a text amidst others: one for each of its three alignments."""
    for before, hidden in enumerate((0, 2, 3)):
        encoded = base64.b64encode(bytes(before) + text)[hidden : 8 * (before + len(text)) // 6]
        yield encoded.replace(b"+", rb"\+")

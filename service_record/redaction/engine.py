"""RE2 over bytes: time linear in the text, whatever the pattern and whatever the text."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import re2

Pattern: TypeAlias = Any  # re2 has no types
_MEMORY_BYTES: Final = 64 << 20
"""Of one pattern and of its states, which are made as the text asks for them."""


def compiled(pattern: bytes, *, groups: bool = True) -> Pattern:
    """The pattern over bytes as they are, a byte a character."""
    return re2.compile(pattern, _options(groups=groups))


def escaped(literal: bytes) -> bytes:
    return re2.escape(literal)  # type: ignore[no-any-return]


def any_of(patterns: Iterable[bytes]) -> Pattern:
    """Return all of them as one filter.

    `Match(text)` says which are in a text, in any order; `re(number)` is one of them, compiled. RE2 looks for
    the literals in all of them at once, and then for those whose literals are there. A set of whole patterns
    would make a new state of its machine for nearly every byte of a text in which many patterns nearly match.
    """
    found = re2.Filter()
    for pattern in patterns:
        found.Add(pattern, _options(groups=True))
    found.Compile()
    return found


def _options(*, groups: bool) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    options.never_capture = not groups
    return options

"""Reports that come again and again, as a host in a loop sends them: told once, and how often. Pure."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_LONGEST: Final = 32
"""Reports of a round that is recognised when it comes again."""


@dataclass(frozen=True, slots=True)
class Repeated(Generic[T]):
    """A round of reports, of one at least, that came so often in a row."""

    first: tuple[T, ...]
    """As it came first."""
    latest: tuple[T, ...]
    count: int = 1


def repeated(items: Iterable[T], key: Callable[[T], Hashable]) -> tuple[Repeated[T], ...]:
    """What came, in order, with rounds that came twice or more in a row told once; shorter rounds first."""
    pending = list(items)
    keys = [key(item) for item in pending]
    found: list[Repeated[T]] = []
    at = 0
    while at < len(pending):
        length, count = _round_at(keys, at)
        end = at + length * count
        found.append(Repeated(tuple(pending[at : at + length]), tuple(pending[end - length : end]), count))
        at = end
    return tuple(found)


def _round_at(keys: Sequence[Hashable], at: int) -> tuple[int, int]:
    """Length and count of the round that begins there: of those that come again, the shortest."""
    for length in range(1, min(_LONGEST, (len(keys) - at) // 2) + 1):
        count = 1
        while keys[at + count * length : at + (count + 1) * length] == keys[at : at + length]:
            count += 1
        if count > 1:
            return length, count
    return 1, 1

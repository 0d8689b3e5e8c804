"""Runs that came to the same, told once: the first, the last and how many. Pure."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from service_record.history.outcome import Run


@dataclass(frozen=True, slots=True)
class Repeat:
    """Runs of one service that came to the same end in the same place."""

    first: Run
    last: Run
    count: int


def repeats(runs: Iterable[Run]) -> list[Repeat]:
    """The runs of a service by what they came to, the kind seen last coming last."""
    return [Repeat(same[0], same[-1], len(same) + _left_out(same)) for same in alike(runs)]


def _left_out(same: Iterable[Run]) -> int:
    """How many runs like these a rotation of the record left out between them."""
    return sum(run.left_out.alike for run in same if run.left_out is not None)


def alike(runs: Iterable[Run]) -> list[list[Run]]:
    """Likewise, with all the runs of each kind, in their order."""
    found: dict[Hashable, list[Run]] = {}
    for run in runs:
        kind = run.came_to
        same = found.pop(kind, [])
        same.append(run)
        found[kind] = same
    return list(found.values())

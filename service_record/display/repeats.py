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
    found: dict[Hashable, Repeat] = {}
    for run in runs:
        kind = run.came_to
        before = found.pop(kind, None)
        found[kind] = Repeat(before.first, run, before.count + 1) if before else Repeat(run, run, 1)
    return list(found.values())

"""What a part of the torture comes to: how much was tried, and what was found."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Final, TypeVar

from bench.table import aligned

ORDER: Final = os.environ.get("SERVICE_RECORD_TORTURE_ORDER", "")
"""Seed of the order of the cases: `make torture` has another in each run."""

Case = TypeVar("Case")
Verdict = TypeVar("Verdict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One row of the table: one thing that was tortured."""

    target: str
    cases: int
    """Number of cases tried."""
    all_cases: int
    """Number of all cases; as many as were tried where nothing bounds them but time."""
    calls: int | None = None
    """Number of system calls with a fault, where faults were injected."""
    faults: int | None = None
    """Number of different faults of each."""
    findings: tuple[str, ...] = ()
    """A line for each case in which something was other than promised."""

    def cells(self) -> tuple[str, ...]:
        """As they stand in a row of the table."""
        tried = f"{self.cases:,}" if self.cases == self.all_cases else f"{self.cases:,} of {self.all_cases:,}"
        calls, faults = ("" if number is None else f"{number:,}" for number in (self.calls, self.faults))
        return self.target, calls, faults, tried, str(len(self.findings)) if self.findings else "none"


@dataclass(frozen=True, slots=True)
class Until:
    """A moment, by the clock that nobody steps, after which no further case is begun."""

    moment: float

    @classmethod
    def after(cls, seconds: float) -> "Until":
        return cls(time.monotonic() + seconds)

    @property
    def is_over(self) -> bool:
        return self.left <= 0

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self.moment - time.monotonic())


def shuffled(cases: Iterable[Case]) -> list[Case]:
    """The cases in an order that has nothing to do with theirs, and is the same for the same ORDER."""
    return sorted(cases, key=lambda case: hashlib.blake2b(f"{ORDER}{case!r}".encode()).digest())


def sample(cases: Sequence[Case], most: int | None) -> list[Case]:
    """At most so many of the cases, the same ones for the same ORDER; None is all of them."""
    mixed = shuffled(cases)
    return mixed if most is None else mixed[:most]


def while_time_lasts(cases: Iterable[Case], until: Until | None) -> Iterator[Case]:
    """The cases, up to that moment; without one, all. The first is tried in any case."""
    for number, case in enumerate(cases):
        if number and until is not None and until.is_over:
            return
        yield case


def summed(verdicts: Iterable[tuple[bool, list[str]]]) -> tuple[int, tuple[str, ...]]:
    """The number of cases that came about, and all that was found."""
    cases, findings = 0, list[str]()
    for happened, wrong in verdicts:
        cases += happened
        findings += wrong
    return cases, tuple(findings)


def at_once(
    judge: Callable[[Case], Verdict], cases: Iterable[Case], until: Until | None, workers: int = 2
) -> Iterator[Verdict]:
    """Yield the judge's verdict on each case for which there is time, a few of them side by side."""

    def one(case: Case) -> Verdict | None:
        return None if until is not None and until.is_over else judge(case)

    with ThreadPoolExecutor(workers) as pool:
        yield from (said for said in pool.map(one, cases) if said is not None)


_RUNS: Final = ("on", "seconds", "order", "cases", "found")
_LAST_RUNS: Final = 6
_TARGETS: Final = ("target", "system calls", "faults, at most", "cases", "found")


def runs(before: str, tallies: Sequence[Tally], day: date, seconds: float) -> str:
    """The table of the last runs, given the one before this run, one to a row."""
    earlier = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in before.splitlines()[2:]]
    cases = sum(tally.cases for tally in tallies)
    found = sum(len(tally.findings) for tally in tallies)
    row = (day.isoformat(), f"{seconds:,.0f}", ORDER, f"{cases:,}", str(found or "none"))
    return aligned([_RUNS, *[*earlier, row][-_LAST_RUNS:]])


def targets(tallies: Iterable[Tally]) -> str:
    """Return the targets of the torture, one to a row."""
    return aligned([_TARGETS, *(tally.cells() for tally in tallies)])

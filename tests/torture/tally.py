"""Results of a part of the torture, the order of its cases and its time limit."""

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
"""Seed of the order of the cases. `make torture` uses a new one in each run."""

Case = TypeVar("Case")
Verdict = TypeVar("Verdict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One row of the result table."""

    target: str
    cases: int
    all_cases: int
    """Number of possible cases; equal to `cases` where only time limits them."""
    calls: int | None = None
    """Number of system calls that were made to fail; None where no faults were injected."""
    faults: int | None = None
    """Largest number of different faults for one call."""
    findings: tuple[str, ...] = ()
    """One line for each broken promise."""

    def format_cells(self) -> tuple[str, ...]:
        """Return the cells of this row."""
        tried = f"{self.cases:,}" if self.cases == self.all_cases else f"{self.cases:,} of {self.all_cases:,}"
        calls, faults = ("" if number is None else f"{number:,}" for number in (self.calls, self.faults))
        return self.target, calls, faults, tried, str(len(self.findings)) if self.findings else "none"


@dataclass(frozen=True, slots=True)
class Deadline:
    """Time on the monotonic clock after which no further case starts."""

    at: float

    @classmethod
    def from_now(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @property
    def is_over(self) -> bool:
        return self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.at - time.monotonic())


def shuffle(cases: Iterable[Case]) -> list[Case]:
    """Return the cases in a pseudorandom order that depends only on ORDER and their representation."""
    return sorted(cases, key=lambda case: hashlib.blake2b(f"{ORDER}{case!r}".encode()).digest())


def sample(cases: Sequence[Case], limit: int | None) -> list[Case]:
    """Return at most `limit` cases, the same ones for the same ORDER; None returns all."""
    return shuffle(cases)[:limit]


def take_in_time(cases: Iterable[Case], deadline: Deadline | None) -> Iterator[Case]:
    """Yield cases until the deadline, at least one; without a deadline, all."""
    for number, case in enumerate(cases):
        if number and deadline is not None and deadline.is_over:
            return
        yield case


def sum_verdicts(verdicts: Iterable[tuple[bool, list[str]]]) -> tuple[int, tuple[str, ...]]:
    """Return the number of cases whose fault occurred, and all findings."""
    cases, findings = 0, list[str]()
    for occurred, problems in verdicts:
        cases += occurred
        findings += problems
    return cases, tuple(findings)


def judge_in_parallel(
    judge: Callable[[Case], Verdict], cases: Iterable[Case], deadline: Deadline | None, workers: int = 2
) -> Iterator[Verdict]:
    """Yield the verdict on each case that starts before the deadline, `workers` of them in parallel."""

    def judge_in_time(case: Case) -> Verdict | None:
        return None if deadline is not None and deadline.is_over else judge(case)

    with ThreadPoolExecutor(workers) as pool:
        yield from (verdict for verdict in pool.map(judge_in_time, cases) if verdict is not None)


_RUN_COLUMNS: Final = ("on", "seconds", "order", "cases", "found")
_SHOWN_RUNS: Final = 6
_TARGET_COLUMNS: Final = ("target", "system calls", "faults, at most", "cases", "found")


def format_runs(before: str, tallies: Sequence[Tally], day: date, seconds: float) -> str:
    """Return the table of the last runs: the rows of the table `before`, and one for this run."""
    earlier = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in before.splitlines()[2:]]
    cases = sum(tally.cases for tally in tallies)
    findings_count = sum(len(tally.findings) for tally in tallies)
    row = (day.isoformat(), f"{seconds:,.0f}", ORDER, f"{cases:,}", str(findings_count or "none"))
    return aligned([_RUN_COLUMNS, *[*earlier, row][-_SHOWN_RUNS:]])


def format_targets(tallies: Iterable[Tally]) -> str:
    """Return the table with one row for each target."""
    return aligned([_TARGET_COLUMNS, *(tally.format_cells() for tally in tallies)])

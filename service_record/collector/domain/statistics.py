"""Statistics of the steps of many builds: durations, number of failures, and their causes."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

_TOP: Final = 5


@dataclass(frozen=True, slots=True)
class Execution:
    """A finished execution of a step."""

    label: str
    group: str
    release: str
    seconds: float | None
    is_failed: bool
    signature: str = ""
    """The signature of a failure: its message without variable parts."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of durations, in seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class FailureCount:
    """A failure and its number of occurrences."""

    signature: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """The statistics of a step, for all hosts or those of a group or release."""

    label: str
    group: str | None
    """The group, or None if the statistics are not split by group."""
    release: str | None
    count: int
    failed: int
    failure_rate: float
    """0 to 1."""
    times: Percentiles | None
    """Durations of successful executions; None if no start was reported."""
    failures: tuple[FailureCount, ...]
    """The most frequent first."""


@dataclass(slots=True)
class _Sum:
    count: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list)
    signatures: Counter[str] = field(default_factory=Counter)

    def add(self, execution: Execution) -> None:
        self.count += 1
        if execution.is_failed:
            self.failed += 1
            self.signatures[execution.signature] += 1
        elif execution.seconds is not None:
            self.seconds.append(execution.seconds)


def calculate_statistics(
    executions: Iterable[Execution], *, by_group: bool = False, by_release: bool = False
) -> tuple[StepStatistics, ...]:
    """Return the statistics of each step, sorted by failure rate, label, group and release."""
    sums: dict[tuple[str, str | None, str | None], _Sum] = {}
    for execution in executions:
        group = execution.group if by_group else None
        release = execution.release if by_release else None
        sums.setdefault((execution.label, group, release), _Sum()).add(execution)
    made = (_make_step_statistics(*key, total) for key, total in sums.items())
    return tuple(
        sorted(made, key=lambda step: (-step.failure_rate, step.label, step.group or "", step.release or ""))
    )


def percentile(ordered: Sequence[float], per_cent: float) -> float:
    """Return a percentile of sorted values by the nearest-rank method: always one of the values."""
    return ordered[max(0, math.ceil(len(ordered) * per_cent / 100) - 1)]


def _make_step_statistics(label: str, group: str | None, release: str | None, total: _Sum) -> StepStatistics:
    ordered = sorted(total.seconds)
    ranked = sorted(total.signatures.items(), key=lambda one: (-one[1], one[0]))
    return StepStatistics(
        label=label,
        group=group,
        release=release,
        count=total.count,
        failed=total.failed,
        failure_rate=total.failed / total.count,
        times=Percentiles(*(percentile(ordered, each) for each in (50, 95, 99))) if ordered else None,
        failures=tuple(FailureCount(signature, count) for signature, count in ranked[:_TOP]),
    )

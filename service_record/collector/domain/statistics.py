"""Statistics of the steps of many builds: how long they take, how often they fail, and why. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_TOP: Final = 5


@dataclass(frozen=True, slots=True)
class Execution:
    """A step that ended, in some build of some host."""

    label: str
    group: str
    release: str
    seconds: float | None
    is_failed: bool
    signature: str = ""
    """The signature of a failure: its message without the parts that differ each time."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of durations, in seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class FailureSeen:
    """A failure with the number of times that it was seen."""

    signature: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """One step, over all hosts or over those of one group or release."""

    label: str
    group: str | None
    """The group; None if groups are not told apart."""
    release: str | None
    count: int
    failed: int
    failure_rate: float
    """0 to 1."""
    times: Percentiles | None
    """Times of the executions that did not fail; None if no beginning was reported."""
    failures: tuple[FailureSeen, ...]
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


def statistics(
    executions: Iterable[Execution], *, by_group: bool = False, by_release: bool = False
) -> tuple[StepStatistics, ...]:
    """Return the statistics of each step, those that fail most often first, then by label, group
    and release.
    """
    sums: dict[tuple[str, str | None, str | None], _Sum] = {}
    for execution in executions:
        group = execution.group if by_group else None
        release = execution.release if by_release else None
        sums.setdefault((execution.label, group, release), _Sum()).add(execution)
    of_steps = (_step_statistics(*key, total) for key, total in sums.items())
    return tuple(
        sorted(of_steps, key=lambda one: (-one.failure_rate, one.label, one.group or "", one.release or ""))
    )


def percentile(ordered: Sequence[float], per_cent: float) -> float:
    """Return the nearest rank of at least one ordered value: one of the values, never between two."""
    return ordered[max(0, math.ceil(len(ordered) * per_cent / 100) - 1)]


def _step_statistics(label: str, group: str | None, release: str | None, total: _Sum) -> StepStatistics:
    return StepStatistics(
        label=label,
        group=group,
        release=release,
        count=total.count,
        failed=total.failed,
        failure_rate=total.failed / total.count,
        times=_times(sorted(total.seconds)),
        failures=_failures(total.signatures),
    )


def _times(ordered: Sequence[float]) -> Percentiles | None:
    if not ordered:
        return None
    return Percentiles(*(percentile(ordered, per_cent) for per_cent in (50, 95, 99)))


def _failures(signatures: Mapping[str, int]) -> tuple[FailureSeen, ...]:
    ranked = sorted(signatures.items(), key=lambda one: (-one[1], one[0]))
    return tuple(FailureSeen(signature, count) for signature, count in ranked[:_TOP])

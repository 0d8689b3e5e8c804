"""Compare a bad history with a good one, service by service. Pure.

One run of each service is compared: the last finished run or, without one, the latest. Failures are collected
from all runs.
"""

from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

import msgspec

from service_record.diagnosis.failures import (
    FailureGroup,
    RunStep,
    find_longest,
    find_moved_steps,
    group_steps,
    new_failures,
)
from service_record.history import History, ServiceHistory
from service_record.history.build import Now
from service_record.history.outcome import Outcome, Run, Span

RATIO: Final = 2.0
FLOOR: Final = 5.0
"""Seconds."""


class Tolerance(msgspec.Struct, frozen=True):
    """Both limits must be exceeded: neither twice a short moment nor five seconds in an hour is slow."""

    ratio: float = RATIO
    floor: float = FLOOR
    """Seconds."""

    def is_slower(self, bad: float, good: float) -> bool:
        return bad > good * self.ratio and bad - good > self.floor


class EndedDifferently(msgspec.Struct, frozen=True):
    """The run ended with another outcome, or in another place."""


class StepEnded(msgspec.Struct, frozen=True):
    """A step that succeeded in the good run did not succeed, although its run may have continued."""

    step: RunStep
    outcome: Outcome


class Missing(msgspec.Struct, frozen=True):
    """A step that only the good run has."""

    step: RunStep
    is_unreached: bool
    """True if the bad run ended before the step, or has not reached it yet."""


class Added(msgspec.Struct, frozen=True):
    """A step that only the bad run has."""

    step: RunStep


class Moved(msgspec.Struct, frozen=True):
    """A step at another position in the order."""

    step: RunStep
    after: RunStep | None
    """The step before it in the bad run; None if it is the first."""
    good_after: RunStep | None
    """The step before it in the good run; None if it is the first."""


class Slower(msgspec.Struct, frozen=True):
    """A step, or the whole run, that took much longer."""

    step: RunStep | None
    seconds: float
    good_seconds: float
    is_running: bool


Difference: TypeAlias = EndedDifferently | StepEnded | Missing | Added | Moved | Slower | FailureGroup


class ServiceComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One service in both histories. A run is None if the service has no run."""

    service: str
    good: Run | None
    bad: Run | None
    good_runs: int = 0
    """The number of good runs."""
    bad_runs: int = 0
    differences: tuple[Difference, ...] = ()

    @property
    def differs(self) -> bool:
        return bool(self.differences) or (self.good is None) is not (self.bad is None)


def compare(
    good: History, bad: History, now: Now, tolerance: Tolerance, services: Collection[str] = ()
) -> tuple[ServiceComparison, ...]:
    """Compare the services of both histories by name, either all or those in `services`.

    `now` is the current time of the bad host.
    """
    sides = [{service.name: service for service in history.services} for history in (good, bad)]
    names = sorted(sides[0].keys() | sides[1].keys())
    return tuple(
        _compare_service(sides[0].get(name), sides[1].get(name), name, now, tolerance)
        for name in names
        if name in services or not services
    )


def run_of(service: ServiceHistory | None) -> Run | None:
    """Return the run to compare: the last finished run or, without one, the latest."""
    runs = service.runs if service is not None else ()
    over = (run for run in reversed(runs) if run.outcome is not Outcome.RUNNING)
    return next(over, runs[-1] if runs else None)


def _compare_service(
    good: ServiceHistory | None, bad: ServiceHistory | None, name: str, now: Now, tolerance: Tolerance
) -> ServiceComparison:
    runs = run_of(good), run_of(bad)
    differences: list[Difference] = []
    if bad is not None:
        if runs[0] is not None and runs[1] is not None:
            differences += _find_differences(runs[0], runs[1], bad, now, tolerance)
        differences += new_failures(good.runs if good is not None else (), bad.runs)
    return ServiceComparison(
        service=name,
        good=runs[0],
        bad=runs[1],
        good_runs=len(good.runs) if good is not None else 0,
        bad_runs=len(bad.runs) if bad is not None else 0,
        differences=tuple(differences),
    )


def _find_differences(
    good: Run, bad: Run, service: ServiceHistory, now: Now, tolerance: Tolerance
) -> Iterator[Difference]:
    if bad.outcome is not Outcome.SUCCESS and _end_of_run(bad) != _end_of_run(good):
        yield EndedDifferently()
    before, after = group_steps(good), group_steps(bad)
    yield from _find_failed_steps(good, bad)
    common = [step for step in before if step in after]
    last = list(before).index(common[-1]) if common else -1
    for place, step in enumerate(before):
        if step not in after:
            yield Missing(step, bad.outcome is not Outcome.SUCCESS and place > last)
    yield from (Added(step) for step in after if step not in before)
    for step, follows, followed in find_moved_steps(common, [step for step in after if step in before]):
        yield Moved(step, follows, followed)
    yield from _find_slower(good, bad, service, now, tolerance)


def _end_of_run(run: Run) -> tuple[Outcome, str | None, str | None]:
    return run.outcome, run.in_stage, run.in_command


def _find_failed_steps(good: Run, bad: Run) -> Iterator[StepEnded]:
    """Yield the steps that did not succeed, except the step in which the run ended."""
    before = group_steps(good)
    for step, spans in group_steps(bad).items():
        if step not in before or step.name in {bad.in_stage, bad.in_command}:
            continue
        outcome = spans[-1].outcome
        if outcome is not Outcome.SUCCESS and before[step][-1].outcome is Outcome.SUCCESS:
            yield StepEnded(step, outcome)


def _find_slower(
    good: Run, bad: Run, service: ServiceHistory, now: Now, tolerance: Tolerance
) -> Iterator[Slower]:
    """Yield the slower steps, then the run if slower, compared with successful executions in the good run."""
    before = group_steps(good)
    of_run: tuple[RunStep | None, list[Span]] = (None, [bad])
    for step, spans in [*group_steps(bad).items(), of_run]:
        usual = [good] if step is None else before.get(step, [])
        if spans == usual:  # a running run compared with itself
            continue
        usual_seconds = [s.duration for s in usual if s.outcome is Outcome.SUCCESS and s.duration is not None]
        longest_span = find_longest(spans, bad, service, now)
        if (
            usual_seconds
            and longest_span is not None
            and tolerance.is_slower(longest_span.seconds, max(usual_seconds))
        ):
            yield Slower(step, longest_span.seconds, max(usual_seconds), longest_span.is_running)

"""Compare a bad history with a good one, service by service. Pure.

One run of each service is compared: the last finished run or, without one, the latest. Failures are collected
from all runs.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from service_record.diagnosis.budget import collect_durations, find_runs
from service_record.diagnosis.failures import FailureGroup, RunStep, group_steps, new_failures
from service_record.diagnosis.findings import Slow
from service_record.diagnosis.services import find_running_spans
from service_record.history import History, ServiceHistory
from service_record.history.build import Now
from service_record.history.outcome import Outcome, Run, Span, Stage

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
    yield from find_moved(common, [step for step in after if step in before])
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


def find_moved(good: Sequence[RunStep], bad: Sequence[RunStep]) -> Iterator[Moved]:
    """Yield the steps in another position, approximately the fewest. Both orders have the same steps."""
    from difflib import SequenceMatcher  # needed only to compare two hosts

    matcher = SequenceMatcher(None, good, bad, autojunk=False)
    in_place = {
        step for block in matcher.get_matching_blocks() for step in bad[block.b : block.b + block.size]
    }
    for place, step in enumerate(bad):
        if step not in in_place:
            usual = good.index(step)
            yield Moved(step, bad[place - 1] if place else None, good[usual - 1] if usual else None)


class _Longest(msgspec.Struct, frozen=True):
    """The seconds of the longest execution, and whether it is still running."""

    seconds: float
    is_running: bool


def _find_longest(spans: Iterable[Span], run: Run, service: ServiceHistory, now: Now) -> _Longest | None:
    """Return the longest of some spans of a run. A running span lasts until now."""
    candidates = []
    for span in spans:
        is_running = span.outcome is Outcome.RUNNING
        seconds = now.since(span, run, service) if is_running else span.duration
        if seconds is not None:
            candidates.append(_Longest(seconds, is_running))
    return max(candidates, key=lambda one: one.seconds, default=None)


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
        longest_span = _find_longest(spans, bad, service, now)
        if (
            usual_seconds
            and longest_span is not None
            and tolerance.is_slower(longest_span.seconds, max(usual_seconds))
        ):
            yield Slower(step, longest_span.seconds, max(usual_seconds), longest_span.is_running)


def find_slow(services: Iterable[ServiceHistory], baseline: History, now: Now) -> tuple[Slow, ...]:
    """Return the slow stages, then the slow whole runs, of each service's latest run; the slowest first."""
    slow_ones = [slow for service in services for slow in _compare_with_baseline(service, baseline, now)]
    return tuple(sorted(slow_ones, key=lambda slow: slow.usual - slow.seconds))


def _compare_with_baseline(service: ServiceHistory, baseline: History, now: Now) -> Iterator[Slow]:
    run = service.runs[-1]
    good = find_runs(baseline, service.name)
    usual_seconds = collect_durations(good)
    spans: dict[str, list[Span]] = {}
    for stage in (*run.stages, *(span for span in find_running_spans(run) if isinstance(span, Stage))):
        spans.setdefault(stage.name, []).append(stage)
    for name, executions in spans.items():
        longest = _find_longest(executions, run, service, now)
        usual = max(usual_seconds.get(name, ()), default=None)
        if longest is not None and usual is not None and Tolerance().is_slower(longest.seconds, usual):
            yield Slow(
                service=service.name,
                stage=name,
                seconds=longest.seconds,
                usual=usual,
                is_running=longest.is_running,
            )
    whole = [one.duration for one in good if one.outcome is Outcome.SUCCESS and one.duration is not None]
    if run.duration is not None and whole and Tolerance().is_slower(run.duration, max(whole)):
        yield Slow(service=service.name, stage=None, seconds=run.duration, usual=max(whole), is_running=False)

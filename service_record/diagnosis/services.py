"""Judge one service: failed, looping, stuck, interrupted, running, stopped or recovered. Pure.

A loop is a row of equal failures: of restarts, of a stage, or of boots without progress.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from service_record.diagnosis.budget import Budget, Budgets
from service_record.diagnosis.failures import signature
from service_record.diagnosis.findings import (
    Loop,
    LoopOf,
    Overrun,
    Recovered,
    Running,
    Stopped,
    Trouble,
    Verdict,
)
from service_record.history import History, ServiceHistory
from service_record.history.build import Now, true_time
from service_record.history.outcome import Command, Outcome, Run, Span, Stage, order

_LONGER_SECONDS: Final = 60.0
"""A run that lasts this much longer than the failures before it has passed their point of failure."""


LEAST: Final = 3
"""The least number of equal failures in a row that make a loop."""
LEAST_STAGE_SECONDS: Final = 60.0
"""The least duration of a stage loop. Polling for a shorter time is normal."""


_MAX_MESSAGES: Final = 100


class Streak(msgspec.Struct, frozen=True):
    """Consecutive runs in one boot that ended in the same place and in the same way, latest first.

    Runs without a recorded end never make a loop: each may have succeeded.
    """

    runs: tuple[Run, ...]

    @property
    def last(self) -> Run:
        return self.runs[0]

    @property
    def first(self) -> Run:
        return self.runs[-1]

    @property
    def count(self) -> int:
        """Return the number of runs, including runs between them that a rotation of the record removed."""
        between = (run.left_out.alike for run in self.runs if run.left_out is not None)
        return len(self.runs) + sum(between)

    @property
    def is_loop(self) -> bool:
        """Return True for failures only: three stops or kills may be three intended restarts."""
        return self.count >= LEAST and self.last.outcome is Outcome.FAILURE


def find_latest_streak(runs: Sequence[Run]) -> Streak | None:
    """Return the last ended run with the equal runs before it; None if it succeeded, or no run ended."""
    ended = (run for run in reversed(runs) if run.outcome is not Outcome.RUNNING)
    last = next(ended, None)
    if last is None or not last.outcome.is_bad:
        return None
    alike = [last]
    for run in ended:
        gap = alike[-1].left_out
        has_others = gap is not None and gap.alike < gap.runs  # a rotation removed other runs between them
        if has_others or run.boot_id != last.boot_id or run.end_key != last.end_key:
            break
        alike.append(run)
    return Streak(tuple(alike))


def count_distinct_messages(messages: Iterable[str | None]) -> int:
    """Count the different signatures among at most `_MAX_MESSAGES` messages."""
    return len({signature(message) for message in islice(messages, _MAX_MESSAGES) if message})


def find_failing_executions(run: Run) -> list[Stage]:
    """Return the failed executions of the stage that a run repeats, latest first.

    The list ends at a success or another stage. It is empty if the run has continued since.
    """
    latest = next((stage for stage in reversed(run.stages) if stage.outcome is Outcome.FAILURE), None)
    if latest is None:
        return []
    failed: list[Stage] = []
    for stage in reversed(run.stages):
        is_other = stage.depth == latest.depth and stage.name != latest.name
        if is_other or (stage.depth <= latest.depth and stage.outcome is Outcome.SUCCESS):
            break
        if stage.name == latest.name and stage.outcome is Outcome.FAILURE:
            failed.append(stage)
    return failed


class _Boot(msgspec.Struct):
    """The progress and the end of a boot."""

    reached: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """Services and stages that succeeded."""
    bad: Run | None = None
    """The last run that failed, or that was interrupted in a stage."""
    is_running: bool = False

    def add(self, run: Run) -> None:
        if run.outcome is Outcome.SUCCESS:
            self.reached.add((run.service, ""))
        self.reached.update((run.service, s.name) for s in run.stages if s.outcome is Outcome.SUCCESS)
        self.is_running |= run.outcome is Outcome.RUNNING
        is_end = run.outcome is Outcome.FAILURE or (
            run.outcome is Outcome.INTERRUPTED and run.in_stage is not None and not run.has_unclear_end
        )
        if is_end and (self.bad is None or order(run.last_entry) >= order(self.bad.last_entry)):
            self.bad = run


def find_boot_loop(history: History) -> tuple[Run, ...]:
    """Return the last bad run of each boot in a boot loop, oldest first; empty without a loop.

    A loop has at least `LEAST` consecutive boots, none of which got further than the boot before it. A boot
    that is still running ends the loop only if it has already got further.
    """
    if len(history.boots) < LEAST:
        return ()
    by_id = {boot_id: _Boot() for boot_id in history.boots}
    for service in history.services:
        for run in service.runs:
            if run.boot_id in by_id:
                by_id[run.boot_id].add(run)
    boots = list(reversed(by_id.values()))
    if boots[0].is_running:
        if not boots[0].reached <= boots[1].reached:
            return ()
        del boots[0]
    ends: list[Run] = []
    later: _Boot | None = None
    for boot in boots:
        if boot.bad is None or (later is not None and not later.reached <= boot.reached):
            break
        ends.append(boot.bad)
        later = boot
    return tuple(reversed(ends)) if len(ends) >= LEAST else ()


class JudgingContext(msgspec.Struct, frozen=True):
    """Inputs that are the same for all services of a host."""

    now: Now
    budgets: Budgets
    latest_boot: str | None = None


def judge_service(
    service: ServiceHistory, context: JudgingContext
) -> Trouble | Running | Stopped | Recovered | None:
    """Judge a service by its latest run; None if all its runs succeeded.

    The service must have at least one run. Failures that a later attempt recovered from are not a trouble,
    nor is the end of a log that was copied before the end.
    """
    run = service.runs[-1]
    if run.is_derived and run.has_unclear_end:
        return None
    streak = find_latest_streak(service.runs)
    if run.outcome is Outcome.SUCCESS:
        return find_recovered(service)
    if run.outcome is Outcome.STOPPED:
        return _judge_stopped(service, context)
    if run.outcome is not Outcome.RUNNING:
        return _judge_ended(service, streak or Streak((run,)), context)
    loop = _find_current_loop(streak, service, context)
    if loop is not None:
        return _make_restart_loop(service, loop, is_running=True)
    return (
        _find_stage_loop(service, run, context)
        or _find_stuck(service, run, context)
        or _judge_running(service, run, context)
    )


def find_recovered(service: ServiceHistory) -> Recovered | None:
    """Return the past failures of a service; None if there are none."""
    bad = [place for place, run in enumerate(service.runs) if run.outcome.is_bad]
    if not bad:
        return None
    left_out = sum(run.left_out.failed for run in service.runs if run.left_out is not None)
    return Recovered(service=service.name, count=len(bad) + left_out, last=service.runs[bad[-1]])


def _judge_ended(service: ServiceHistory, streak: Streak, context: JudgingContext) -> Trouble:
    run = streak.last
    if streak.is_loop:
        return _make_restart_loop(service, streak, is_running=False)
    is_interrupted = run.outcome is Outcome.INTERRUPTED
    return Trouble(
        kind=Verdict.INTERRUPTED if is_interrupted else Verdict.FAILED,
        service=service.name,
        run=run,
        facts=run.facts,
        stage=run.in_stage,
        since=true_time(streak.first.ended or streak.first.last_entry, service),
        since_uptime=streak.first.last_uptime,
        count=streak.count,
        is_rebooted=is_interrupted
        and not run.has_unclear_end
        and run.boot_id is not None
        and run.boot_id != context.latest_boot,
    )


def _judge_stopped(service: ServiceHistory, context: JudgingContext) -> Trouble | Stopped:
    """Judge a service whose latest run was stopped in order.

    An earlier loop still counts unless the stopped run got further: a stop is not a recovery.
    """
    loop = _find_current_loop(find_latest_streak(service.runs[:-1]), service, context)
    if loop is not None:
        return _make_restart_loop(service, loop, is_running=False)
    return Stopped(run=service.runs[-1], before=_find_previous_failure(service))


def _find_current_loop(
    streak: Streak | None, service: ServiceHistory, context: JudgingContext
) -> Streak | None:
    """Return the streak if it is a loop in the boot of the latest run, and that run has not got further."""
    run = service.runs[-1]
    if streak is None or not streak.is_loop or streak.first.boot_id != run.boot_id:
        return None
    return None if _has_got_further(run, streak.last, service, context.now) else streak


def _find_previous_failure(service: ServiceHistory) -> Run | None:
    """Return the run before the latest run, if it failed or was interrupted."""
    return next((run for run in service.runs[-2:-1] if run.outcome.is_bad), None)


def _make_restart_loop(service: ServiceHistory, streak: Streak, *, is_running: bool) -> Trouble:
    messages = count_distinct_messages(run.facts.message for run in streak.runs)
    return Trouble(
        kind=Verdict.LOOPING,
        service=service.name,
        run=streak.last,
        facts=streak.last.facts,
        stage=streak.last.in_stage,
        since=true_time(streak.first.ended or streak.first.last_entry, service),
        since_uptime=streak.first.last_uptime,
        count=streak.count,
        loop=Loop(of=LoopOf.RESTARTS, count=streak.count, messages=messages),
        is_running=is_running,
    )


def _has_got_further(run: Run, failed: Run, service: ServiceHistory, now: Now) -> bool:
    """Return True if a run has passed the stage in which `failed` ended or, outside stages, its duration."""
    if failed.in_stage is not None:
        return any(s.name == failed.in_stage and s.outcome is Outcome.SUCCESS for s in run.stages)
    lasted = run.duration if run.ended is not None else now.since(run, run, service)
    return lasted is not None and failed.duration is not None and lasted > failed.duration + _LONGER_SECONDS


def _find_stage_loop(service: ServiceHistory, run: Run, context: JudgingContext) -> Trouble | None:
    """Return a trouble if a run repeats a failing stage often enough and for long enough."""
    failed = find_failing_executions(run)
    if len(failed) < LEAST:
        return None
    lasted = context.now.since(failed[-1], run, service)
    if lasted is None or lasted < LEAST_STAGE_SECONDS:
        return None
    return Trouble(
        kind=Verdict.LOOPING,
        service=service.name,
        run=run,
        facts=failed[0].facts,
        stage=failed[0].name,
        since=true_time(failed[-1].ended or failed[-1].started, service),
        since_uptime=failed[-1].uptime,
        loop=Loop(
            of=LoopOf.STAGE,
            count=len(failed),
            messages=count_distinct_messages(stage.facts.message for stage in failed),
        ),
        is_running=True,
    )


def _find_stuck(service: ServiceHistory, run: Run, context: JudgingContext) -> Trouble | None:
    """Return a trouble for the innermost stage or command, or the run, that exceeds its budget."""
    for span, what, name, budget in _list_spans_with_budget(service, run, context.budgets):
        seconds = context.now.since(span, run, service)
        if seconds is None or seconds <= budget.seconds:
            continue
        is_least = context.now.is_latest_entry
        return Trouble(
            kind=Verdict.STUCK,
            service=service.name,
            run=run,
            facts=run.facts,
            stage=name if what == "stage" else None,
            since=true_time(span.started, service),
            since_uptime=span.uptime,
            overrun=Overrun(what=what, name=name, seconds=seconds, budget=budget, is_least=is_least),
            is_running=True,
        )
    return None


def _list_spans_with_budget(
    service: ServiceHistory, run: Run, budgets: Budgets
) -> Iterator[tuple[Span, str, str, Budget]]:
    """Yield running spans with their kind, name and budget, innermost first, and the run if it has one."""
    spans = list(find_running_spans(run))
    learned = budgets.learn(service.name, service.runs if spans else ())
    for span in spans:
        what = "stage" if isinstance(span, Stage) else "pre-command" if span.is_before else "post-command"
        yield span, what, span.name, budgets.find_stage_budget(service.name, span.name, learned)
    whole = budgets.find_run_budget(service.name)
    if whole is not None:
        yield run, "run", service.name, whole


def find_running_spans(run: Run) -> Iterator[Stage | Command]:
    """Yield the running stages and commands of a run, innermost first."""
    for stage in reversed(run.stages):
        if stage.outcome is Outcome.RUNNING:
            yield stage
    for command in reversed(run.commands):
        if command.outcome is Outcome.RUNNING:
            yield from (stage for stage in reversed(command.stages) if stage.outcome is Outcome.RUNNING)
            yield command


def _judge_running(service: ServiceHistory, run: Run, context: JudgingContext) -> Running:
    span = next(find_running_spans(run), None)
    budget = _find_budget(span, service, context.budgets)
    return Running(
        run=run,
        stage=span.name if isinstance(span, Stage) else None,
        seconds=context.now.since(span or run, run, service),
        is_least=context.now.is_latest_entry,
        budget=budget,
        before=_find_previous_failure(service),
    )


def _find_budget(span: Stage | Command | None, service: ServiceHistory, budgets: Budgets) -> Budget | None:
    if span is None:
        return budgets.find_run_budget(service.name)
    return budgets.find_stage_budget(service.name, span.name, budgets.learn(service.name, service.runs))

"""Diagnosis of one service now: failed, looping, stuck, interrupted, or nothing so far. Pure."""

from collections.abc import Iterator
from typing import Final

import msgspec

from service_record.diagnosis.budget import Budget, Budgets
from service_record.diagnosis.failures import (
    LEAST,
    LEAST_STAGE_SECONDS,
    Streak,
    distinct_messages,
    failing_executions,
    latest_streak,
)
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
from service_record.history import ServiceHistory
from service_record.history.build import Now, true_time
from service_record.history.outcome import Command, Outcome, Run, Span, Stage

_SURELY_LONGER: Final = 60.0  # seconds


class Circumstances(msgspec.Struct, frozen=True):
    """The inputs by which services are judged."""

    now: Now
    budgets: Budgets
    latest_boot: str | None = None


def judge(service: ServiceHistory, around: Circumstances) -> Trouble | Running | Stopped | Recovered | None:
    """Judge a service that has runs, one for each attempt; None when all ended well.

    It is judged by the latest. What a later attempt made good is no trouble.
    """
    run = service.runs[-1]
    streak = latest_streak(service.runs)
    if run.outcome is Outcome.SUCCESS:
        return recovered(service)
    if run.outcome is Outcome.STOPPED:
        return _stopped(service, around)
    if run.outcome is not Outcome.RUNNING:
        return _ended(service, streak or Streak((run,)), around)
    loop = _standing_loop(streak, service, around)
    if loop is not None:
        return _restart_loop(service, loop, is_running=True)
    return _stage_loop(service, run, around) or _stuck(service, run, around) or _running(service, run, around)


def recovered(service: ServiceHistory) -> Recovered | None:
    """Return the past failures in the record of a service; None where there are none."""
    bad = [place for place, run in enumerate(service.runs) if run.outcome.is_bad]
    if not bad:
        return None
    left_out = sum(run.left_out.failed for run in service.runs if run.left_out is not None)
    return Recovered(service=service.name, count=len(bad) + left_out, last=service.runs[bad[-1]])


def _ended(service: ServiceHistory, streak: Streak, around: Circumstances) -> Trouble:
    run = streak.last
    if streak.is_loop:
        return _restart_loop(service, streak, is_running=False)
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
        and run.boot_id != around.latest_boot,
    )


def _stopped(service: ServiceHistory, around: Circumstances) -> Trouble | Stopped:
    """Return what is to be said of a service that was stopped in order.

    A loop before it stands, unless the run that was stopped has got further: a stop makes nothing good.
    """
    loop = _standing_loop(latest_streak(service.runs[:-1]), service, around)
    if loop is not None:
        return _restart_loop(service, loop, is_running=False)
    return Stopped(run=service.runs[-1], before=_bad_before(service))


def _standing_loop(streak: Streak | None, service: ServiceHistory, around: Circumstances) -> Streak | None:
    """Return the streak where it is a loop in the boot of the latest run, which has got no further."""
    run = service.runs[-1]
    if streak is None or not streak.is_loop or streak.first.boot_id != run.boot_id:
        return None
    return None if _got_further(run, streak.last, service, around.now) else streak


def _bad_before(service: ServiceHistory) -> Run | None:
    """Return the run before the latest, when that failed or was interrupted."""
    return next((run for run in service.runs[-2:-1] if run.outcome.is_bad), None)


def _restart_loop(service: ServiceHistory, streak: Streak, *, is_running: bool) -> Trouble:
    messages = distinct_messages(run.facts.message for run in streak.runs)
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


def _got_further(run: Run, failed: Run, service: ServiceHistory, now: Now) -> bool:
    """Return whether a run has passed the place where those before it failed: its stage, or else their
    duration.
    """
    if failed.in_stage is not None:
        return any(s.name == failed.in_stage and s.outcome is Outcome.SUCCESS for s in run.stages)
    lasted = run.duration if run.ended is not None else now.since(run, run, service)
    return lasted is not None and failed.duration is not None and lasted > failed.duration + _SURELY_LONGER


def _stage_loop(service: ServiceHistory, run: Run, around: Circumstances) -> Trouble | None:
    """Return the stage that a run tries again and again without success, for long enough to be
    worth telling.
    """
    failed = failing_executions(run)
    if len(failed) < LEAST:
        return None
    lasted = around.now.since(failed[-1], run, service)
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
            messages=distinct_messages(stage.facts.message for stage in failed),
        ),
        is_running=True,
    )


def _stuck(service: ServiceHistory, run: Run, around: Circumstances) -> Trouble | None:
    """Return the innermost stage, command or else the run itself that runs longer than its budget."""
    for span, what, name, budget in _budgeted(service, run, around.budgets):
        seconds = around.now.since(span, run, service)
        if seconds is None or seconds <= budget.seconds:
            continue
        is_least = around.now.is_latest_entry
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


def _budgeted(service: ServiceHistory, run: Run, budgets: Budgets) -> Iterator[tuple[Span, str, str, Budget]]:
    """Yield the running spans that have a budget, their kinds and names; the innermost first."""
    spans = list(running_spans(run))
    learned = budgets.learn(service.name, service.runs if spans else ())
    for span in spans:
        what = "stage" if isinstance(span, Stage) else "pre-command" if span.is_before else "post-command"
        yield span, what, span.name, budgets.of_stage(service.name, span.name, learned)
    whole = budgets.of_run(service.name)
    if whole is not None:
        yield run, "run", service.name, whole


def running_spans(run: Run) -> Iterator[Stage | Command]:
    """Yield the stages and commands of a run that are running, the innermost first."""
    for stage in reversed(run.stages):
        if stage.outcome is Outcome.RUNNING:
            yield stage
    for command in reversed(run.commands):
        if command.outcome is Outcome.RUNNING:
            yield from (stage for stage in reversed(command.stages) if stage.outcome is Outcome.RUNNING)
            yield command


def _running(service: ServiceHistory, run: Run, around: Circumstances) -> Running:
    span = next(running_spans(run), None)
    budget = budget_of(span, service, around.budgets)
    return Running(
        run=run,
        stage=span.name if isinstance(span, Stage) else None,
        seconds=around.now.since(span or run, run, service),
        is_least=around.now.is_latest_entry,
        budget=budget,
        before=_bad_before(service),
    )


def budget_of(span: Stage | Command | None, service: ServiceHistory, budgets: Budgets) -> Budget | None:
    if span is None:
        return budgets.of_run(service.name)
    return budgets.of_stage(service.name, span.name, budgets.learn(service.name, service.runs))

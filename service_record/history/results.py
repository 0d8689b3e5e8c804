"""What spans come to: runs, commands and stages, with their outcomes, times and facts. Pure."""

from collections.abc import Sequence

from service_record.entry import Entry, Result
from service_record.history.facts import NOTHING, gather_facts
from service_record.history.liveness import Presence
from service_record.history.outcome import Command, Outcome, Run, Stage
from service_record.history.spans import Activity, CommandSpan, RunSpan, StageSpan


def run_of(service: str, span: RunSpan, presence: Presence) -> Run:
    """The run of a service that a span comes to, as far as that is known."""
    command = _deciding_command(span)
    outcome = _run_outcome(span, command, presence)
    own = _of_result(span.ends[-1]) if span.ends else outcome
    stage = _blamed_stage(command or span, outcome)
    end = span.ends[0] if span.ends else None
    identified = span.start or span.first
    return Run(
        service=service,
        attempt=span.attempt,
        outcome=outcome,
        started=span.start.time if span.start else None,
        ended=end.time if end else None,
        duration=_duration(span.start, end),
        facts=gather_facts(_run_evidence(span, command, stage)),
        uptime=span.start.uptime if span.start else None,
        first_entry=span.first_timed.time if span.first_timed else None,
        last_entry=span.last_timed.time if span.last_timed else None,
        last_uptime=span.last.uptime,
        boot_id=identified.boot_id,
        invocation_id=identified.invocation_id,
        pid=identified.pid,
        recorder=identified.recorder,
        commands=tuple(_command(command, span, presence) for command in span.commands),
        stages=tuple(_stage(stage, own, end) for stage in span.stages),
        in_stage=stage.name if stage else None,
        in_command=command.name if command and outcome is not Outcome.SUCCESS else None,
        has_no_start=span.start is None,
        dropped=span.dropped,
    )


def _deciding_command(span: RunSpan) -> CommandSpan | None:
    """The command that the outcome of a run hangs on; none when it hangs on the service itself.

    systemd goes on after a failed pre-command only when told to ignore it, and counts a failed post-command
    as a failure of the unit.
    """
    if span.is_pending:
        return _deciding_of(span.commands)
    if not span.ends:
        return None
    succeeded = _recorded_outcome(span) is Outcome.SUCCESS
    if span.start is not None and not succeeded:
        return None
    ended = (command for command in reversed(span.commands) if command.before is not succeeded)
    return next((command for command in ended if _recorded_outcome(command) is Outcome.FAILURE), None)


def _deciding_of(commands: Sequence[CommandSpan]) -> CommandSpan:
    """Likewise when there are only commands: a pre-command that fails is followed by post-commands alone."""
    last_before = max((index for index, command in enumerate(commands) if command.before), default=0)
    return next(
        (command for command in commands[last_before:] if _recorded_outcome(command) is not Outcome.SUCCESS),
        commands[-1],
    )


def _run_outcome(span: RunSpan, command: CommandSpan | None, presence: Presence) -> Outcome:
    if command is not None:
        return _command_outcome(command, span, presence)
    if span.ends:
        return _of_result(span.ends[-1])
    return Outcome.RUNNING if presence.may_run(span, superseded=span.superseded) else Outcome.INTERRUPTED


def _command(span: CommandSpan, run: RunSpan, presence: Presence) -> Command:
    outcome = _command_outcome(span, run, presence)
    stage = _blamed_stage(span, outcome)
    end = span.ends[0] if span.ends else None
    return Command(
        name=span.name,
        is_before=span.before,
        outcome=outcome,
        started=span.start.time if span.start else None,
        ended=end.time if end else None,
        duration=_duration(span.start, end),
        facts=gather_facts(_evidence(span, stage)),
        uptime=span.start.uptime if span.start else None,
        pid=span.first.pid,
        stages=tuple(_stage(stage, outcome, end) for stage in span.stages),
        in_stage=stage.name if stage else None,
    )


def _command_outcome(span: CommandSpan, run: RunSpan, presence: Presence) -> Outcome:
    """A pre-command without an end is over when the service, or a post-command, has started."""
    if span.ends:
        return _of_result(span.ends[-1])
    is_over = span.before and (run.start is not None or not run.commands[-1].before)
    if is_over or not presence.may_run(span, superseded=run.superseded):
        return Outcome.INTERRUPTED
    return Outcome.RUNNING


def _stage(span: StageSpan, around: Outcome, end_around: Entry | None) -> Stage:
    """A stage; one that is still open came to what the run or command around it came to, at its end."""
    end = span.end
    return Stage(
        name=span.name,
        depth=span.depth,
        id=span.id,
        parent=span.parent,
        outcome=_of_result(end) if end else around,
        started=span.start.time if span.start else None,
        ended=end.time if end else None,
        duration=_duration(span.start, end or end_around),
        facts=gather_facts([end]) if end and end.result is Result.FAILURE else NOTHING,
        uptime=span.start.uptime if span.start else None,
    )


def _blamed_stage(activity: Activity, outcome: Outcome) -> StageSpan | None:
    """The stage that an activity is in, was interrupted in or failed in.

    A failure is put down to a stage only when that was the last thing recorded before: services go on after
    failures of stages that they handle.
    """
    if outcome is Outcome.SUCCESS:
        return None
    if activity.open_stages:
        return activity.open_stages[-1]
    if outcome is not Outcome.FAILURE or not activity.failed_last:
        return None
    line = activity.ends[-1].error_line if activity.ends else None
    same = (stage for stage in activity.failed_last if stage.end and stage.end.error_line == line)
    return next(same, activity.failed_last[-1])


def _run_evidence(run: RunSpan, command: CommandSpan | None, stage: StageSpan | None) -> list[Entry]:
    """The entries that say how a run ended. What a pre-command ended as, systemd says of the whole run."""
    evidence = _evidence(command or run, stage)
    return [*evidence, *run.ends] if command is not None and command.before else evidence


def _evidence(activity: Activity, stage: StageSpan | None) -> list[Entry]:
    """The entries that say how an activity ended, the most telling last; its failed stage adds to its own."""
    if stage is None or stage.end is None:
        return activity.ends
    return [stage.end, *activity.ends]


def _of_result(end: Entry) -> Outcome:
    """An end without a result is no success."""
    return Outcome.SUCCESS if end.result is Result.SUCCESS else Outcome.FAILURE


def _recorded_outcome(activity: Activity) -> Outcome | None:
    """What an activity says itself that it came to; what it said last counts."""
    return _of_result(activity.ends[-1]) if activity.ends else None


def _duration(start: Entry | None, end: Entry | None) -> float | None:
    """Seconds between two entries: by uptime within a boot, which no clock step touches."""
    if start is None or end is None:
        return None
    if start.uptime is not None and end.uptime is not None and start.boot_id == end.boot_id:
        seconds = end.uptime - start.uptime
    elif start.time is not None and end.time is not None:
        seconds = (end.time - start.time).total_seconds()
    else:
        return None
    return round(seconds, 3) if seconds >= 0 else None

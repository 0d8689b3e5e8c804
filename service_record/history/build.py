"""The history of a host: what its entries come to. Services, their runs, and the stages and commands of each.

Pure. `pairing` finds which entries belong together; here they become outcomes, times and facts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from service_record.entry import Entry, Malformed, Result
from service_record.history.attempts import attempts
from service_record.history.clock import ClockStep, clock_steps
from service_record.history.facts import NOTHING, gather_facts
from service_record.history.liveness import Liveness, Presence, boots_in_order
from service_record.history.outcome import Command, Outcome, Run, Stage
from service_record.history.pairing import Pairing, pair
from service_record.history.spans import Activity, CommandSpan, RunSpan, StageSpan
from service_record.plain import Stretch


@dataclass(frozen=True, slots=True)
class ServiceHistory:
    """What one service did, and what of its record could not be read."""

    name: str
    runs: tuple[Run, ...]
    malformed: tuple[Malformed, ...] = ()
    utc_offset: timedelta | None = None
    """How far from UTC its times seem to be, although labelled so; None where nothing speaks against them."""
    is_unfinished: bool = False
    """True when the file that was to replace the record lies beside it, from a write that did not end."""
    has_damaged_copy: bool = False
    """True when damaged bytes that a writer replaced in the record are kept in a file beside it."""

    @property
    def attempts(self) -> tuple[Run, ...]:
        """The runs that stand for each attempt: of several programs in one invocation only one."""
        return tuple(attempts(self.runs))

    @property
    def outcome(self) -> Outcome | None:
        """That of the latest attempt; None when there is none."""
        return self.attempts[-1].outcome if self.runs else None


@dataclass(frozen=True, slots=True)
class History:
    """What the services of a host did."""

    services: tuple[ServiceHistory, ...]
    boots: tuple[str, ...] = ()
    """Boot ids, oldest first."""
    clock_steps: tuple[ClockStep, ...] = ()
    """Where the clock was set while the host ran."""


def build_history(
    records: Iterable[tuple[str, Iterable[Stretch]]], liveness: Liveness | None = None
) -> History:
    """The history that records tell, given each service's name and what is in its record, in its order."""
    liveness = liveness or Liveness()
    pairings = [(name, pair(record)) for name, record in records]
    boots = boots_in_order(pairing.boots for _, pairing in pairings)
    presence = Presence(liveness, _latest_boot(boots, liveness))
    steps = clock_steps(pairing.runs for _, pairing in pairings)
    return History(tuple(_service(name, pairing, presence) for name, pairing in pairings), boots, steps)


def _latest_boot(boots: tuple[str, ...], liveness: Liveness) -> str | None:
    if liveness.boot_id is not None and (liveness.is_at_home or liveness.boot_id in boots):
        return liveness.boot_id
    return boots[-1] if boots else None


def _service(name: str, pairing: Pairing, presence: Presence) -> ServiceHistory:
    numbers = list(_attempts(pairing.runs))
    runs = (
        _run(name, span, attempt, presence) for span, attempt in zip(pairing.drain(), numbers, strict=True)
    )
    return ServiceHistory(name, tuple(runs), tuple(pairing.malformed))


def _attempts(runs: Sequence[RunSpan]) -> Iterable[int]:
    """Each run's number within its boot; the programs recorded within one invocation share theirs."""
    count: dict[str | None, int] = {}
    by_invocation: dict[str, tuple[int, int | None]] = {}
    for run in runs:
        boot_id, invocation_id, pid = run.first.boot_id, run.first.invocation_id, run.first.pid
        attempt, known_pid = by_invocation.get(invocation_id or "", (0, None))
        if attempt == 0 or known_pid == pid:
            attempt = count[boot_id] = count.get(boot_id, 0) + 1
        if invocation_id is not None:
            by_invocation[invocation_id] = (attempt, pid)
        yield attempt


def _run(service: str, span: RunSpan, attempt: int, presence: Presence) -> Run:
    command = _deciding_command(span)
    outcome = _run_outcome(span, command, presence)
    own = _of_result(span.ends[-1]) if span.ends else outcome
    stage = _blamed_stage(command or span, outcome)
    end = span.ends[0] if span.ends else None
    identified = span.start or span.first
    return Run(
        service=service,
        attempt=attempt,
        outcome=outcome,
        started=span.start.time if span.start else None,
        ended=end.time if end else None,
        duration=_duration(span.start, end),
        facts=gather_facts(_run_evidence(span, command, stage)),
        uptime=span.start.uptime if span.start else None,
        first_entry=span.first.time,
        last_entry=span.last.time,
        last_uptime=span.last.uptime,
        boot_id=identified.boot_id,
        invocation_id=identified.invocation_id,
        pid=identified.pid,
        recorder=identified.recorder,
        commands=tuple(_command(command, span, presence) for command in span.commands),
        stages=tuple(_stage(stage, own, end) for stage in span.stages),
        in_stage=stage.name if stage else None,
        in_command=command.name if command and outcome is not Outcome.SUCCESS else None,
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
    else:
        seconds = (end.time - start.time).total_seconds()
    return round(seconds, 3) if seconds >= 0 else None

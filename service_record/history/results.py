"""Convert spans to runs, commands and stages with outcomes, times and facts. Pure.

A run without an end is running or interrupted. The failure of a stage is handled if its run continued.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from operator import attrgetter, sub
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from service_record.history.outcome import (
    FAILURE,
    INTERRUPTED,
    NOTHING,
    STOPPED,
    SUCCESS,
    Command,
    Outcome,
    Run,
    Stage,
    end_outcome,
    gather_facts,
    merge_attributes,
)
from service_record.history.pairing import Activity, CommandSpan, RunSpan, StageSpan, seconds_between
from service_record.record.entry import Entry

if TYPE_CHECKING:
    from graphlib import TopologicalSorter


class Handled(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that failed in a run that continued, and that has not succeeded since."""

    run: Run
    stage: Stage
    """The latest failed execution of the stage."""
    command: Command | None
    """The pre- or post-command that contains the stage; None if the service itself does."""
    count: int
    """The number of failed executions of the stage since it last succeeded."""
    stages: int
    """The number of stages of the run with a handled failure, of which this is the latest."""


def handled_failure(run: Run) -> Handled | None:
    """Return the latest stage of a run that failed and has not succeeded since, or None."""
    failed: dict[tuple[int | None, str], list[tuple[Command | None, Stage]]] = {}
    for command, stage in _executions(run):
        key = None if command is None else id(command), stage.name
        if stage.outcome is FAILURE:
            same = failed.pop(key, [])
            same.append((command, stage))
            failed[key] = same
        elif stage.outcome is SUCCESS:
            failed.pop(key, None)
    if not failed:
        return None
    latest = list(failed.values())[-1]
    command, stage = latest[-1]
    return Handled(run=run, stage=stage, command=command, count=len(latest), stages=len(failed))


def _executions(run: Run) -> Iterator[tuple[Command | None, Stage]]:
    """Yield the stages of a run and of its commands, in the order in which systemd runs them."""
    yield from ((c, stage) for c in run.commands if c.is_before for stage in c.stages)
    yield from ((None, stage) for stage in run.stages)
    yield from ((c, stage) for c in run.commands if not c.is_before for stage in c.stages)


def _unknown(_pid: int, _uptime: float | None) -> bool | None:
    return None


_NO_TIME: Final = "~"
"""Sorts after all timestamps."""


class Liveness(msgspec.Struct, frozen=True):
    """Facts about the host on which the records are read. By default, nothing is known."""

    boot_id: str | None = None
    """The id of the current boot."""
    is_at_home: bool = False
    """True if the records are certainly from this host, so that runs of all other boots are over."""
    is_alive: Callable[[int, float | None], bool | None] = _unknown
    """Checks whether a process is alive, given its pid and an uptime at which it ran; None if unknown."""


class Presence(msgspec.Struct, frozen=True):
    """The facts that distinguish running from interrupted, for all records of one host."""

    liveness: Liveness
    latest_boot: str | None

    def may_run(self, activity: Activity, *, superseded: bool) -> bool:
        """Return True if a run or command without an end may still be running.

        If its process can be checked, that decides. Otherwise, it is over if the service had a later run, or
        the host a later boot.
        """
        # The first entry of a run may be from a pre-command, which is another process.
        begins = activity.start or activity.first
        boot_id, pid = begins.boot_id, begins.pid
        if boot_id is not None and boot_id == self.liveness.boot_id and pid is not None:
            alive = self.liveness.is_alive(pid, begins.uptime)
            if alive is not None:
                return alive
        return not superseded and (boot_id is None or boot_id == self.latest_boot)


def boots_in_order(records: Iterable[dict[str, str]]) -> tuple[str, ...]:
    """Return the boot ids of all records, oldest first. Each record is a mapping: boot id -> first timestamp.

    The order within one record is certain, while the clock of a host that has just booted may be years off.
    So timestamps only decide between boots of different records, or if records contradict each other.
    """
    records = list(records)
    first_times: dict[str, str] = {}
    for boots in records:
        for boot_id, timestamp in boots.items():
            time = timestamp or _NO_TIME
            first_times[boot_id] = min(time, first_times.get(boot_id, time))
    if len(first_times) <= 1:
        return tuple(first_times)
    from graphlib import CycleError, TopologicalSorter  # imported here because most hosts have one boot

    sorter = TopologicalSorter[str](dict.fromkeys(first_times, ()))
    for boots in records:
        for earlier, later in pairwise(boots):
            sorter.add(later, earlier)
    try:
        sorter.prepare()
    except CycleError:
        return tuple(sorted(first_times, key=lambda boot_id: first_times[boot_id]))
    return tuple(_earliest_first(sorter, first_times))


def _earliest_first(sorter: "TopologicalSorter[str]", first_times: dict[str, str]) -> Iterable[str]:
    from heapq import heapify, heappop, heappush  # likewise

    ready = [(first_times[boot_id], boot_id) for boot_id in sorter.get_ready()]
    heapify(ready)
    while ready:
        _, boot_id = heappop(ready)
        yield boot_id
        sorter.done(boot_id)
        for following in sorter.get_ready():
            heappush(ready, (first_times[following], following))


def run_of(service: str, span: RunSpan, presence: Presence) -> Run:
    """Convert a span to a run of a service, with its outcome."""
    command = _deciding_command(span)
    outcome = _run_outcome(span, command, presence)
    own = _recorded_outcome(span) or outcome
    stage = _blamed_stage(command or span, outcome)
    start, end = span.start, span.ends[0] if span.ends else None
    started = start.time if start is not None else None
    ended = end.time if end is not None else None
    identified = start or span.first
    evidence = _evidence(command or span, stage)
    if command is not None and command.before:
        evidence = [*evidence, *span.ends]  # these have systemd's result
    return Run(
        service=service,
        attempt=span.attempt,
        outcome=outcome,
        started=started,
        ended=ended,
        duration=_duration(start, end),
        facts=gather_facts(evidence),
        uptime=start.uptime if start is not None else None,
        attributes=merge_attributes(start, *span.ends),
        first_entry=started if span.first_timed is start else _time(span.first_timed),
        last_entry=ended if span.last_timed is end else _time(span.last_timed),
        last_uptime=span.last.uptime,
        boot_id=identified.boot_id,
        invocation_id=identified.invocation_id,
        pid=identified.pid,
        recorder=identified.recorder,
        commands=tuple(_command(command, span, presence) for command in span.commands),
        stages=_stages(span, own),
        in_stage=stage.name if stage else None,
        in_command=command.name if command and outcome is not SUCCESS else None,
        has_no_start=span.start is None,
        dropped=span.dropped,
        left_out=span.left_out,
    )


def _time(entry: Entry | None) -> datetime | None:
    return None if entry is None else entry.time


def _deciding_command(span: RunSpan) -> CommandSpan | None:
    """Return the command that determines the outcome of a run; None if the service itself does.

    systemd continues after a failed pre-command only if the unit ignores its failure (`ExecStartPre=-`). It
    treats a failed post-command as a failure of the unit.
    """
    if span.is_pending:
        # After a failed pre-command, systemd runs only post-commands.
        last_before = max((index for index, each in enumerate(span.commands) if each.before), default=0)
        unsuccessful = (
            each for each in span.commands[last_before:] if _recorded_outcome(each) is not SUCCESS
        )
        return next(unsuccessful, span.commands[-1])
    if not span.ends:
        return None
    recorded = _recorded_outcome(span)
    ended_well = recorded is SUCCESS or recorded is STOPPED
    if span.start is not None and not ended_well:
        return None
    ended = (command for command in reversed(span.commands) if command.before is not ended_well)
    return next((command for command in ended if _recorded_outcome(command) is FAILURE), None)


def _run_outcome(span: RunSpan, command: CommandSpan | None, presence: Presence) -> Outcome:
    if command is not None:
        return _command_outcome(command, span, presence)
    if span.ends:
        return end_outcome(span.ends[-1])
    return Outcome.RUNNING if presence.may_run(span, superseded=span.superseded) else INTERRUPTED


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
        attributes=merge_attributes(span.start, *span.ends),
        pid=span.first.pid,
        stages=_stages(span, outcome),
        in_stage=stage.name if stage else None,
    )


def _command_outcome(span: CommandSpan, run: RunSpan, presence: Presence) -> Outcome:
    """Return the outcome of a command.

    A pre-command without an end is over if the service or a post-command has started.
    """
    if span.ends:
        return end_outcome(span.ends[-1])
    is_over = span.before and (run.start is not None or not run.commands[-1].before)
    if is_over or not presence.may_run(span, superseded=run.superseded):
        return INTERRUPTED
    return Outcome.RUNNING


def _stages(around: Activity, outcome: Outcome) -> tuple[Stage, ...]:
    """Return the stages of a run or command with this outcome, which its open stages get as well."""
    amended = _amended_stage(around)
    return tuple(_stage(stage, around, outcome, is_amended=stage is amended) for stage in around.stages)


def _stage(span: StageSpan, around: Activity, outcome: Outcome, *, is_amended: bool) -> Stage:
    """Convert a span to a stage. If it ended together with its run or command, it has the same outcome."""
    # The signal that stopped or failed the run interrupted its stage.
    is_cut = span.outcome is INTERRUPTED and (outcome is STOPPED or outcome is FAILURE)
    if span.outcome is not None and not is_amended and not is_cut:
        outcome = span.outcome
    duration = span.duration
    if span.outcome is None and around.ends:
        duration = seconds_between(span.started, span.uptime, span.boot_id, around.ends[0])
    if outcome is SUCCESS:
        facts = NOTHING
    else:
        ends = [] if span.end_entry is None else [span.end_entry]
        facts = gather_facts([*ends, *around.ends[-1:]] if is_amended else ends)
    return Stage(
        name=span.name,
        depth=span.depth,
        id=span.id,
        parent=span.parent,
        attributes=span.attributes,
        outcome=outcome,
        started=span.started,
        ended=span.ended,
        duration=duration,
        facts=facts,
        uptime=span.uptime,
    )


def _amended_stage(activity: Activity) -> StageSpan | None:
    """Return the stage named in a further end entry, which ended together with the run; else None."""
    if len(activity.ends) < 2 or activity.ends[-1].stage is None:  # noqa: PLR2004  # an end, and a further one
        return None
    return next((stage for stage in reversed(activity.stages) if stage.name == activity.ends[-1].stage), None)


def _blamed_stage(activity: Activity, outcome: Outcome) -> StageSpan | None:
    """Return the stage in which an activity is, or in which it was stopped, interrupted or failed; else None.

    A stage is blamed for the end of a run only if it ended right before, in the same way. Otherwise the
    service has handled the failure of the stage and continued.
    """
    if outcome is SUCCESS:
        return None
    if activity.open_stages:
        return activity.open_stages[-1]
    amended = _amended_stage(activity)
    if amended is not None or not activity.ends:
        return amended
    failed = activity.failed_last
    if outcome is not FAILURE:
        failed = [stage for stage in failed if stage.outcome is not FAILURE]
    line = activity.ends[-1].error_line
    same = (stage for stage in failed if stage.end_entry and stage.end_entry.error_line == line)
    return next(same, failed[-1] if failed else None)


def _evidence(activity: Activity, stage: StageSpan | None) -> list[Entry]:
    """Return the entries that describe the end of an activity, including that of its failed stage.

    The most informative entry is last.
    """
    if stage is None or stage.end_entry is None:
        return activity.ends
    return [stage.end_entry, *activity.ends]


def _recorded_outcome(activity: Activity) -> Outcome | None:
    """Return the outcome in the last end entry of an activity, or None."""
    return end_outcome(activity.ends[-1]) if activity.ends else None


def _duration(start: Entry | None, end: Entry | None) -> float | None:
    if start is None or end is None:
        return None
    return seconds_between(start.time, start.uptime, start.boot_id, end)


LEAST_STEP: Final = 2.0
"""Smallest clock change in seconds. On a busy host, a recorder reads time and uptime not exactly at once."""


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the clock within a boot."""

    boot_id: str | None
    uptime: float
    """The uptime of the first entry after it, in seconds."""
    before: datetime
    """The time of the last entry before it."""
    after: datetime
    """The time of the first entry after it."""
    seconds: float
    """The size of the change in seconds, negative if the clock was set back."""


def clock_steps(records: Iterable[Iterable[RunSpan]]) -> tuple[ClockStep, ...]:
    """Find the clock changes in each boot from the runs of all services, in the order of uptime."""
    boots: dict[str | None, list[_ClockReading]] = {}
    for runs in records:
        for boot_id, bounds in _by_boot(runs).items():
            boots.setdefault(boot_id, []).extend(_edges(bounds))
    return tuple(step for boot_id, readings in boots.items() for step in _steps(boot_id, readings))


class _ClockReading(NamedTuple):
    uptime: float
    time: datetime
    ahead: float
    """Time minus uptime, in seconds. It changes only if the clock is set."""


class _Bounds(NamedTuple):
    """Uptimes and times of the first and last entry of each run, in the order of the record."""

    uptimes: list[float]
    times: list[datetime]


def _by_boot(runs: Iterable[RunSpan]) -> dict[str | None, _Bounds]:
    """Return boot id -> times of the runs in that boot."""
    boots: dict[str | None, _Bounds] = {}
    boot_id, bounds = None, None
    for run in runs:
        for entry in (run.first, run.last):
            if entry.uptime is None or entry.timestamp is None:
                continue
            if bounds is None or entry.boot_id != boot_id:
                boot_id = entry.boot_id
                bounds = boots.setdefault(boot_id, _Bounds([], []))
            bounds.uptimes.append(entry.uptime)
            bounds.times.append(datetime.fromisoformat(entry.timestamp))
    return boots


def _edges(bounds: _Bounds) -> Iterator[_ClockReading]:
    """Yield the readings before and after each clock change, and the first and last one."""
    ahead = list(map(sub, map(datetime.timestamp, bounds.times), bounds.uptimes))
    has_steps = max(ahead) - min(ahead) >= LEAST_STEP
    steps = {
        place
        for place, (before, after) in enumerate(pairwise(ahead if has_steps else ()))
        if abs(after - before) >= LEAST_STEP
    }
    for place in sorted({0, *steps, *(place + 1 for place in steps), len(ahead) - 1}):
        yield _ClockReading(bounds.uptimes[place], bounds.times[place], ahead[place])


def _steps(boot_id: str | None, readings: Iterable[_ClockReading]) -> Iterator[ClockStep]:
    for before, after in pairwise(sorted(readings, key=attrgetter("uptime"))):
        seconds = after.ahead - before.ahead
        if abs(seconds) >= LEAST_STEP:
            yield ClockStep(
                boot_id=boot_id,
                uptime=after.uptime,
                before=before.time,
                after=after.time,
                seconds=round(seconds, 2),
            )

"""Finds which entry belongs to which run, command and stage of one service: one pass, in order of the record.

Pure. A run is known by its invocation, or else its process. What the spans come to is in `results`.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from service_record.history.outcome import SUCCESS, Attributes, Outcome, end_outcome
from service_record.record.entry import Entry, Malformed, Phase, Piece, Result, RunsLeftOut

_FAILED: Final = Result.FAILURE


class StageSpan(msgspec.Struct):
    """One execution of a stage: what its entries say, and not the entries, of which there are many."""

    name: str
    depth: int
    """The number of stages around it: 0 for the outermost."""
    started: datetime | None = None
    uptime: float | None = None
    """Of its start."""
    boot_id: str | None = None
    """Of its start, until it has ended."""
    id: str | None = None
    """The recorder's id of this execution."""
    parent: str | None = None
    """The id of the stage around it."""
    outcome: Outcome | None = None
    """The outcome at its end; None without an end."""
    ended: datetime | None = None
    duration: float | None = None
    end_entry: Entry | None = None
    """Its end, unless that is a success."""
    attributes: Attributes = ()

    def end(self, entry: Entry) -> None:
        """Take the entry for its end."""
        self.ended = entry.time
        self.duration = seconds_between(self.started, self.uptime, self.boot_id, entry)
        self.boot_id = None
        self.outcome = end_outcome(entry)
        if self.outcome is not SUCCESS:
            self.end_entry = entry
        if entry.attributes:
            self.attributes = tuple({**dict(self.attributes), **entry.attributes}.items())


def seconds_between(
    started: datetime | None, uptime: float | None, boot_id: str | None, end: Entry
) -> float | None:
    """Return the seconds up to an entry: by uptime within a boot, which no clock step touches."""
    if uptime is not None and end.uptime is not None and boot_id == end.boot_id:
        seconds = end.uptime - uptime
    elif started is not None and (ended := end.time) is not None:
        seconds = (ended - started).total_seconds()
    else:
        return None
    return round(seconds, 3) if seconds >= 0 else None


class Activity(msgspec.Struct):
    """The common half of a run and of a command: it has stages."""

    first: Entry
    last: Entry
    start: Entry | None
    ends: list[Entry] = []
    """More than one when the exit helper amends what the recorder could not know."""
    stages: list[StageSpan] = []
    open_stages: list[StageSpan] = []
    failed_last: list[StageSpan] = []
    """The stages that failed one after the other, with nothing started or succeeded since."""
    identified: dict[str, StageSpan] = {}
    """The stages by their ids, of those that have one."""

    def start_stage(self, entry: Entry) -> None:
        """Open a stage."""
        span = StageSpan(entry.stage or "", len(self.open_stages), entry.time, entry.uptime, entry.boot_id)
        if entry.attributes:
            span.attributes = tuple(entry.attributes.items())
        self._add_stage(span, entry)
        self.open_stages.append(span)
        if self.failed_last:
            self.failed_last.clear()

    def end_stage(self, entry: Entry) -> None:
        """Close the open stage of that id, else the latest of that name; without one, the start was lost."""
        name, identity = entry.stage or "", entry.stage_id
        for place in range(len(self.open_stages) - 1, -1, -1):
            span = self.open_stages[place]
            if span.name == name and span.id == identity:
                del self.open_stages[place]
                break
        else:
            span = StageSpan(name, len(self.open_stages))
            self._add_stage(span, entry)
        span.end(entry)
        if entry.result is _FAILED:
            self.failed_last.append(span)
        elif self.failed_last:
            self.failed_last.clear()

    def _add_stage(self, span: StageSpan, entry: Entry) -> None:
        """Add a stage that is in the one that it names, or else in those that are open."""
        if entry.stage_id is not None:
            span.id = entry.stage_id
            around = self.identified.get(entry.parent or "")
            span.depth = around.depth + 1 if around is not None else 0
            span.parent = entry.parent
            self.identified[span.id] = span
        self.stages.append(span)


class CommandSpan(Activity):
    """The entries of one execution of a pre- or post-command."""

    name: str = ""
    before: bool = True
    """True for a pre-command, False for a post-command."""

    def is_called(self, name: str, *, before: bool) -> bool:
        """Return True for a command of that name on that side of the service."""
        return self.name == name and self.before == before


class RunSpan(Activity):
    """The entries of one run, and of the commands that systemd ran around it."""

    number: int = 0
    """The number of the run among those of its service."""
    attempt: int = 1
    """From 1 within its boot; the programs recorded within one invocation share theirs."""
    commands: list[CommandSpan] = []
    dropped: int = 0
    left_out: RunsLeftOut | None = None
    first_timed: Entry | None = None
    """The first entry that has a time."""
    last_timed: Entry | None = None
    superseded: bool = False
    """True when another run of the service began after the last entry of this one."""

    @property
    def is_pending(self) -> bool:
        """Return True while nothing but pre-commands was recorded."""
        return self.start is None and not self.ends and not self.stages

    def ended_command(self, pid: int | None, name: str) -> CommandSpan | None:
        """Return the command of a process that has ended already: another end of it amends that."""
        commands = (c for c in self.commands if c.ends and c.first.pid == pid and c.name == name)
        return next(commands, None) if pid is not None else None

    def open_command(self, name: str, *, before: bool) -> CommandSpan | None:
        """Return the latest command of that name that has not ended."""
        return next(
            (c for c in reversed(self.commands) if not c.ends and c.is_called(name, before=before)), None
        )


_Identity: TypeAlias = tuple[str | None, int | None, str | None]


def _is_anonymous(entry: Entry) -> bool:
    """Return True for upstream's entries, which name neither their process nor their invocation."""
    return entry.pid is None and entry.invocation_id is None


def _identity(entry: Entry) -> _Identity:
    return entry.invocation_id, entry.pid, entry.boot_id


_STAGE_START: Final = Phase.STAGE_START
_STAGE_END: Final = Phase.STAGE_END
_SERVICE_START: Final = Phase.SERVICE_START
_SERVICE_END: Final = Phase.SERVICE_END
_SOURCED_AGAIN: Final = timedelta(seconds=1)
"""The distance at which upstream's shim, sourced twice, starts its run: at once, but its clock has whole
seconds.
"""

_MAX_PIECES: Final = 1000
"""Damaged pieces of one record that are held; the others are counted."""


class Pairing:
    """The runs of one service, as its entries come in."""

    def __init__(self) -> None:
        self.malformed: list[Malformed] = []
        """The first damaged pieces, abridged."""
        self.damaged_pieces = 0
        """The number of damaged pieces."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget all runs: behind them a collector has the rotated record, which tells or counts them."""
        self.runs: list[RunSpan] = []
        self.boots: dict[str, str] = {}
        """Boot id -> timestamp of its first entry that has one, else empty; in the order of appearance."""
        self._boot_id: str | None = None
        """The one of these that came last, if its time is known."""
        self._by_identity: dict[_Identity, RunSpan] = {}
        """The runs by the processes that recorded them, unless these are anonymous."""
        self._by_invocation: dict[str, RunSpan] = {}
        """The latest run of each invocation."""
        self._current: dict[int, RunSpan] = {}
        """The open runs that no later one has superseded, by their numbers."""
        self._touched: RunSpan | None = None
        """The one of these that an entry was of last, with none of another since."""
        self._attempts: dict[str | None, int] = {}
        """The number of attempts in each boot."""

    def add_malformed(self, piece: Malformed) -> None:
        self.damaged_pieces += 1
        if len(self.malformed) < _MAX_PIECES:
            self.malformed.append(piece.abridge())

    def add(self, entry: Entry) -> None:
        if entry.left_out is not None and entry.left_out.rotations and self.runs:
            self._begin_anew()
        boot_id = entry.boot_id
        if boot_id and boot_id != self._boot_id and not self.boots.get(boot_id):
            self.boots[boot_id] = entry.timestamp or ""
            self._boot_id = boot_id if self.boots[boot_id] else None
        phase = entry.phase
        if phase is _STAGE_START:
            self._activity(entry).start_stage(entry)
        elif phase is _STAGE_END:
            self._activity(entry).end_stage(entry)
        elif phase is _SERVICE_START:
            self._start(entry)
        elif phase is _SERVICE_END:
            self._end(entry)
        elif phase.is_start:
            self._start_command(entry)
        else:
            self._end_command(entry)

    def drain(self) -> Iterator[RunSpan]:
        """Yield the runs, each forgotten as it is handed out: the entries of a long record take
        much memory.
        """
        self._by_identity.clear()
        self._by_invocation.clear()
        self._current.clear()
        self.runs.reverse()
        while self.runs:
            yield self.runs.pop()

    def _next_attempt(self, boot_id: str | None, left_out: int = 0) -> int:
        self._attempts[boot_id] = self._attempts.get(boot_id, 0) + left_out + 1
        return self._attempts[boot_id]

    @property
    def _latest(self) -> RunSpan | None:
        return self.runs[-1] if self.runs else None

    def _start(self, entry: Entry) -> None:
        run = self._run_started_by(entry)
        if run is None:
            run = self._new_run(entry)
        if run.start is None:
            run.start = entry
            self._by_identity[_identity(entry)] = run
        self._touch(run, entry)

    def _run_started_by(self, entry: Entry) -> RunSpan | None:
        """Return a run that was there before its `service start`: one with pre-commands, or one sourced
        twice.

        Upstream's shim, sourced twice, starts its run twice, and names no run.
        """
        if _is_anonymous(entry):
            run = self._latest
            if run is None or run.ends:
                return None
            is_upstreams = entry.recorder is None  # a run from a journal names no process either
            return run if run.is_pending or (is_upstreams and _starts_again(run, entry)) else None
        same = self._by_identity.get(_identity(entry))
        if same is not None and not same.ends:
            return same
        pending = self._by_invocation.get(entry.invocation_id or "")
        return pending if pending is not None and pending.is_pending else None

    def _end(self, entry: Entry) -> None:
        run = self._run_of(entry) or self._new_run(entry)
        run.ends.append(entry)
        self._touch(run, entry)
        self._current.pop(run.number, None)
        self._touched = None

    def _activity(self, entry: Entry) -> Activity:
        """Return what a stage belongs to: the command that the entry names, or else the run."""
        name = entry.pre_command or entry.post_command
        if name is not None:
            return self._command(entry, name)
        run = self._run_of(entry) or self._new_run(entry)
        self._touch(run, entry)
        return run

    def _run_of(self, entry: Entry) -> RunSpan | None:
        """Return the run of an entry that starts none.

        A program that records a stage from a process of its own (`service-record run --stage`) shares the
        invocation with the run, and outside systemd only the boot. An end must know its run better.
        """
        invocation_id, pid = entry.invocation_id, entry.pid
        if pid is None and invocation_id is None:
            return self._latest if self._latest is not None and not self._latest.ends else None
        run = self._by_identity.get((invocation_id, pid, entry.boot_id))
        if run is not None:
            return run
        if invocation_id is None:
            return None if entry.phase is _SERVICE_END else self._current_of_boot(entry.boot_id)
        run = self._by_invocation.get(invocation_id)
        if run is not None and entry.phase is _SERVICE_END:
            return run if run.is_pending or pid is None else None
        return run

    def _current_of_boot(self, boot_id: str | None) -> RunSpan | None:
        return next((run for run in reversed(self._current.values()) if run.first.boot_id == boot_id), None)

    def _start_command(self, entry: Entry) -> None:
        before = entry.phase is Phase.PRE_COMMAND_START
        name = (entry.pre_command if before else entry.post_command) or ""
        run = self._run_around(entry, name, before=before) or self._new_run(entry)
        run.commands.append(CommandSpan(first=entry, last=entry, start=entry, name=name, before=before))
        self._touch(run, entry)

    def _end_command(self, entry: Entry) -> None:
        name = (entry.pre_command if entry.phase is Phase.PRE_COMMAND_END else entry.post_command) or ""
        run = self._latest_run(entry)
        amended = run.ended_command(entry.pid, name) if run is not None else None
        if run is not None and amended is not None:
            self._touch(run, entry)
        (amended or self._command(entry, name)).ends.append(entry)

    def _command(self, entry: Entry, name: str) -> CommandSpan:
        """Return the open command that an entry names; one whose start was lost is made here."""
        before = entry.post_command is None and entry.phase is not Phase.POST_COMMAND_END
        run = self._latest_run(entry)
        command = run.open_command(name, before=before) if run is not None else None
        if run is None or command is None:
            run = self._run_around(entry, name, before=before) or self._new_run(entry)
            command = CommandSpan(first=entry, last=entry, start=None, name=name, before=before)
            run.commands.append(command)
        command.last = entry
        self._touch(run, entry)
        return command

    def _latest_run(self, entry: Entry) -> RunSpan | None:
        """Return the latest run of the entry's invocation; where it names none, of its boot."""
        if entry.invocation_id is not None:
            return self._by_invocation.get(entry.invocation_id or "")
        run = self._latest
        return run if run is not None and run.first.boot_id == entry.boot_id else None

    def _run_around(self, entry: Entry, name: str, *, before: bool) -> RunSpan | None:
        """Return the run that a command which starts now is part of.

        Without an invocation, a pre-command is the first thing of a new run unless the latest run has had
        nothing but other pre-commands.
        """
        run = self._latest_run(entry)
        if run is None or entry.invocation_id is not None or not before:
            return run
        is_again = any(command.is_called(name, before=before) for command in run.commands)
        return run if run.is_pending and not is_again else None

    def _new_run(self, entry: Entry) -> RunSpan:
        same = self._by_invocation.get(entry.invocation_id or "")
        if same is not None and same.first.pid != entry.pid:
            attempt = same.attempt
        else:
            left_out = entry.left_out.runs if entry.left_out is not None else 0
            attempt = self._next_attempt(entry.boot_id, left_out)
        self._supersede(entry.invocation_id)
        run = RunSpan(first=entry, last=entry, start=None, number=len(self.runs), attempt=attempt)
        self.runs.append(run)
        self._by_identity[_identity(entry)] = run
        if entry.invocation_id is not None:
            self._by_invocation[entry.invocation_id] = run
        return run

    def _supersede(self, invocation_id: str | None) -> None:
        """Mark the latest run when it has ended, and the open runs of other invocations.

        systemd runs one at a time of a unit.
        """
        self._touched = None
        if self._latest is not None and self._latest.ends:
            self._latest.superseded = True
        for number, run in list(self._current.items()):
            if invocation_id is None or run.first.invocation_id != invocation_id:
                run.superseded = True
                del self._current[number]

    def _touch(self, run: RunSpan, entry: Entry) -> None:
        """Take an entry for the last one of a run."""
        run.last = entry
        if entry.dropped:
            run.dropped += entry.dropped
        if run.left_out is None:
            run.left_out = entry.left_out
        if entry.timestamp is not None:
            run.last_timed = entry
            if run.first_timed is None:
                run.first_timed = entry
        if run is not self._touched and not run.ends:
            run.superseded = False
            self._current[run.number] = self._touched = run


def pair(record: Iterable[Piece]) -> Pairing:
    """Return the runs in the record of a service."""
    pairing = Pairing()
    for piece in record:
        if isinstance(piece, Entry):
            pairing.add(piece)
        else:
            pairing.add_malformed(piece)
    return pairing


def _starts_again(run: RunSpan, entry: Entry) -> bool:
    before = run.start.time if run.start is not None else None
    now = entry.time
    return before is not None and now is not None and timedelta() <= now - before <= _SOURCED_AGAIN

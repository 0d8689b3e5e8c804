"""Assign the entries of one service to runs, commands and stages, in one pass in the order of the record.

Pure. A run is identified by its invocation id or, without one, by its process. `results` determines outcomes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from service_record.history.outcome import SUCCESS, Attributes, Outcome, end_outcome
from service_record.record.entry import Entry, Malformed, Phase, Piece, Result, RunsLeftOut

_FAILED: Final = Result.FAILURE


class StageSpan(msgspec.Struct):
    """One execution of a stage. It has values of its entries instead of the many entries themselves."""

    name: str
    depth: int
    """The number of stages around it."""
    started: datetime | None = None
    uptime: float | None = None
    """The uptime of its start."""
    boot_id: str | None = None
    """The boot of its start; None after its end."""
    id: str | None = None
    """The recorder's id of this execution."""
    parent: str | None = None
    """The id of the stage around it."""
    outcome: Outcome | None = None
    """The outcome in its end entry; None without an end."""
    ended: datetime | None = None
    duration: float | None = None
    end_entry: Entry | None = None
    """Its end entry, unless it succeeded."""
    attributes: Attributes = ()

    def end(self, entry: Entry) -> None:
        """Set the end from its entry."""
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
    """Return the seconds until an entry, within a boot by uptime, which clock changes do not affect."""
    if uptime is not None and end.uptime is not None and boot_id == end.boot_id:
        seconds = end.uptime - uptime
    elif started is not None and (ended := end.time) is not None:
        seconds = (ended - started).total_seconds()
    else:
        return None
    return round(seconds, 3) if seconds >= 0 else None


class Activity(msgspec.Struct):
    """Common base of runs and commands, which both have stages."""

    first: Entry
    last: Entry
    start: Entry | None
    ends: list[Entry] = []
    """End entries. There are several if the exit helper adds facts that the recorder could not know."""
    stages: list[StageSpan] = []
    open_stages: list[StageSpan] = []
    failed_last: list[StageSpan] = []
    """The latest failed stages, if no stage has started or succeeded since."""
    identified: dict[str, StageSpan] = {}
    """Id -> stage, for stages that have an id."""

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
        """End the latest open stage with this name and id. If there is none, add one without a start."""
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
        """Add a stage. With an id, its depth follows from its parent, otherwise from the open stages."""
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
        """Return True if this is the pre- or post-command with that name."""
        return self.name == name and self.before == before


class RunSpan(Activity):
    """One run, and the commands that systemd ran before and after it."""

    number: int = 0
    """The number of the run among those of its service."""
    attempt: int = 1
    """From 1 within its boot. Programs recorded in the same invocation have the same number."""
    commands: list[CommandSpan] = []
    dropped: int = 0
    left_out: RunsLeftOut | None = None
    first_timed: Entry | None = None
    """The first entry that has a time."""
    last_timed: Entry | None = None
    superseded: bool = False
    """True if another run of the service began after the last entry of this one."""

    @property
    def is_pending(self) -> bool:
        """Return True if only pre-commands were recorded yet."""
        return self.start is None and not self.ends and not self.stages

    def ended_command(self, pid: int | None, name: str) -> CommandSpan | None:
        """Return the ended command of a process. A further end entry of it adds facts to the first."""
        commands = (c for c in self.commands if c.ends and c.first.pid == pid and c.name == name)
        return next(commands, None) if pid is not None else None

    def open_command(self, name: str, *, before: bool) -> CommandSpan | None:
        """Return the latest command with that name that has not ended."""
        return next(
            (c for c in reversed(self.commands) if not c.ends and c.is_called(name, before=before)), None
        )


_Identity: TypeAlias = tuple[str | None, int | None, str | None]


def _identity(entry: Entry) -> _Identity:
    return entry.invocation_id, entry.pid, entry.boot_id


_STAGE_START: Final = Phase.STAGE_START
_STAGE_END: Final = Phase.STAGE_END
_SERVICE_START: Final = Phase.SERVICE_START
_SERVICE_END: Final = Phase.SERVICE_END
_SOURCED_AGAIN: Final = timedelta(seconds=1)
"""Longest time between two starts of one run by upstream's shim, which a script may source twice.

It records both starts in the same moment, but times have whole seconds.
"""

_MAX_PIECES: Final = 1000
"""Number of damaged pieces of a record that are kept. Further ones are only counted."""


class Pairing:
    """Builds the runs of one service from its entries, in the order of the record."""

    def __init__(self) -> None:
        self.malformed: list[Malformed] = []
        """The first damaged pieces, abridged."""
        self.damaged_pieces = 0
        """The number of damaged pieces."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget all runs. In a collector's copy, the rotated record follows them and contains them again."""
        self.runs: list[RunSpan] = []
        self.boots: dict[str, str] = {}
        """Boot id -> timestamp of its first entry with one, or empty; in the order of the record."""
        self._boot_id: str | None = None
        """The latest boot, if it has a timestamp."""
        self._by_identity: dict[_Identity, RunSpan] = {}
        """Process -> run. Entries without process and invocation are not included."""
        self._by_invocation: dict[str, RunSpan] = {}
        """Invocation id -> its latest run."""
        self._current: dict[int, RunSpan] = {}
        """Number -> run, for open runs that are not superseded by a later one."""
        self._touched: RunSpan | None = None
        """The open run to which the previous entry belongs."""
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
        """Yield and forget each run, because the entries of a long record need much memory."""
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
        """Return the existing run to which a `service start` belongs; None if it starts a new run.

        A run exists before its start if it has pre-commands. Upstream's shim, sourced twice, records a second
        start of the same run, without an id.
        """
        if entry.pid is None and entry.invocation_id is None:
            run = self._latest
            if run is None or run.ends:
                return None
            before = run.start.time if run.start is not None else None
            is_again = (
                entry.recorder is None  # a run from a journal has no process either
                and before is not None
                and entry.time is not None
                and timedelta() <= entry.time - before <= _SOURCED_AGAIN
            )
            return run if run.is_pending or is_again else None
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
        """Return the owner of a stage: the command named in the entry or, without one, the run."""
        name = entry.pre_command or entry.post_command
        if name is not None:
            return self._command(entry, name)
        run = self._run_of(entry) or self._new_run(entry)
        self._touch(run, entry)
        return run

    def _run_of(self, entry: Entry) -> RunSpan | None:
        """Return the existing run of an entry other than a `service start`; None if there is none.

        `service-record run --stage` records a stage from another process. Its entries have the invocation id
        of the run, or outside of systemd only the boot id. For the end of a run, these are not enough.
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
        """Return the open command named in an entry. If its start is missing, add the command."""
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
        """Return the latest run of the entry's invocation or, without an invocation id, of its boot."""
        if entry.invocation_id is not None:
            return self._by_invocation.get(entry.invocation_id or "")
        run = self._latest
        return run if run is not None and run.first.boot_id == entry.boot_id else None

    def _run_around(self, entry: Entry, name: str, *, before: bool) -> RunSpan | None:
        """Return the existing run to which a starting command belongs; None if it starts a new run.

        Without an invocation id, a pre-command starts a new run, unless the latest run has only had other
        pre-commands yet.
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
        """Mark the latest run as superseded if it has ended, and also the open runs of other invocations.

        systemd runs a unit only once at a time.
        """
        self._touched = None
        if self._latest is not None and self._latest.ends:
            self._latest.superseded = True
        for number, run in list(self._current.items()):
            if invocation_id is None or run.first.invocation_id != invocation_id:
                run.superseded = True
                del self._current[number]

    def _touch(self, run: RunSpan, entry: Entry) -> None:
        """Update a run with its latest entry."""
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
    """Assign the pieces of a service's record to runs."""
    pairing = Pairing()
    for piece in record:
        if isinstance(piece, Entry):
            pairing.add(piece)
        else:
            pairing.add_malformed(piece)
    return pairing

"""What `pairing` gathers entries into: runs, commands and stages, still open to more. Pure."""

from datetime import datetime
from typing import Final

import msgspec

from service_record.history.outcome import SUCCESS, Outcome, end_outcome
from service_record.record.entry import Entry, Result
from service_record.record.fields import RunsLeftOut

_FAILED: Final = Result.FAILURE


class StageSpan(msgspec.Struct):
    """One execution of a stage: what its entries say, and not the entries, of which there are many."""

    name: str
    depth: int
    """How many stages are around it: 0 for the outermost."""
    started: datetime | None = None
    uptime: float | None = None
    """Of its start."""
    boot_id: str | None = None
    """Of its start, until it has ended."""
    id: str | None = None
    """What its recorder calls this execution."""
    parent: str | None = None
    """The id of the stage around it."""
    outcome: Outcome | None = None
    """What its end says; None without an end."""
    ended: datetime | None = None
    duration: float | None = None
    told: Entry | None = None
    """Its end, unless that is a success."""

    def end(self, entry: Entry) -> None:
        """Take the entry for its end."""
        self.ended = entry.time
        self.duration = seconds_between(self.started, self.uptime, self.boot_id, entry)
        self.boot_id = None
        self.outcome = end_outcome(entry)
        if self.outcome is not SUCCESS:
            self.told = entry


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
    """What has stages: the common half of a run and of a command."""

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
    """Where it is among the runs of its service."""
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
        """True while nothing but pre-commands was recorded."""
        return self.start is None and not self.ends and not self.stages

    def ended_command(self, pid: int | None, name: str) -> CommandSpan | None:
        """Return the command of a process that has ended already: another end of it amends that."""
        known = (c for c in self.commands if c.ends and c.first.pid == pid and c.name == name)
        return next(known, None) if pid is not None else None

    def open_command(self, name: str, *, before: bool) -> CommandSpan | None:
        """Return the latest command of that name that has not ended."""
        return next(
            (c for c in reversed(self.commands) if not c.ends and c.is_called(name, before=before)), None
        )

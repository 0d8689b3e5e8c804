"""What `pairing` gathers entries into: runs, commands and stages, still as entries and still open to more."""

from dataclasses import dataclass, field

from service_record.record.entry import Entry, Result
from service_record.record.fields import RunsLeftOut


@dataclass(slots=True)
class StageSpan:
    """The entries of one execution of a stage."""

    name: str
    depth: int
    """How many stages are around it: 0 for the outermost."""
    start: Entry | None
    end: Entry | None = None
    id: str | None = None
    """What its recorder calls this execution."""
    parent: str | None = None
    """The id of the stage around it."""


@dataclass(slots=True)
class Activity:
    """What has stages: the common half of a run and of a command."""

    first: Entry
    last: Entry
    start: Entry | None
    ends: list[Entry] = field(default_factory=list)
    """More than one when the exit helper amends what the recorder could not know."""
    stages: list[StageSpan] = field(default_factory=list)
    open_stages: list[StageSpan] = field(default_factory=list)
    failed_last: list[StageSpan] = field(default_factory=list)
    """The stages that failed one after the other, with nothing started or succeeded since."""

    identified: dict[str, StageSpan] = field(default_factory=dict)
    """The stages by their ids, of those that have one."""

    def start_stage(self, entry: Entry) -> None:
        self.open_stages.append(self._new_stage(entry, entry))
        self.failed_last.clear()

    def end_stage(self, entry: Entry) -> None:
        """Close the open stage of that id, else the latest of that name; without one, the start was lost."""
        known = (entry.stage or "", entry.stage_id)
        span = next((each for each in reversed(self.open_stages) if (each.name, each.id) == known), None)
        if span is None:
            span = self._new_stage(entry, None)
        else:
            self.open_stages.remove(span)
        span.end = entry
        if entry.result is Result.FAILURE:
            self.failed_last.append(span)
        else:
            self.failed_last.clear()

    def _new_stage(self, entry: Entry, start: Entry | None) -> StageSpan:
        """Add a stage that is in the one that it names, or else in those that are open."""
        span = StageSpan(entry.stage or "", len(self.open_stages), start, id=entry.stage_id)
        if span.id is not None:
            around = self.identified.get(entry.parent or "")
            span.depth = around.depth + 1 if around is not None else 0
            span.parent = entry.parent
            self.identified[span.id] = span
        self.stages.append(span)
        return span


@dataclass(slots=True)
class CommandSpan(Activity):
    """The entries of one execution of a pre- or post-command."""

    name: str = ""
    before: bool = True
    """True for a pre-command, False for a post-command."""

    def is_called(self, name: str, *, before: bool) -> bool:
        return self.name == name and self.before == before


@dataclass(slots=True)
class RunSpan(Activity):
    """The entries of one run, and of the commands that systemd ran around it."""

    number: int = 0
    """Where it is among the runs of its service."""
    attempt: int = 1
    """From 1 within its boot; the programs recorded within one invocation share theirs."""
    commands: list[CommandSpan] = field(default_factory=list)
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

    def touch(self, entry: Entry) -> None:
        """Take an entry for the last one of the run."""
        self.last = entry
        self.dropped += entry.dropped
        self.left_out = self.left_out or entry.left_out
        if entry.timestamp is not None:
            self.first_timed = self.first_timed or entry
            self.last_timed = entry

    def open_command(self, name: str, *, before: bool) -> CommandSpan | None:
        return next(
            (c for c in reversed(self.commands) if not c.ends and c.is_called(name, before=before)), None
        )

"""What `pairing` gathers entries into: runs, commands and stages, still as entries and still open to more."""

from dataclasses import dataclass, field

from service_record.entry import Entry, Result


@dataclass(slots=True)
class StageSpan:
    """The entries of one execution of a stage."""

    name: str
    depth: int
    """How many stages were open around it: 0 for the outermost."""
    start: Entry | None
    end: Entry | None = None


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

    def start_stage(self, entry: Entry) -> None:
        span = StageSpan(entry.stage or "", len(self.open_stages), entry)
        self.stages.append(span)
        self.open_stages.append(span)
        self.failed_last.clear()

    def end_stage(self, entry: Entry) -> None:
        """Close the latest open stage of that name; without one, the start was lost."""
        name = entry.stage or ""
        span = next((stage for stage in reversed(self.open_stages) if stage.name == name), None)
        if span is None:
            span = StageSpan(name, len(self.open_stages), None)
            self.stages.append(span)
        else:
            self.open_stages.remove(span)
        span.end = entry
        if entry.result is Result.FAILURE:
            self.failed_last.append(span)
        else:
            self.failed_last.clear()


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
        return next(
            (c for c in reversed(self.commands) if not c.ends and c.is_called(name, before=before)), None
        )

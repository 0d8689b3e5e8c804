"""Outcomes, and the runs, commands and stages that have them. Values only."""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from service_record.record.entry import AttributeValue, Entry, Result, RunsLeftOut


class Location(msgspec.Struct, frozen=True, gc=False):
    """A place in a script or program."""

    line: int | None
    """None if the record has no line number that can be relied on."""
    function: str
    file: str


_STOP_SIGNALS: Final = frozenset({"unknown", "TERM"})
"""The signals that a recorder writes for a stop as well as for a timeout: it cannot know the sender."""


def is_stop(end: "Entry | Facts") -> bool:
    """Return True if systemd stopped it, or if systemd counts the signal that ended it as a success.

    systemd's result says so. A list of signals here would be wrong, because they depend on the unit: on its
    type and on SuccessExitStatus=.
    """
    is_good_signal = end.signal is not None and end.service_result == "success"
    return end.stop_request is not None or is_good_signal


def is_stop_or_kill(end: "Entry | Facts") -> bool:
    """Return True if an unknown sender stopped or killed it: systemd did not report its end."""
    return end.signal in _STOP_SIGNALS and end.service_result is None and end.stop_request is None


def is_unknown(end: Entry) -> bool:
    """Return True if an end says nothing about how it ended, because its recorder could not know."""
    return end.result is None and end.exit_code is None and _says_little(end)


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an execution ended; after a failure also where, and with which message."""

    location: Location | None = None
    is_approximate: bool = False
    """True if `location` is only the nearest known call site."""
    command: str | None = None
    stack: tuple[Location, ...] = ()
    """Innermost first. It contains `location`, after the frames of libraries called from there."""
    exit_code: int | None = None
    signal: str | None = None
    service_result: str | None = None
    stop_request: str | None = None
    """The request to systemd behind the stop signal that ended it: `stop`, `restart` or `shutdown`."""
    stopped_with: str | None = None
    """The unit in BindsTo= whose end made systemd stop it."""
    time_limit: str | None = None
    """The setting of the time limit that it exceeded, such as `TimeoutStartSec`."""
    message: str | None = None
    """The last lines from the journal, oldest first, then those of the exception."""
    is_truncated: bool = False

    @property
    def frames_around(self) -> tuple[tuple[Location, ...], tuple[Location, ...]]:
        """Return the frames called from `location`, and the frames that called it; innermost first."""
        if self.location not in self.stack:
            return (), self.stack
        place = self.stack.index(self.location)
        callers = (frame for frame in self.stack[place:] if frame != self.location)
        return self.stack[:place], tuple(callers)


NOTHING: Final = Facts()


def gather_facts(ends: Sequence[Entry]) -> Facts:
    """Return the facts of one end that several entries describe; later entries override earlier ones.

    The last exit status or signal is how it ended. If that is a signal, earlier entries without a signal are
    ignored: they describe something else.
    """
    if not ends:
        return NOTHING
    if len(ends) == 1 and _says_little(ends[0]):
        return Facts(exit_code=ends[0].exit_code)
    death = next((end for end in reversed(ends) if end.signal or end.exit_code is not None), ends[-1])
    telling = [end for end in ends if end.signal] if death.signal else ends
    located = _last_with("error_line", telling)
    # The EXIT trap of upstream's shim, which records neither uptime nor process, always sees line 1.
    is_upstreams = located.uptime is None and located.pid is None
    is_line_unknown = is_upstreams and (located.error_line or "").startswith("1 ")
    message = _last_with("error_message", telling)
    return Facts(
        location=_location(located.error_line, is_line_unknown),
        is_approximate=located.error_line_approximate,
        command=_last_with("command", telling).command,
        stack=tuple(filter(None, map(_location, located.stack))),
        exit_code=death.exit_code,
        signal=_signal(telling) if death.signal else None,
        service_result=_last_with("service_result", ends).service_result,
        stop_request=_last_with("stop_request", ends).stop_request,
        stopped_with=_last_with("stopped_with", ends).stopped_with,
        time_limit=_last_with("time_limit", ends).time_limit,
        message=message.error_message,
        is_truncated=message.truncated,
    )


def _says_little(end: Entry) -> bool:
    """Return True if an end has at most an exit status, like nearly all successes."""
    return not (
        end.error_line
        or end.error_message
        or end.signal
        or end.command
        or end.stack
        or end.service_result
        or end.stop_request
        or end.stopped_with
        or end.time_limit
        or end.error_line_approximate
        or end.truncated
    )


def _signal(ends: Sequence[Entry]) -> str | None:
    """Return the last named signal, or `unknown`."""
    return next((end.signal for end in reversed(ends) if end.signal != "unknown"), ends[-1].signal)


def _last_with(attribute: str, ends: Sequence[Entry]) -> Entry:
    if len(ends) == 1:
        return ends[0]
    return next((end for end in reversed(ends) if getattr(end, attribute) is not None), ends[-1])


_MAX_DIGITS: Final = 9


def _location(frame: str | None, is_line_unknown: bool = False) -> Location | None:
    """Return the place that `LINE FUNCTION FILE` names; the file may contain spaces."""
    if frame is None:
        return None
    line, function, file = (*frame.split(" ", 2), "", "")[:3]
    if not line.isdecimal() or len(line) > _MAX_DIGITS or not file:
        return Location(None, "", frame)
    return Location(None if is_line_unknown else int(line), function, file)


def order(time: datetime | None) -> float:
    """Return a sort key for a time, in seconds; None sorts last."""
    return float("inf") if time is None else time.timestamp()


class Outcome(StrEnum):
    """The outcome of a run, stage or command, as read."""

    SUCCESS = "success"
    FAILURE = "failure"
    RUNNING = "running"
    STOPPED = "stopped"
    """systemd stopped it, or it ended by a signal that systemd counts as a good end: no trouble."""
    INTERRUPTED = "interrupted"
    """It has no end and cannot be running any more, or it ended in an unknown way."""

    @property
    def is_bad(self) -> bool:
        return self is Outcome.FAILURE or self is Outcome.INTERRUPTED


# Looking up a member of an enumeration is slow, and these are needed for each entry.
SUCCESS: Final = Outcome.SUCCESS
FAILURE: Final = Outcome.FAILURE
STOPPED: Final = Outcome.STOPPED
INTERRUPTED: Final = Outcome.INTERRUPTED
_SUCCEEDED: Final = Result.SUCCESS


def end_outcome(end: Entry) -> Outcome:
    """Return the outcome by an end alone."""
    if end.result is _SUCCEEDED:
        return SUCCESS
    if is_stop(end):
        return STOPPED
    return INTERRUPTED if is_stop_or_kill(end) or is_unknown(end) else FAILURE


Attributes: TypeAlias = tuple[tuple[str, AttributeValue], ...]
STARTUP: Final = "startup_seconds"
"""Attribute of a run from a journal: the seconds that the start of its unit took."""


def merge_attributes(*entries: Entry | None) -> Attributes:
    """Return the attributes of the entries of one execution; later entries override earlier ones."""
    merged: dict[str, AttributeValue] = {}
    for entry in entries:
        if entry is not None and entry.attributes:
            merged |= entry.attributes
    return tuple(merged.items())


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An execution with its start, end and outcome. Times have a zone; None if lost or not recorded."""

    outcome: Outcome
    started: datetime | None
    ended: datetime | None
    duration: float | None
    """Seconds, by uptime within a boot and by the clock otherwise.

    None if the clock was set back, or if the start or the end has no time.
    """
    facts: Facts = NOTHING
    uptime: float | None = None
    """Seconds from the boot of the host to `started`, if known."""
    attributes: Attributes = ()
    """Facts that the service recorded about this execution, by name."""


class Stage(Span, frozen=True, kw_only=True, gc=False):
    """One execution of a named part of a run or command."""

    name: str
    depth: int = 0
    """The number of stages around it."""
    id: str | None = None
    """The recorder's id of this execution; None from recorders that do not nest stages."""
    parent: str | None = None
    """The id of the stage around it; None directly in its run or command."""


def nested(stages: Sequence[Stage]) -> list[Stage]:
    """Return stages in tree order: each stage directly before the stages inside it."""
    ids = {stage.id for stage in stages if stage.id is not None}
    inner: dict[str | None, list[Stage]] = {}
    for stage in stages:
        around = stage.parent if stage.parent in ids and stage.parent != stage.id else None
        inner.setdefault(around, []).append(stage)
    ordered: list[Stage] = []
    waiting = inner.pop(None, [])[::-1]
    while waiting:
        stage = waiting.pop()
        ordered.append(stage)
        if stage.id is not None:
            waiting += reversed(inner.pop(stage.id, []))
    return [*ordered, *(stage for remaining in inner.values() for stage in remaining)]


class Command(Span, frozen=True, kw_only=True, gc=False):
    """One execution of a pre- or post-command."""

    name: str
    is_before: bool
    """True for a pre-command, False for a post-command."""
    pid: int | None = None
    stages: tuple[Stage, ...] = ()
    in_stage: str | None = None


class Run(Span, frozen=True, kw_only=True, gc=False):
    """One invocation of a service."""

    service: str
    attempt: int
    """From 1 within its boot."""
    first_entry: datetime | None
    """Time of its first entry that has one."""
    last_entry: datetime | None
    """Time of its last entry that has one."""
    last_uptime: float | None = None
    """The uptime of its last entry."""
    boot_id: str | None = None
    invocation_id: str | None = None
    pid: int | None = None
    recorder: str | None = None
    commands: tuple[Command, ...] = ()
    stages: tuple[Stage, ...] = ()
    """In the order of their starts."""
    in_stage: str | None = None
    """The stage it is in, or in which it was stopped, was interrupted or failed."""
    in_command: str | None = None
    """The pre- or post-command it is in, or in which it was stopped, was interrupted or failed."""
    has_no_start: bool = False
    """True when its `service start` was not recorded."""
    dropped: int = 0
    """The number of its entries that could not be written."""
    left_out: RunsLeftOut | None = None
    """The runs directly before it that a rotation of the record left out."""

    @property
    def is_derived(self) -> bool:
        """Return True if it was derived from a journal or an installer's log instead of a record."""
        return self.recorder is not None and self.recorder.startswith(DERIVED)

    @property
    def has_unclear_end(self) -> bool:
        """Return True if it has an end that does not say whether it failed."""
        return self.outcome is Outcome.INTERRUPTED and (self.ended is not None or self.duration is not None)

    @property
    def end_key(self) -> Hashable:
        """Return a key that is equal for runs that ended the same way in the same place."""
        facts = self.facts
        return self.outcome, self.in_stage, self.in_command, facts.location, facts.exit_code, facts.signal


DERIVED: Final = "derived/"
"""Prefix of `Entry.recorder` in entries that were derived, not recorded."""
JOURNAL_RECORDER: Final = f"{DERIVED}journal"


class Repeat(msgspec.Struct, frozen=True):
    """Runs of one service that ended the same way in the same place."""

    first: Run
    last: Run
    count: int


def repeats(runs: Iterable[Run]) -> list[Repeat]:
    """Group runs by how they ended, most recent group last.

    The counts include equal runs between these that a rotation of the record left out.
    """
    groups = []
    for same in alike(runs):
        left_out = sum(run.left_out.alike for run in same if run.left_out is not None)
        groups.append(Repeat(same[0], same[-1], len(same) + left_out))
    return groups


def alike(runs: Iterable[Run]) -> list[list[Run]]:
    """Group runs by how they ended, most recent group last, with all runs of each group."""
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        kind = run.end_key
        same = groups.pop(kind, [])
        same.append(run)
        groups[kind] = same
    return list(groups.values())

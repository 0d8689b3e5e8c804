"""What entries come to: outcomes, and the runs, commands and stages that have them. Values only."""

from collections.abc import Hashable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from service_record.history.facts import NOTHING, Facts, is_stop, is_stop_or_kill
from service_record.record.entry import Entry, Result
from service_record.record.fields import RunsLeftOut


def order(time: datetime | None) -> float:
    """Return what to sort times by, in seconds; what has no time comes last."""
    return float("inf") if time is None else time.timestamp()


class Outcome(StrEnum):
    """What a run, stage or command came to, as read."""

    SUCCESS = "success"
    FAILURE = "failure"
    RUNNING = "running"
    STOPPED = "stopped"
    """systemd or somebody ended it in order, with a stop signal: no trouble."""
    INTERRUPTED = "interrupted"
    """It has no end, and it cannot be running any more; or a signal ended it, and nobody knows whose."""

    @property
    def is_bad(self) -> bool:
        return self is Outcome.FAILURE or self is Outcome.INTERRUPTED


# A member of an enumeration takes long to look up, for what is done for each entry.
SUCCESS: Final = Outcome.SUCCESS
FAILURE: Final = Outcome.FAILURE
STOPPED: Final = Outcome.STOPPED
INTERRUPTED: Final = Outcome.INTERRUPTED
_SUCCEEDED: Final = Result.SUCCESS


def end_outcome(end: Entry) -> Outcome:
    """Return the outcome that an end alone tells. An end without a result is no success."""
    if end.result is _SUCCEEDED:
        return SUCCESS
    if is_stop(end):
        return STOPPED
    return INTERRUPTED if is_stop_or_kill(end) else FAILURE


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What has a beginning, an end and an outcome. Times are aware; None when lost, or not recorded."""

    outcome: Outcome
    started: datetime | None
    ended: datetime | None
    duration: float | None
    """Seconds, by uptime within a boot and by the clock otherwise; None when the clock went backwards, and
    when the start or the end has no time."""
    facts: Facts = NOTHING
    uptime: float | None = None
    """Seconds from the boot of the host to `started`, where that is known."""


class Stage(Span, frozen=True, kw_only=True, gc=False):
    """One execution of a named part of a run or command."""

    name: str
    depth: int = 0
    """How many stages it is nested in."""
    id: str | None = None
    """What its recorder calls this execution, where the recorder knows which stage is in which."""
    parent: str | None = None
    """The id of the stage that it is in; None for one that is right in its run or command."""


def nested(stages: Sequence[Stage]) -> list[Stage]:
    """Return stages with those that name the one they are in right behind it; else in their order."""
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
    return [*ordered, *(stage for left in inner.values() for stage in left)]


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
    """Of its last entry."""
    boot_id: str | None = None
    invocation_id: str | None = None
    pid: int | None = None
    recorder: str | None = None
    commands: tuple[Command, ...] = ()
    stages: tuple[Stage, ...] = ()
    """In the order of their starts."""
    in_stage: str | None = None
    """The stage that it is in, or was stopped, interrupted or failed in."""
    in_command: str | None = None
    """Likewise the pre- or post-command."""
    has_no_start: bool = False
    """True when its `service start` was not recorded."""
    dropped: int = 0
    """How many of its entries could not be written."""
    left_out: RunsLeftOut | None = None
    """The runs right before it that a rotation of the record left out."""

    @property
    def is_stop_or_kill(self) -> bool:
        """True when a signal ended it, and nobody knows whether that was a stop or a kill."""
        return self.outcome is Outcome.INTERRUPTED and self.ended is not None

    @property
    def came_to(self) -> Hashable:
        """What is the same of runs that came to the same end in the same place."""
        facts = self.facts
        return self.outcome, self.in_stage, self.in_command, facts.location, facts.exit_code, facts.signal

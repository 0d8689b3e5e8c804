"""What entries come to: outcomes, and the runs, commands and stages that have them. Values only."""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service_record.history.facts import NOTHING, Facts


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What has a beginning, an end and an outcome. Times are aware; a lost start or end is None."""

    outcome: Outcome
    started: datetime | None
    ended: datetime | None
    duration: float | None
    """Seconds, by uptime within a boot and by the clock otherwise; None when the clock went backwards."""
    facts: Facts = NOTHING
    uptime: float | None = None
    """Seconds from the boot of the host to `started`, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Span):
    """One execution of a named part of a run or command."""

    name: str
    depth: int = 0
    """How many stages it is nested in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Span):
    """One execution of a pre- or post-command."""

    name: str
    is_before: bool
    """True for a pre-command, False for a post-command."""
    pid: int | None = None
    stages: tuple[Stage, ...] = ()
    in_stage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Span):
    """One invocation of a service."""

    service: str
    attempt: int
    """From 1 within its boot."""
    first_entry: datetime
    last_entry: datetime
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
    dropped: int = 0
    """How many of its entries could not be written."""

    @property
    def is_stop_or_kill(self) -> bool:
        """True when a signal ended it, and nobody knows whether that was a stop or a kill."""
        return self.outcome is Outcome.INTERRUPTED and self.ended is not None

    @property
    def came_to(self) -> Hashable:
        """What is the same of runs that came to the same end in the same place."""
        facts = self.facts
        return self.outcome, self.in_stage, self.in_command, facts.location, facts.exit_code, facts.signal

"""What the reporter knows from one round to the next: one small file, whole after every loss of power."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from service_record.reporter.evidence import Evidence
from service_record.reporter.files import write_whole
from service_record.reporter.token import read_small

VERSION: Final = 1
DAMAGED_SUFFIX: Final = ".damaged"
_MOST: Final = 1 << 18
_BOOTS: Final = 16
"""How many boots are remembered one by one."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSeen:
    """A boot that had a round."""

    boot_id: str
    rounds: _Count = 0
    uptime: _Seconds = 0.0
    """At the latest round."""
    trouble: str | None = None
    """The fingerprint of what was wrong at the latest round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a destination has got. What is about to be sent counts already."""

    uploads: _Count = 0
    bytes: _Count = 0
    boot_id: str | None = None
    """The boot that `boot_uploads` are of."""
    boot_uploads: _Count = 0
    fingerprints: tuple[str, ...] = ()
    """What it was told of."""
    last_word: str | None = None
    """The boot whose limit was near when a bundle was shipped for that reason; `lifetime` for that limit."""

    def in_boot(self, boot_id: str) -> int:
        """How many uploads that boot made."""
        return self.boot_uploads if self.boot_id == boot_id else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What is in the spool."""

    fingerprint: str
    boot_id: str
    uptime: _Seconds
    """At the round that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A server asked to be left alone until then. Uptime, because the clock may be set meanwhile."""

    boot_id: str
    uptime: _Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All of it. A new one is that of a host where the reporter never ran."""

    version: int = VERSION
    boots: tuple[BootSeen, ...] = ()
    """The latest, oldest first."""
    earlier_boots: _Count = 0
    """How many more there were before."""
    earlier_uptime: _Seconds = 0.0
    """How long these were up, together."""
    told: tuple[str, ...] = ()
    """Facts that the service has."""
    dropped: tuple[str, ...] = ()
    """Facts that it does not take, and which it is not told again."""
    tries: Mapping[str, _Count] = field(default_factory=dict)
    """Fact -> how many requests it took so far, one about to be made included."""
    moved: Mapping[str, _Count] = field(default_factory=dict)
    """Fact -> how often the host had moved on meanwhile."""
    stages_known: bool | None = None
    """Whether the service takes facts as stages; None before it was asked."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Kind of call -> the HTTP status that ended it for good."""
    accepted: tuple[str, ...] = ()
    """Kinds of shipping that a destination has taken once."""
    deferred: tuple[str, ...] = ()
    """Facts and kinds that this round has tried in vain; the next may try again."""
    spent: Mapping[str, Spent] = field(default_factory=dict)
    """Destination -> what it has got."""
    bundle: Bundle | None = None
    withheld: tuple[str, ...] = ()
    """Fingerprints whose bundle had a secret in it that would have left the host."""
    cursor: str | None = None
    """Of the journal, at the end of what was shipped last."""
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    """Destination -> until when it is left alone."""
    is_careful: bool = False
    """True when an earlier state was lost: what was spent before is not known."""

    def boot(self, boot_id: str) -> BootSeen | None:
        return next((boot for boot in self.boots if boot.boot_id == boot_id), None)

    def ordinal(self, boot_id: str) -> int:
        """The number of a boot among those seen, from 1; of one not seen yet, what it will be."""
        known = [boot.boot_id for boot in self.boots]
        return self.earlier_boots + (known.index(boot_id) if boot_id in known else len(known)) + 1

    def uptime_before(self, boot_id: str) -> float:
        """How long all other boots were up as far as rounds saw it."""
        return self.earlier_uptime + sum(boot.uptime for boot in self.boots if boot.boot_id != boot_id)

    def is_paused(self, destination: str, boot_id: str, uptime: float) -> bool:
        pause = self.pauses.get(destination)
        return pause is not None and pause.boot_id == boot_id and uptime < pause.uptime

    def spent_at(self, destination: str) -> Spent:
        return self.spent.get(destination, Spent())


def arrive(state: State, evidence: Evidence) -> State:
    """The state with this round in it. Its first step: a round that is killed counts."""
    trouble = evidence.fingerprint if evidence.is_wrong else None
    boot = state.boot(evidence.boot_id)
    others = tuple(known for known in state.boots if known is not boot)
    now = replace(
        boot or BootSeen(boot_id=evidence.boot_id),
        rounds=(boot.rounds if boot else 0) + 1,
        uptime=max(evidence.uptime, boot.uptime if boot else 0.0),
        trouble=trouble,
    )
    folded, kept = others[: -_BOOTS + 1], others[-_BOOTS + 1 :]
    return replace(
        state,
        boots=(*kept, now),
        deferred=(),
        earlier_boots=state.earlier_boots + len(folded),
        earlier_uptime=state.earlier_uptime + sum(known.uptime for known in folded),
    )


def load(path: Path) -> State:
    """The state; a new one where there is none.

    A damaged one is set aside, and the new one is careful in its place. Raises OSError where the file is
    there, and cannot be read.
    """
    try:
        data, _ = read_small(path, _MOST)
        state = msgspec.json.decode(data, type=State)
    except FileNotFoundError:
        return State()
    except ValueError:  # msgspec's errors are some
        state = None
    if state is not None and state.version == VERSION:
        return state
    with suppress(OSError):
        path.replace(path.with_name(path.name + DAMAGED_SUFFIX))
    return State(is_careful=True)


def save(path: Path, state: State) -> None:
    """Put the state in the place of the one before, on the disk when this returns. Raises OSError."""
    write_whole(path, msgspec.json.encode(state) + b"\n")

"""The reporter's state between rounds: one small file, whole after every loss of power."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from service_record.record.appending import DAMAGED_SUFFIX
from service_record.record.atomic_write import set_aside, write_whole
from service_record.reporter.token import read_small

VERSION: Final = 1
_MOST: Final = 1 << 18

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSeen:
    """A boot that had a round."""

    boot_id: str
    rounds: _Count = 0
    uptime: _Seconds = 0.0
    """The uptime at the latest round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The amount that a destination has got. A shipment about to be sent counts already."""

    uploads: _Count = 0
    bytes: _Count = 0
    boot_id: str | None = None
    """The boot that `boot_uploads` are of."""
    boot_uploads: _Count = 0
    fingerprints: tuple[str, ...] = ()
    """The fingerprints that were reported to it."""
    round: str | None = None
    """The round that shipped the latest bundle; see `Moment.round`."""
    bundle_boot: str | None = None
    """The boot in which its latest bundle was made."""
    last_word: str | None = None
    """The boot whose limit was near when a bundle was shipped for that reason; `lifetime` for that limit."""

    def in_boot(self, boot_id: str) -> int:
        """Return how many uploads that boot made."""
        return self.boot_uploads if self.boot_id == boot_id else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledBundle:
    """The bundle in the spool."""

    fingerprint: str
    boot_id: str
    uptime: _Seconds
    """The uptime at the round that made it."""
    is_wrong: bool = False
    """True if it reports something that was wrong with the host."""
    is_volatile: bool = False
    """True if it is in memory, because the disk did not take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Rounds in a row in which the service denied this host, in the same way."""

    rule: str
    """The ending that they speak for."""
    rounds: _Count = 1
    since: _Seconds = 0.0
    """The host's uptime at the first of them, all boots together."""
    until: _Seconds = 0.0
    """The host's uptime at the latest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A server asked to be left alone until then. Uptime, because the clock may be set meanwhile."""

    boot_id: str
    uptime: _Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReporterState:
    """All of it. A new one is that of a host where the reporter never ran."""

    version: int = VERSION
    boots: tuple[BootSeen, ...] = ()
    """The latest, oldest first."""
    earlier_boots: _Count = 0
    """The number of boots before those."""
    earlier_uptime: _Seconds = 0.0
    """The uptime of these boots, together."""
    told: tuple[str, ...] = ()
    """Facts that the service has."""
    dropped: tuple[str, ...] = ()
    """Facts that it does not take, and which it is not told again."""
    tries: Mapping[str, _Count] = field(default_factory=dict)
    """Fact -> how many requests it took so far, one about to be made included."""
    moved: Mapping[str, _Count] = field(default_factory=dict)
    """Fact -> how often the host had moved on meanwhile."""
    stages_known: bool | None = None
    """True if the service takes facts as stages; None before it was asked."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Kind of call -> the HTTP status that ended it for good."""
    accepted: tuple[str, ...] = ()
    """Kinds of shipping that a destination has taken once."""
    deferred: tuple[str, ...] = ()
    """Facts and kinds that this round has tried in vain; the next may try again."""
    spent: Mapping[str, Spent] = field(default_factory=dict)
    """Destination -> what it has got."""
    host_uploads: _Count = 0
    """The number of uploads to the service's slot for the host's logs: after one, its content is ours."""
    has_wrong_host_logs: bool = False
    """True if the bundle in that slot is of something wrong, so that a healthy host's may not replace it."""
    bundle: SpooledBundle | None = None
    withheld: tuple[str, ...] = ()
    """Fingerprints whose bundle had a secret in it that would have left the host."""
    cursor: str | None = None
    """The cursor of the journal at the end of what was shipped last."""
    denial: Denial | None = None
    offered: _Seconds | None = None
    """The host's uptime, all boots together, when a waiting reporter last offered what nobody took."""
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    """Destination -> until when it is left alone."""
    is_careful: bool = False
    """True when an earlier state was lost: what was spent before is not known."""

    def boot(self, boot_id: str) -> BootSeen | None:
        return next((boot for boot in self.boots if boot.boot_id == boot_id), None)

    def ordinal(self, boot_id: str) -> int:
        """Return the number of a boot among those seen, from 1; of one not seen yet, what it will be."""
        boot_ids = [boot.boot_id for boot in self.boots]
        return self.earlier_boots + (boot_ids.index(boot_id) if boot_id in boot_ids else len(boot_ids)) + 1

    def uptime_before(self, boot_id: str) -> float:
        """Return how long all other boots were up as far as rounds saw it."""
        return self.earlier_uptime + sum(boot.uptime for boot in self.boots if boot.boot_id != boot_id)

    def is_paused(self, destination: str, boot_id: str, uptime: float) -> bool:
        pause = self.pauses.get(destination)
        return pause is not None and pause.boot_id == boot_id and uptime < pause.uptime

    def is_delivered(self, fingerprint: str) -> bool:
        """Return whether any destination has a bundle that tells of this."""
        return any(fingerprint in spent.fingerprints for spent in self.spent.values())

    def spent_at(self, destination: str) -> Spent:
        return self.spent.get(destination, Spent())


def read(path: Path) -> ReporterState | None:
    """Return the state as it is on the disk; None where it is damaged, or no file. Raises OSError."""
    try:
        data, _ = read_small(path, _MOST, follows=False)  # whatever a link leads to is not ours
        state = msgspec.json.decode(data, type=ReporterState)
    except ValueError:  # msgspec's errors are some
        return None
    return state if state.version == VERSION else None


def load(path: Path, *, sets_aside: bool = True) -> ReporterState:
    """Return the state; a new one where there is none.

    In the place of a damaged one, of a link or of a directory it is a careful one, and those are set aside.
    Raises OSError where the file is there, and cannot be read.
    """
    damaged = path.with_name(path.name + DAMAGED_SUFFIX)
    try:
        state = read(path)
    except FileNotFoundError:  # set aside by a round that was killed before it could save: careful, too
        return ReporterState(is_careful=os.path.lexists(damaged))
    if state is not None:
        return state
    if sets_aside:
        with suppress(OSError):
            set_aside(path)
    return ReporterState(is_careful=True)


def save(path: Path, state: ReporterState) -> None:
    """Put the state in the place of the one before, on the disk when this returns. Raises OSError."""
    write_whole(path, msgspec.json.encode(state) + b"\n")

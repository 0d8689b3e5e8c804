"""The reporter's state between rounds: a small JSON file that is replaced atomically."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from service_record.record.appending import DAMAGED_SUFFIX
from service_record.record.atomic_write import set_aside, write_whole
from service_record.reporter.paths import Places, is_there, read_small

VERSION: Final = 1
_OLD_NAMES: Final = {
    b'"told":': b'"reported":',
    b'"moved":': b'"conflicts":',
    b'"spent":': b'"usage":',
    b'"last_word":': b'"near_limit":',
    b'"withheld":': b'"bundles_with_secrets":',
    b'"offered":': b'"last_offer":',
}
"""Fields of files that earlier versions saved, and their present names."""
_MAX_FILE_BYTES: Final = 1 << 18

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSeen:
    """A boot in which a round ran."""

    boot_id: str
    rounds: _Count = 0
    uptime: _Seconds = 0.0
    """The uptime at the latest round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The uploads to one destination. An upload is counted before it is sent."""

    uploads: _Count = 0
    bytes: _Count = 0
    boot_id: str | None = None
    """The boot that `boot_uploads` counts."""
    boot_uploads: _Count = 0
    fingerprints: tuple[str, ...] = ()
    """The fingerprints of the bundles that the destination has."""
    round: str | None = None
    """The round that shipped the latest bundle; see `HostEvidence.round`."""
    bundle_boot: str | None = None
    """The boot in which the latest of these bundles was made."""
    near_limit: str | None = None
    """The limit for which a last bundle was shipped: the id of a boot, or `lifetime`."""

    def in_boot(self, boot_id: str) -> int:
        """Return the number of uploads in a boot."""
        return self.boot_uploads if self.boot_id == boot_id else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledBundle:
    """The bundle in the spool."""

    fingerprint: str
    boot_id: str
    uptime: _Seconds
    """The uptime at the round that made it."""
    is_wrong: bool = False
    """True if it was made because something was wrong with the host."""
    is_volatile: bool = False
    """True if it is in memory, because the disk was full or read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Consecutive rounds in which the service denied this host in the same way."""

    rule: str
    """The rule for stopping that the denials support: `not-ours` or `gone`."""
    rounds: _Count = 1
    since: _Seconds = 0.0
    """The total uptime of all boots at the first denial."""
    until: _Seconds = 0.0
    """The total uptime of all boots at the latest denial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The end of a pause that a server requested with `Retry-After`.

    It is an uptime, because the clock may be set during a boot.
    """

    boot_id: str
    uptime: _Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReporterState:
    """The content of the state file. The defaults are the state before the first round."""

    version: int = VERSION
    boots: tuple[BootSeen, ...] = ()
    """The latest boots, oldest first."""
    earlier_boots: _Count = 0
    """The number of boots before those in `boots`."""
    earlier_uptime: _Seconds = 0.0
    """The total uptime of those earlier boots."""
    reported: tuple[str, ...] = ()
    """The facts and verdicts that the service has received."""
    dropped: tuple[str, ...] = ()
    """The facts that the service refused. They are not reported again."""
    tries: Mapping[str, _Count] = field(default_factory=dict)
    """Fact -> the number of its requests. A request is counted before it is sent."""
    conflicts: Mapping[str, _Count] = field(default_factory=dict)
    """Fact -> the number of answers 409: the host's stage changed during the report."""
    stages_known: bool | None = None
    """True if the service accepts facts as stages. None if that is not known yet."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Kind of call -> the HTTP status that ended it permanently."""
    accepted: tuple[str, ...] = ()
    """The kinds of shipments that were accepted at least once."""
    deferred: tuple[str, ...] = ()
    """The facts and kinds of shipments that failed in this round. The next round tries again."""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """Destination -> its uploads so far."""
    host_uploads: _Count = 0
    """The number of uploads as the host's logs. From the first on, they replace the agent's logs."""
    has_wrong_host_logs: bool = False
    """True if these logs show a trouble. A bundle of the healthy host must not replace them."""
    bundle: SpooledBundle | None = None
    bundles_with_secrets: tuple[str, ...] = ()
    """The fingerprints of bundles that were deleted because they contained a secret."""
    cursor: str | None = None
    """The journal cursor at the end of the last delivered bundle."""
    denial: Denial | None = None
    last_offer: _Seconds | None = None
    """The total uptime of all boots when a waiting reporter last offered its undelivered bundle."""
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    """Destination -> the end of its pause."""
    is_careful: bool = False
    """True if an earlier state was lost. How much of the budgets is used is then unknown."""

    def boot(self, boot_id: str) -> BootSeen | None:
        return next((boot for boot in self.boots if boot.boot_id == boot_id), None)

    def ordinal(self, boot_id: str) -> int:
        """Return the number of a boot, counted from 1. A new boot gets the next number."""
        boot_ids = [boot.boot_id for boot in self.boots]
        return self.earlier_boots + (boot_ids.index(boot_id) if boot_id in boot_ids else len(boot_ids)) + 1

    def uptime_before(self, boot_id: str) -> float:
        """Return the total uptime of all other boots, in seconds, up to the last round of each."""
        return self.earlier_uptime + sum(boot.uptime for boot in self.boots if boot.boot_id != boot_id)

    def is_delivered(self, fingerprint: str) -> bool:
        """Return whether any destination has a bundle with this fingerprint."""
        return any(fingerprint in usage.fingerprints for usage in self.usage.values())

    def usage_at(self, destination: str) -> Usage:
        return self.usage.get(destination, Usage())


def newest_state_file(places: Places) -> Path:
    """Return the state file in memory if there is one: it exists only while the disk cannot be written."""
    in_memory = places.volatile.state_file
    return in_memory if is_there(in_memory) else places.state_file


def read(path: Path) -> ReporterState | None:
    """Return the saved state, or None if it is damaged or not a regular file. Raises OSError."""
    try:
        data, _ = read_small(path, _MAX_FILE_BYTES, follows=False)  # the reporter creates no links
        for old, new in _OLD_NAMES.items():  # a quote within a string is escaped, so these are names
            data = data.replace(old, new)
        state = msgspec.json.decode(data, type=ReporterState)
    except ValueError:  # includes msgspec's errors
        return None
    return state if state.version == VERSION else None


def load(path: Path, *, sets_aside: bool = True) -> ReporterState:
    """Return the saved state, or a new one if there is no file.

    If the file is damaged, a link or a directory, move it aside and return a new state with `is_careful`.
    Raises OSError if the file exists but cannot be read.
    """
    damaged = path.with_name(path.name + DAMAGED_SUFFIX)
    try:
        state = read(path)
    except FileNotFoundError:  # perhaps moved aside by a round that was killed before it saved a new state
        return ReporterState(is_careful=os.path.lexists(damaged))
    if state is not None:
        return state
    if sets_aside:
        with suppress(OSError):
            set_aside(path)
    return ReporterState(is_careful=True)


def save(path: Path, state: ReporterState) -> None:
    """Replace the saved state atomically, and sync it to the disk. Raises OSError."""
    write_whole(path, msgspec.json.encode(state) + b"\n")

"""The values that collectors, a bundle and a round share: deadlines, rows, pieces and the manifest.

Gathering itself is in `gathering`.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from service_record.read.programs import Deadline
from service_record.version import __version__


class GatherStatus(StrEnum):
    """The result of a collector, in the words of manifest.json."""

    GIVEN = "given"
    ABSENT = "absent"
    """The host does not have it: no such program, file or service. No error."""
    EMPTY = "empty"
    """A collector that was asked, and had nothing to say."""
    CUT = "cut"
    """A collector whose oldest bytes are missing: it gave more than its limit."""
    TIMED_OUT = "timed-out"
    """A collector that was stopped at its time limit; what it had given until then is there."""
    FAILED = "failed"
    """A collector that failed: its output, if any, may be incomplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The host that is gathered from, and what is known before."""

    root: Path = Path("/")
    """Files are read below it; programs are run as they are found on PATH."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment. Only PATH, HOME and the proxies are used; programs see no other part of it."""
    boot_id: str | None = None
    cursor: str | None = None
    """The cursor of the journal after which entries are new. None for the whole boot."""
    urls: tuple[str, ...] = ()
    """The services whose reachability is checked, without credentials."""
    ca_bundle: Path | None = None
    """A file of certificates trusted beside the system's when they are checked."""


Opening: TypeAlias = Callable[[int], bytes]
"""The beginning to write before the rest of a file, given the number of bytes that were cut off."""


class GatheredMember(Protocol):
    """One file of a bundle, while it is written."""

    @property
    def written_bytes(self) -> int:
        """Return how many bytes were written to it."""

    @property
    def cut(self) -> int:
        """Return how many of them, the oldest, were dropped again because of a limit."""

    def write(self, data: bytes, /) -> object:
        """Append. Raises OSError when the bundle as a whole can hold nothing more."""


class GatheredBundle(Protocol):
    """The destination of gathered data, one member after the other."""

    def member(
        self, path: str, *, limit: int | None = None, mtime: float | None = None, opening: Opening = ...
    ) -> AbstractContextManager[GatheredMember]:
        """Begin a file, of which the last `limit` bytes are kept; `mtime` is in seconds since 1970.

        The path is relative to the top directory of the bundle. Where the beginning is cut off, `opening`
        makes what stands in its place; by default a line that says so.
        """

    def add(self, path: str, data: bytes) -> None:
        """Add a whole small file."""


@dataclass(frozen=True, slots=True)
class Begin:
    """From here on the chunks belong to this file of the bundle."""

    member: str
    mtime: float | None = None
    """The time at which it was last written, in seconds since 1970; None for now."""
    skipped: int = 0
    """Bytes of it that are left out, the oldest, because of its limit."""
    opening: Opening | None = None
    """The beginning of a file that is useless without one; None where a cut is marked as in any text."""


Piece: TypeAlias = Begin | bytes
"""Bytes before any `Begin` belong to the member that the collector names."""

Pieces: TypeAlias = Generator[Piece, None, None]


class GatherError(Exception):
    """It could not be had, or not wholly: the status is absent, cut, timed out or failed.

    The text says why, in one line.
    """

    def __init__(self, status: GatherStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


Take: TypeAlias = Callable[["Task"], Pieces]
"""A kind of source: a program, a file, the journal, a fact that Python finds out.

It gives pieces, nothing when there is nothing. It runs in a thread of its own, which is left behind when it
goes on long after the deadline. What it started must be gone when it ends, also when it is closed. It raises
GatherError, also after pieces; anything else that it raises is a failure, too.
"""


@dataclass(frozen=True, slots=True)
class GatherRow:
    """A row of the table: something to gather, and what it may cost."""

    name: str
    member: str
    """The place in the bundle; with a slash at the end, the directory of its files."""
    take: Take
    seconds: float = 10
    bytes: int = 1 << 20
    """The size kept of each file, at its end."""
    needs: tuple[str, ...] = ()
    """Programs by name and files by absolute path without which it is absent."""

    @property
    def most(self) -> int:
        """Return how many bytes are read of a program before it counts as one that prints without end."""
        return 8 * self.bytes


@dataclass(frozen=True, slots=True)
class Task:
    """A collector at work on a host."""

    collector: GatherRow
    context: Context
    deadline: Deadline


class GivenMember(msgspec.Struct, frozen=True, rename="camel"):
    """A file that is in the bundle."""

    path: str
    bytes: int
    dropped_bytes: int


class Gathered(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a collector, as it stands in the manifest."""

    name: str
    member: str
    status: GatherStatus
    bytes: int = 0
    """The size of its output, before redaction."""
    seconds: float = 0.0
    dropped_bytes: int = 0
    """The bytes that a limit left out of the bundle; the end that a stopped producer never wrote does not
    count.
    """
    reason: str | None = None
    """The reason why it is absent, was stopped or failed, in one line."""
    files: tuple[GivenMember, ...] = ()


MANIFEST: Final = "manifest.json"
FORMAT_VERSION: Final = 1


def manifest(
    gathered: Iterable[Gathered], *, at: datetime, boot_id: str | None, cursor: str | None
) -> dict[str, object]:
    """Return the document: sizes in bytes as they were before redaction, times in seconds."""
    return {
        "version": FORMAT_VERSION,
        "generator": f"service-record/{__version__}",
        "time": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "bootId": boot_id,
        "journalAfterCursor": cursor,
        "collectors": [
            {name: value for name, value in msgspec.to_builtins(each).items() if value is not None}
            for each in gathered
        ],
    }

"""The types of gathering: rows of the table, pieces of output, results and the manifest.

`gathering` runs the rows.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from service_record.record.programs import Deadline
from service_record.version import __version__


class GatherStatus(StrEnum):
    """The result of a row, as in manifest.json."""

    GIVEN = "given"
    ABSENT = "absent"
    """The host does not have it: no such program, file or service. No error."""
    EMPTY = "empty"
    """It ran, and gave no output."""
    CUT = "cut"
    """The output exceeded a limit: its oldest bytes, or further files, are missing."""
    TIMED_OUT = "timed-out"
    """It was stopped at its time limit. The output until then is in the bundle."""
    FAILED = "failed"
    """It failed. Its output, if any, may be incomplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The host to gather from."""

    root: Path = Path("/")
    """The directory that files are read below. Programs are those on PATH all the same."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment. Programs get only its PATH and HOME; see `service_record.record.programs`."""
    boot_id: str | None = None
    cursor: str | None = None
    """The journal cursor after which entries are new. None for the whole boot."""
    urls: tuple[str, ...] = ()
    """URLs of services. Their reachability is checked without credentials."""
    ca_bundle: Path | None = None
    """A file of further trusted certificates for these checks."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Marks that the following chunks belong to this file of the bundle."""

    member: str
    mtime: float | None = None
    """The file's modification time, in seconds since 1970. None for now."""
    skipped: int = 0
    """The number of bytes at the file's beginning that were not read, because of its limit."""
    opening: Callable[[int], bytes] | None = None
    """Returns the text in place of a beginning that was cut off, given the number of missing bytes. Formats
    such as JSON need one; None for a line of text.
    """


Piece: TypeAlias = Begin | bytes
"""Bytes before the first `Begin` belong to the row's own `member`."""

Pieces: TypeAlias = Generator[Piece, None, None]


class GatherError(Exception):
    """The output is missing or incomplete. `status` is absent, cut, timed out or failed.

    The message is the reason, in one line.
    """

    def __init__(self, status: GatherStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


Take: TypeAlias = Callable[["Task"], Pieces]
"""A source: yields the pieces of a program's output, a file, the journal, or anything else.

It runs in its own thread, which is abandoned if it hangs after the deadline. It must end the processes that
it started before it returns, raises or is closed. It may raise GatherError, even after some pieces. Any other
exception is recorded as a failure of the row.
"""


@dataclass(frozen=True, slots=True)
class GatherRow:
    """A row of the table: a source, its place in the bundle, and its limits."""

    name: str
    member: str
    """The path in the bundle. A slash at the end marks a directory for several files."""
    take: Take
    seconds: float = 10
    """The time limit."""
    bytes: int = 1 << 20
    """The size limit of each file. The end is kept."""
    needs: tuple[str, ...] = ()
    """Required programs (by name) and files (by absolute path). Without one of them the result is absent."""

    @property
    def most(self) -> int:
        """Return the number of bytes after which a program is stopped, because it may never end."""
        return 8 * self.bytes


@dataclass(frozen=True, slots=True)
class Task:
    """A row that is being gathered from a host."""

    collector: GatherRow
    context: Context
    deadline: Deadline


class GivenMember(msgspec.Struct, frozen=True, rename="camel"):
    """A gathered file, as in the manifest. Sizes are before redaction."""

    path: str
    bytes: int
    dropped_bytes: int


class Gathered(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a row, as in the manifest."""

    name: str
    member: str
    status: GatherStatus
    bytes: int = 0
    """The size of the output, before redaction."""
    seconds: float = 0.0
    dropped_bytes: int = 0
    """The number of bytes that a limit left out of the bundle. Output that a stopped program never wrote does
    not count.
    """
    reason: str | None = None
    """The reason for a status other than given, empty or cut, in one line."""
    files: tuple[GivenMember, ...] = ()


MANIFEST: Final = "manifest.json"
FORMAT_VERSION: Final = 1


def manifest(
    gathered: Iterable[Gathered], *, at: datetime, boot_id: str | None, cursor: str | None
) -> dict[str, object]:
    """Return the document of manifest.json; docs/manifest.schema.json is its schema."""
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

"""Run the rows of the table one after the other, and write their output into a bundle.

Each row runs in its own thread. A row that fails does not affect the others; a thread that hangs, for example
on a dead disk, is abandoned.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from service_record.record.programs import Deadline, program_path
from service_record.version import __version__

if TYPE_CHECKING:
    from service_record.bundle.archive import MemberWriter
    from service_record.bundle.writing import BundleWriter


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


class GatherError(Exception):
    """The output is missing or incomplete. `status` is absent, cut, timed out or failed.

    The message is the reason, in one line.
    """

    def __init__(self, status: GatherStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


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

Source: TypeAlias = Callable[["Task"], Pieces]
"""Yields the pieces of a program's output, a file, the journal, or anything else.

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
    source: Source
    seconds: float = 10
    """The time limit."""
    bytes: int = 1 << 20
    """The size limit of each file. The end is kept."""
    needs: tuple[str, ...] = ()
    """Required programs (by name) and files (by absolute path). Without one of them the result is absent."""


@dataclass(frozen=True, slots=True)
class Task:
    """A row that is being gathered from a host."""

    row: GatherRow
    context: Context
    deadline: Deadline

    @property
    def most(self) -> int:
        """Return the number of bytes after which a program is stopped, because it may never end."""
        return 8 * self.row.bytes

    @property
    def is_late(self) -> bool:
        return self.deadline.seconds_left() == 0


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


def manifest(
    gathered: Iterable[Gathered], *, at: datetime, boot_id: str | None, cursor: str | None
) -> dict[str, object]:
    """Return the document of manifest.json; docs/manifest.schema.json is its schema."""
    return {
        "version": 1,
        "generator": f"service-record/{__version__}",
        "time": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "bootId": boot_id,
        "journalAfterCursor": cursor,
        "collectors": [
            {name: value for name, value in msgspec.to_builtins(each).items() if value is not None}
            for each in gathered
        ],
    }


ROUND_SECONDS: Final = 300.0
"""The default time limit of all rows together."""
_REASON_CHARACTERS: Final = 300


def gather(
    rows: Iterable[GatherRow], context: Context, bundle: "BundleWriter", *, seconds: float = ROUND_SECONDS
) -> tuple[Gathered, ...]:
    """Gather all rows into the bundle within `seconds`, and return their results in the same order.

    An exception of a row becomes its result. An exception of the bundle, or one that a signal handler raises,
    ends the running programs and is raised.
    """
    whole = Deadline(seconds)
    return tuple(_gather_row(row, context, bundle, whole) for row in rows)


def _gather_row(row: GatherRow, context: Context, bundle: "BundleWriter", whole: Deadline) -> Gathered:
    began = time.monotonic()
    members = _Members(row, bundle)
    error = _find_obstacle(row, context, whole)
    if error is None:
        deadline = Deadline(min(row.seconds, whole.seconds_left()))
        task = Task(row, context, deadline)
        with closing(_isolate(lambda: row.source(task), deadline)) as pieces, members.stack:
            try:
                for piece in pieces:
                    members.write(piece)
            except GatherError as raised:
                error = raised
            members.close()
    total = sum(each.bytes for each in members.given)
    dropped = sum(each.dropped_bytes for each in members.given)
    status = GatherStatus.CUT if dropped else GatherStatus.GIVEN if total else GatherStatus.EMPTY
    return Gathered(
        row.name,
        row.member,
        status if error is None else error.status,
        total,
        round(time.monotonic() - began, 3),
        dropped,
        None if error is None else _one_line(str(error)),
        tuple(members.given),
    )


def _find_obstacle(row: GatherRow, context: Context, whole: Deadline) -> GatherError | None:
    """Return the reason why a row is not begun, or None."""
    for need in row.needs:
        is_file = need.startswith("/")
        try:
            if is_file:
                is_there = resolve_in_root(context.root, need).exists()
            else:
                is_there = program_path(need, context.environ) is not None
        except GatherError as error:
            return error
        except OSError as error:
            return GatherError(GatherStatus.FAILED, f"{need}: {error.strerror}")
        if not is_there:
            return GatherError(GatherStatus.ABSENT, f"no {need}" if is_file else f"no program {need}")
    if whole.seconds_left() == 0:
        return GatherError(GatherStatus.TIMED_OUT, "not begun: the time of the whole round was over")
    return None


class _Members:
    """Writes the files of one row. A file is created with its first byte, so that none is empty."""

    def __init__(self, row: GatherRow, bundle: "BundleWriter") -> None:
        self.given: list[GivenMember] = []
        self.stack = ExitStack()
        """The context of the open file."""
        self._row = row
        self._bundle = bundle
        self._begin = Begin(row.member)
        self._writer: MemberWriter | None = None

    def write(self, piece: Piece) -> None:
        if isinstance(piece, Begin):
            self.close()
            self._begin = piece
        elif piece:
            if self._writer is None:
                begin = self._begin
                member = self._bundle.member(
                    begin.member, limit=self._row.bytes, mtime=begin.mtime, opening=begin.opening
                )
                self._writer = self.stack.enter_context(member)
            self._writer.write(piece)

    def close(self) -> None:
        """Close the current file, if one is open."""
        self.stack.close()
        if self._writer is not None:
            skipped, written = self._begin.skipped, self._writer.written_bytes
            self.given.append(GivenMember(self._begin.member, skipped + written, skipped + self._writer.cut))
        self._writer = None


def _one_line(text: str) -> str:
    """Return the text as one printable line of at most 300 characters."""
    plain = " ".join(text.split())
    printable = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in plain)
    return printable if len(printable) <= _REASON_CHARACTERS else printable[: _REASON_CHARACTERS - 1] + "…"


_GRACE_SECONDS: Final = 3.0
"""The time after its deadline in which a thread has to end its programs before it is abandoned."""
_QUEUE_LENGTH: Final = 4
_POLL_SECONDS: Final = 0.2
_LOWEST_PRIORITY: Final = 19

_Item: TypeAlias = Piece | BaseException | None
"""A piece; an exception or None is the last item."""


def _isolate(make: Callable[[], Pieces], deadline: Deadline) -> Pieces:
    """Run `make` in a thread of the lowest priority, and yield its pieces. Raises GatherError.

    It does that if the thread cannot start, for each exception of the thread, and if the thread is still
    running some seconds after the deadline; it is abandoned then. Closing this generator makes the deadline
    expire at once.
    """
    is_abandoned = threading.Event()
    pieces: queue.Queue[_Item] = queue.Queue(_QUEUE_LENGTH)
    thread = threading.Thread(target=_run, args=(make, pieces, is_abandoned), daemon=True)
    try:
        # Inside `try`: a signal handler may raise while start() waits, although the thread already runs.
        try:
            thread.start()
        except RuntimeError as error:  # the limit of tasks or memory is reached
            raise GatherError(GatherStatus.FAILED, f"{type(error).__name__}: {error}") from error
        yield from _receive(pieces, deadline)
    finally:
        is_abandoned.set()
        deadline.cut_short()
        with suppress(RuntimeError):  # never started; if it still starts, it sees is_abandoned
            thread.join(max(_GRACE_SECONDS - deadline.passed(), 0))


def _receive(pieces: "queue.Queue[_Item]", deadline: Deadline) -> Iterator[Piece]:
    # After the deadline, take the items that are already in the queue: they were made in time.
    late = 0
    while late <= _QUEUE_LENGTH + 1:
        remaining = _GRACE_SECONDS + deadline.seconds_left() - deadline.passed()
        late += remaining <= 0
        try:
            item = pieces.get(timeout=max(remaining, 0))
        except queue.Empty:
            break
        if item is None:
            return
        if isinstance(item, GatherError):
            raise item
        if isinstance(item, BaseException):
            raise GatherError(GatherStatus.FAILED, f"{type(item).__name__}: {item}") from item
        yield item
    raise GatherError(GatherStatus.TIMED_OUT, "hung, and could not be stopped")


def _run(make: Callable[[], Pieces], output: "queue.Queue[_Item]", is_abandoned: threading.Event) -> None:
    with suppress(OSError):  # Linux: of this thread only, and its child processes; see setpriority(2), NOTES
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
    if is_abandoned.is_set():
        return
    end: _Item = None
    try:
        pieces = make()
        for piece in pieces:
            if not _hand_over(piece, output, is_abandoned):
                pieces.close()
                return
    except BaseException as error:  # noqa: BLE001  # raised again in the receiving thread
        end = error
    _hand_over(end, output, is_abandoned)


def _hand_over(item: _Item, pieces: "queue.Queue[_Item]", is_abandoned: threading.Event) -> bool:
    """Put the item into the queue, and return True; return False if the receiver has abandoned the thread."""
    while not is_abandoned.is_set():
        with suppress(queue.Full):
            pieces.put(item, timeout=_POLL_SECONDS)
            return True
    return False


_MAX_LINKS: Final = 40  # the limit of the kernel; see path_resolution(7)


def resolve_in_root(root: Path, path: str) -> Path:
    """Return the real path, below `root`, of an absolute path of the host.

    Links are resolved as on the host itself, so none leads outside `root`. Raises GatherError after 40 links.
    """
    rest = _components(path)
    place, links = root, 0
    while rest:
        step = rest.pop()
        if step == "..":
            place = place if place == root else place.parent
            continue
        try:
            target = os.readlink(place / step)  # noqa: PTH115  # Path.readlink() would normalise slashes
        except OSError:  # no link
            place /= step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise GatherError(GatherStatus.FAILED, f"{path}: too many links, or links in a circle")
        place = root if target.startswith("/") else place
        rest += _components(target)
    return place


def _components(path: str) -> list[str]:
    """Return the components of a path, the last one first."""
    return [step for step in reversed(path.split("/")) if step not in ("", ".")]

"""Run the rows of the table one after the other, and write their output into a bundle.

Each row runs in its own thread. A row that fails does not affect the others; a thread that hangs, for example
on a dead disk, is abandoned.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from service_record.record.programs import Deadline, program_path
from service_record.reporter.gather.files import resolve_in_root
from service_record.reporter.gather.model import (
    Begin,
    Context,
    Gathered,
    GatherError,
    GatherRow,
    GatherStatus,
    GivenMember,
    Piece,
    Pieces,
    Task,
)

if TYPE_CHECKING:
    from service_record.bundle.archive import MemberWriter
    from service_record.bundle.writing import BundleWriter

_GRACE_SECONDS: Final = 3.0
"""The time after its deadline in which a thread has to end its programs before it is abandoned."""
_QUEUE_LENGTH: Final = 4
_POLL_SECONDS: Final = 0.2
_LOWEST_PRIORITY: Final = 19

_Item: TypeAlias = Piece | BaseException | None
"""A piece; an exception or None is the last item."""


def isolated(make: Callable[[], Pieces], deadline: Deadline) -> Pieces:
    """Run `make` in a thread of the lowest priority. Yield its pieces, and raise its exceptions.

    Raises GatherError if the thread is still running some seconds after the deadline; it is abandoned then.
    Closing this generator makes the deadline expire at once.
    """
    is_abandoned = threading.Event()
    pieces: queue.Queue[_Item] = queue.Queue(_QUEUE_LENGTH)
    thread = threading.Thread(target=_run, args=(make, pieces, is_abandoned), daemon=True)
    try:
        # Inside `try`: a signal handler may raise while start() waits, although the thread already runs.
        thread.start()
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
        if isinstance(item, BaseException):
            raise item
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


ROUND_SECONDS: Final = 300.0
"""The default time limit of all rows together."""

_REASON_CHARACTERS: Final = 300


def gather(
    collectors: Iterable[GatherRow],
    context: Context,
    bundle: "BundleWriter",
    *,
    seconds: float = ROUND_SECONDS,
) -> tuple[Gathered, ...]:
    """Gather all rows into the bundle within `seconds`, and return their results in the same order.

    An exception of a row becomes its result. An exception of the bundle, or one that a signal handler raises,
    ends the running programs and is raised.
    """
    whole = Deadline(seconds)
    return tuple(_gather_row(collector, context, bundle, whole) for collector in collectors)


def _gather_row(collector: GatherRow, context: Context, bundle: "BundleWriter", whole: Deadline) -> Gathered:
    began = time.monotonic()
    files = _Files(collector, bundle)
    end = _find_obstacle(collector, context, whole)
    if end is None:
        deadline = Deadline(min(collector.seconds, whole.seconds_left()))
        end = _write_row(Task(collector, context, deadline), files)
    total = sum(each.bytes for each in files.given)
    dropped = sum(each.dropped_bytes for each in files.given)
    status = GatherStatus.CUT if dropped else GatherStatus.GIVEN if total else GatherStatus.EMPTY
    return Gathered(
        collector.name,
        collector.member,
        status if end is None else end.status,
        total,
        round(time.monotonic() - began, 3),
        dropped,
        None if end is None else _one_line(str(end)),
        tuple(files.given),
    )


def _find_obstacle(collector: GatherRow, context: Context, whole: Deadline) -> GatherError | None:
    try:
        missing = next((need for need in collector.needs if not _is_there(need, context)), None)
    except GatherError as error:
        return error
    if missing is not None:
        what = missing if missing.startswith("/") else f"program {missing}"
        return GatherError(GatherStatus.ABSENT, f"no {what}")
    if whole.seconds_left() == 0:
        return GatherError(GatherStatus.TIMED_OUT, "not begun: the time of the whole round was over")
    return None


def _is_there(need: str, context: Context) -> bool:
    if need.startswith("/"):
        return resolve_in_root(context.root, need).exists()
    return program_path(need, context.environ) is not None


def _write_row(task: Task, files: "_Files") -> GatherError | None:
    """Write the output of a row. Return the error that ended it early, or None."""
    isolated_pieces = isolated(lambda: task.collector.take(task), task.deadline)
    with closing(isolated_pieces) as pieces, files.members:
        end = _write_pieces(pieces, files)
        files.close()
        return end


def _write_pieces(pieces: Pieces, files: "_Files") -> GatherError | None:
    while True:
        try:
            piece = next(pieces, None)
        except GatherError as error:
            return error
        except Exception as error:  # noqa: BLE001  # a row must not end the round
            return GatherError(GatherStatus.FAILED, f"{type(error).__name__}: {error}")
        if piece is None:
            return None
        files.take(piece)


class _Files:
    """Writes the files of one row. A file is created with its first byte, so that none is empty."""

    def __init__(self, collector: GatherRow, bundle: "BundleWriter") -> None:
        self.given: list[GivenMember] = []
        self._collector = collector
        self._bundle = bundle
        self._begin = Begin(collector.member)
        self._bytes = 0
        self._member: MemberWriter | None = None
        self.members = ExitStack()

    def take(self, piece: Piece) -> None:
        if isinstance(piece, Begin):
            self.close()
            self._begin = piece
        elif piece:
            if self._member is None:
                begin, limit = self._begin, self._collector.bytes
                member = self._bundle.member(
                    begin.member, limit=limit, mtime=begin.mtime, opening=begin.opening
                )
                self._member = self.members.enter_context(member)
            self._member.write(piece)
            self._bytes += len(piece)

    def close(self) -> None:
        """Close the current file, if one is open."""
        self.members.close()
        if self._member is not None:
            skipped = self._begin.skipped
            self.given.append(
                GivenMember(self._begin.member, skipped + self._bytes, skipped + self._member.cut)
            )
        self._member, self._bytes = None, 0


def _one_line(text: str) -> str:
    """Return the text as one printable line of at most 300 characters."""
    plain = " ".join(text.split())
    printable = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in plain)
    return printable if len(printable) <= _REASON_CHARACTERS else printable[: _REASON_CHARACTERS - 1] + "…"

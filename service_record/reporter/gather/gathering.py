"""Runs one collector after the other, into a bundle: none can end the others, or hold them up for long.

Pieces are made in a thread that may hang, and is then left behind.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from typing import Final, TypeAlias

from service_record.read.programs import Deadline, program_path
from service_record.reporter.gather.files import below
from service_record.reporter.gather.model import (
    Begin,
    Context,
    Gathered,
    GatheredBundle,
    GatheredMember,
    GatherError,
    GatherRow,
    GatherStatus,
    GivenMember,
    Piece,
    Pieces,
    Task,
)

_GRACE_SECONDS: Final = 3.0
"""The time that a thread has, after its deadline, to end what it started."""
_HELD_PIECES: Final = 4
_LOOK_SECONDS: Final = 0.2
_LOWEST_PRIORITY: Final = 19

_Item: TypeAlias = Piece | BaseException | None
"""A piece or an exception; None at the end."""


def isolated(make: Callable[[], Pieces], deadline: Deadline) -> Pieces:
    """Return the pieces that `make` gives in a thread of the lowest priority, and what it raises.

    Raises GatherError when the thread goes on long after the deadline: it is left behind. When this
    generator is closed, the deadline is now.
    """
    is_abandoned = threading.Event()
    pieces: queue.Queue[_Item] = queue.Queue(_HELD_PIECES)
    thread = threading.Thread(target=_work, args=(make, pieces, is_abandoned), daemon=True)
    try:
        thread.start()  # in here: a signal may come when it has started a program, and this has not returned
        yield from _received(pieces, deadline)
    finally:
        is_abandoned.set()
        deadline.cut_short()
        with suppress(RuntimeError):  # it has not begun; once it does, it finds that nobody waits
            thread.join(max(_GRACE_SECONDS - deadline.passed(), 0))


def _received(pieces: "queue.Queue[_Item]", deadline: Deadline) -> Iterator[Piece]:
    late = 0
    while late <= _HELD_PIECES + 1:  # of those that were made in time, and taken slowly
        retry_policy = _GRACE_SECONDS + deadline.seconds_left() - deadline.passed()
        late += retry_policy <= 0
        try:
            item = pieces.get(timeout=max(retry_policy, 0))
        except queue.Empty:
            break
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item
    raise GatherError(GatherStatus.TIMED_OUT, "hung, and could not be stopped")


def _work(make: Callable[[], Pieces], output: "queue.Queue[_Item]", is_abandoned: threading.Event) -> None:
    with suppress(OSError):  # of this thread alone; what it starts inherits it; see setpriority(2), NOTES
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
    if is_abandoned.is_set():
        return
    end: _Item = None
    try:
        pieces = make()
        for piece in pieces:
            if not _handed_over(piece, output, is_abandoned):
                pieces.close()
                return
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is told where somebody waits
        end = error
    _handed_over(end, output, is_abandoned)


def _handed_over(item: _Item, pieces: "queue.Queue[_Item]", is_abandoned: threading.Event) -> bool:
    """Return whether somebody took it, who may be slower than we are."""
    while not is_abandoned.is_set():
        with suppress(queue.Full):
            pieces.put(item, timeout=_LOOK_SECONDS)
            return True
    return False


ROUND_SECONDS: Final = 300.0
"""The default time limit of all collectors together."""

_REASON_CHARACTERS: Final = 300


def gather(
    collectors: Iterable[GatherRow],
    context: Context,
    bundle: GatheredBundle,
    *,
    seconds: float = ROUND_SECONDS,
) -> tuple[Gathered, ...]:
    """Return the result of each collector, in their order, after all had `seconds` together.

    What a collector raises is its own failure. What the bundle raises is raised, and ends what runs; so does
    SIGINT, and SIGTERM where the caller has it raise something.
    """
    whole = Deadline(seconds)
    return tuple(_gathered(collector, context, bundle, whole) for collector in collectors)


def _gathered(collector: GatherRow, context: Context, bundle: GatheredBundle, whole: Deadline) -> Gathered:
    began = time.monotonic()
    files = _Files(collector, bundle)
    end = _obstacle(collector, context, whole)
    if end is None:
        deadline = Deadline(min(collector.seconds, whole.seconds_left()))
        end = _all_pieces(Task(collector, context, deadline), files)
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
        None if end is None else _in_one_line(str(end)),
        tuple(files.given),
    )


def _obstacle(collector: GatherRow, context: Context, whole: Deadline) -> GatherError | None:
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
        return below(context.root, need).exists()
    return program_path(need, context.environ) is not None


def _all_pieces(task: Task, files: "_Files") -> GatherError | None:
    """Write all that it gives; return what ended it early."""
    isolated_pieces = isolated(lambda: task.collector.take(task), task.deadline)
    with closing(isolated_pieces) as pieces, files.members:
        end = _written(pieces, files)
        files.close()
        return end


def _written(pieces: Pieces, files: "_Files") -> GatherError | None:
    while True:
        try:
            piece = next(pieces, None)
        except GatherError as error:
            return error
        except Exception as error:  # noqa: BLE001  # a collector is never the end of a round
            return GatherError(GatherStatus.FAILED, f"{type(error).__name__}: {error}")
        if piece is None:
            return None
        files.take(piece)


class _Files:
    """The files of one collector, each made in the bundle as soon as there is something in it."""

    def __init__(self, collector: GatherRow, bundle: GatheredBundle) -> None:
        self.given: list[GivenMember] = []
        self._collector = collector
        self._bundle = bundle
        self._begin = Begin(collector.member)
        self._bytes = 0
        self._member: GatheredMember | None = None
        self.members = ExitStack()

    def take(self, piece: Piece) -> None:
        if isinstance(piece, Begin):
            self.close()
            self._begin = piece
        elif piece:
            self._opened().write(piece)
            self._bytes += len(piece)

    def _opened(self) -> GatheredMember:
        if self._member is None:
            self._member = self.members.enter_context(self._begun(self._begin, self._collector.bytes))
        return self._member

    def _begun(self, begin: Begin, limit: int) -> AbstractContextManager[GatheredMember]:
        if begin.opening is None:
            return self._bundle.member(begin.member, limit=limit, mtime=begin.mtime)
        return self._bundle.member(begin.member, limit=limit, mtime=begin.mtime, opening=begin.opening)

    def close(self) -> None:
        """End the file that is being written, if one is."""
        self.members.close()
        if self._member is not None:
            skipped = self._begin.skipped
            self.given.append(
                GivenMember(self._begin.member, skipped + self._bytes, skipped + self._member.cut)
            )
        self._member, self._bytes = None, 0


def _in_one_line(text: str) -> str:
    """Return a text fit for a manifest: printable, in one line, and not long."""
    plain = " ".join(text.split())
    printable = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in plain)
    return printable if len(printable) <= _REASON_CHARACTERS else printable[: _REASON_CHARACTERS - 1] + "…"

"""One collector after the other, into a bundle: none can end the others, or hold them up for long."""

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from types import FrameType
from typing import Final

from service_record.reporter.gather.deadline import Deadline
from service_record.reporter.gather.files import below
from service_record.reporter.gather.isolation import isolated
from service_record.reporter.gather.model import (
    Begin,
    Bundle,
    Collector,
    Context,
    Gathered,
    GatherError,
    Given,
    Member,
    Piece,
    Pieces,
    Status,
    Task,
)
from service_record.reporter.gather.running import found

ROUND_SECONDS: Final = 300.0
"""For all collectors together, unless told otherwise."""

_REASON_CHARACTERS: Final = 300


def gather(
    collectors: Iterable[Collector], context: Context, bundle: Bundle, *, seconds: float = ROUND_SECONDS
) -> tuple[Gathered, ...]:
    """What became of each collector, in their order, after all had `seconds` together.

    What a collector raises is its own failure. What the bundle raises is raised, and ends what runs; so do
    SIGINT, and SIGTERM where nobody else handles it, which raises SystemExit(143) then.
    """
    whole = Deadline(seconds)
    with _sigterm_raises():
        return tuple(_gathered(collector, context, bundle, whole) for collector in collectors)


def _gathered(collector: Collector, context: Context, bundle: Bundle, whole: Deadline) -> Gathered:
    began = time.monotonic()
    files = _Files(collector, bundle)
    end = _obstacle(collector, context, whole)
    if end is None:
        deadline = Deadline(min(collector.seconds, whole.left()))
        end = _all_pieces(Task(collector, context, deadline), files)
    given = sum(each.bytes for each in files.given)
    dropped = sum(each.dropped_bytes for each in files.given)
    status = Status.CUT if dropped else Status.GIVEN if given else Status.EMPTY
    return Gathered(
        collector.name,
        collector.member,
        status if end is None else end.status,
        given,
        round(time.monotonic() - began, 3),
        dropped,
        None if end is None else _in_one_line(str(end)),
        tuple(files.given),
    )


def _obstacle(collector: Collector, context: Context, whole: Deadline) -> GatherError | None:
    try:
        missing = next((need for need in collector.needs if not _is_there(need, context)), None)
    except GatherError as error:
        return error
    if missing is not None:
        what = missing if missing.startswith("/") else f"program {missing}"
        return GatherError(Status.ABSENT, f"no {what}")
    if whole.left() == 0:
        return GatherError(Status.TIMED_OUT, "not begun: the time of the whole round was over")
    return None


def _is_there(need: str, context: Context) -> bool:
    if need.startswith("/"):
        return below(context.root, need).exists()
    return found(need, context.environ) is not None


def _all_pieces(task: Task, files: "_Files") -> GatherError | None:
    """Write all that it gives; return what ended it early."""
    made = isolated(lambda: task.collector.take.pieces(task), task.deadline)
    with closing(made) as pieces, files.members:
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
            return GatherError(Status.FAILED, f"{type(error).__name__}: {error}")
        if piece is None:
            return None
        files.take(piece)


class _Files:
    """The files of one collector, each made in the bundle as soon as there is something in it."""

    def __init__(self, collector: Collector, bundle: Bundle) -> None:
        self.given: list[Given] = []
        self._collector = collector
        self._bundle = bundle
        self._begin = Begin(collector.member)
        self._bytes = 0
        self._member: Member | None = None
        self.members = ExitStack()

    def take(self, piece: Piece) -> None:
        if isinstance(piece, Begin):
            self.close()
            self._begin = piece
        elif piece:
            self._opened().write(piece)
            self._bytes += len(piece)

    def _opened(self) -> Member:
        if self._member is None:
            self._member = self.members.enter_context(self._begun(self._begin, self._collector.bytes))
        return self._member

    def _begun(self, begin: Begin, limit: int) -> AbstractContextManager[Member]:
        if begin.opening is None:
            return self._bundle.member(begin.member, limit=limit, mtime=begin.mtime)
        return self._bundle.member(begin.member, limit=limit, mtime=begin.mtime, opening=begin.opening)

    def close(self) -> None:
        """End the file that is being written, if one is."""
        self.members.close()
        if self._member is not None:
            skipped = self._begin.skipped
            self.given.append(Given(self._begin.member, skipped + self._bytes, skipped + self._member.cut))
        self._member, self._bytes = None, 0


def _in_one_line(text: str) -> str:
    """As it may stand in a manifest: printable, and not long."""
    plain = " ".join(text.split())
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in plain)
    return shown if len(shown) <= _REASON_CHARACTERS else shown[: _REASON_CHARACTERS - 1] + "…"


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Where SIGTERM would kill us and leave behind what runs, it raises SystemExit instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)

"""Pieces made in a thread that may hang, and is then left behind."""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

from service_record.reporter.gather.deadline import Deadline
from service_record.reporter.gather.model import GatherError, Piece, Pieces, Status

_GRACE_SECONDS: Final = 3.0
"""What a thread has, after its deadline, to end what it started."""
_HELD_PIECES: Final = 4
_LOOK_SECONDS: Final = 0.2
_LOWEST_PRIORITY: Final = 19

_Item: TypeAlias = Piece | BaseException | None
"""None at the end."""


def isolated(make: Callable[[], Pieces], deadline: Deadline) -> Pieces:
    """The pieces that `make` gives in a thread of the lowest priority, and what it raises.

    Raises GatherError when the thread goes on long after the deadline: it is left behind. When this
    generator is closed, the deadline is now.
    """
    gone = threading.Event()
    held: queue.Queue[_Item] = queue.Queue(_HELD_PIECES)
    thread = threading.Thread(target=_work, args=(make, held, gone), daemon=True)
    try:
        thread.start()  # in here: a signal may come when it has started a program, and this has not returned
        yield from _received(held, deadline)
    finally:
        gone.set()
        deadline.cut_short()
        with suppress(RuntimeError):  # it has not begun; once it does, it finds that nobody waits
            thread.join(max(_GRACE_SECONDS - deadline.passed(), 0))


def _received(held: "queue.Queue[_Item]", deadline: Deadline) -> Iterator[Piece]:
    late = 0
    while late <= _HELD_PIECES + 1:  # of those that were made in time, and taken slowly
        patience = _GRACE_SECONDS + deadline.left() - deadline.passed()
        late += patience <= 0
        try:
            item = held.get(timeout=max(patience, 0))
        except queue.Empty:
            break
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item
    raise GatherError(Status.TIMED_OUT, "hung, and could not be stopped")


def _work(make: Callable[[], Pieces], held: "queue.Queue[_Item]", gone: threading.Event) -> None:
    with suppress(OSError):  # of this thread alone; what it starts inherits it; see setpriority(2), NOTES
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
    if gone.is_set():
        return
    end: _Item = None
    try:
        pieces = make()
        for piece in pieces:
            if not _handed_over(piece, held, gone):
                pieces.close()
                return
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is told where somebody waits
        end = error
    _handed_over(end, held, gone)


def _handed_over(item: _Item, held: "queue.Queue[_Item]", gone: threading.Event) -> bool:
    """Whether somebody took it, who may be slower than we are."""
    while not gone.is_set():
        with suppress(queue.Full):
            held.put(item, timeout=_LOOK_SECONDS)
            return True
    return False

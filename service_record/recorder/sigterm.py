"""SIGTERM, told to the record before it kills."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType


class Sigterm:
    """While installed, SIGTERM calls `record` with the frame it interrupts, and then kills as it would have.

    Only where nothing else handles SIGTERM, and only from the main thread: there the interpreter runs its
    handlers, between two bytecodes, so that a long call into C delays the death (see the `signal` module).
    """

    def __init__(self, record: Callable[[FrameType | None], None]) -> None:
        self._record = record
        self._pid: int | None = None

    def install(self) -> None:
        self._pid = os.getpid()
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            with suppress(ValueError):  # not in the main thread
                signal.signal(signal.SIGTERM, self._handle)

    def remove(self) -> None:
        """Put the default back, unless the service has a handler of its own by now."""
        if signal.getsignal(signal.SIGTERM) == self._handle:
            with suppress(ValueError):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        try:
            if os.getpid() == self._pid:  # in a forked child the run is its parent's
                self._record(frame)
        finally:
            os.kill(os.getpid(), number)

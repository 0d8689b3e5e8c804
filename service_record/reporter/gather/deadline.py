"""How long something may still take."""

import time


class Deadline:
    """A moment, on the monotonic clock, that any thread may bring forward to now."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds, 0 from the deadline on."""
        return max(self._until - time.monotonic(), 0.0)

    def passed(self) -> float:
        """Seconds since the deadline, 0 before it."""
        return max(time.monotonic() - self._until, 0.0)

    def cut_short(self) -> None:
        """It is now, if it was not before."""
        self._until = min(self._until, time.monotonic())

"""How long something may still take."""

import time
from typing import Self


class Deadline:
    """A moment, on the monotonic clock, that any thread may bring forward to now."""

    def __init__(self, seconds: float, outer: Self | None = None) -> None:
        """So many seconds from now, but not behind `outer`, whatever becomes of that."""
        self._until = time.monotonic() + seconds
        self._outer = outer

    def left(self) -> float:
        """Seconds, 0 from the deadline on."""
        return max(self.moment() - time.monotonic(), 0.0)

    def passed(self) -> float:
        """Seconds since the deadline, 0 before it."""
        return max(time.monotonic() - self.moment(), 0.0)

    def cut_short(self) -> None:
        """It is now, if it was not before."""
        self._until = min(self._until, time.monotonic())

    def moment(self) -> float:
        """When it is, as time.monotonic() tells it."""
        return self._until if self._outer is None else min(self._until, self._outer.moment())

"""Counts refused reports, for the page of the fleet."""

import threading
import time
from collections import deque
from typing import Final

_SPAN_SECONDS: Final = 3600
_SLOT_SECONDS: Final = 60


class Refusals:
    """Counts the reports that this process refused in the last hour because of its limits. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: deque[tuple[int, int]] = deque()
        """Minutes of the monotonic clock, and the number of refusals in each."""

    def count(self, number: int = 1) -> None:
        """Count refused reports."""
        slot = int(time.monotonic() // _SLOT_SECONDS)
        with self._lock:
            before = self._slots.pop()[1] if self._slots and self._slots[-1][0] == slot else 0
            self._slots.append((slot, before + number))
            self._drop_old(slot)

    def recent(self) -> int:
        """Return the number of reports that were refused within the last hour."""
        with self._lock:
            self._drop_old(int(time.monotonic() // _SLOT_SECONDS))
            return sum(count for _, count in self._slots)

    def _drop_old(self, slot: int) -> None:
        while self._slots and self._slots[0][0] <= slot - _SPAN_SECONDS // _SLOT_SECONDS:
            self._slots.popleft()

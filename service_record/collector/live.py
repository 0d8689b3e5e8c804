"""Tells whoever waits that something changed."""

import asyncio
import threading


class News:
    """Wakes those who wait, of any event loop; told from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def tell(self) -> None:
        """Something changed."""
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def subscribe(self) -> asyncio.Event:
        """An event that is set, once, by the next news."""
        event = asyncio.Event()
        with self._lock:
            self._waiting.add((asyncio.get_running_loop(), event))
        return event

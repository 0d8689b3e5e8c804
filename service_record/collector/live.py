"""Tells whoever waits that something changed."""

import asyncio
import threading
from collections.abc import Callable


class News:
    """Wakes those who wait, of any event loop; told from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._listeners: list[Callable[[], None]] = []

    def tell(self) -> None:
        """Something changed."""
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have this called with all news, by whoever tells them; it has to be quick."""
        self._listeners.append(listener)

    def subscribe(self) -> asyncio.Event:
        """An event that is set, once, by the next news."""
        event = asyncio.Event()
        with self._lock:
            self._waiting.add((asyncio.get_running_loop(), event))
        return event

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
        self._is_over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether nothing is told any more: whoever waits for news without an end is to leave."""
        return self._is_over.is_set()

    def end(self) -> None:
        """The last news: the process is shutting down."""
        self._is_over.set()
        self.tell()

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
        if self.is_over:
            event.set()
        with self._lock:
            self._waiting.add((asyncio.get_running_loop(), event))
        return event

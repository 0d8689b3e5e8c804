"""Report steps to running collectors from several threads, and count the answers."""

import contextlib
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from service_record.collector.domain.access import TokenKind
from service_record.collector.store import tokens as token_store
from service_record.collector.store.database import Database

_PAUSE_SECONDS: Final = 0.025
"""Time between two reports of a host. At this rate, a host stays within its limit of 50 requests a second."""
_TIMEOUT_SECONDS: Final = 300.0


@dataclass(slots=True)
class Load:
    """The reports of all threads, and their answers."""

    sent: set[str] = field(default_factory=set)
    """Names of all reported steps, acknowledged or not."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Name of an acknowledged step -> its id."""
    statuses: dict[int, int] = field(default_factory=dict)
    """HTTP status -> number of answers."""
    retries: list[str | None] = field(default_factory=list)
    """The `Retry-After` header of each answer with status 503."""
    seconds: list[float] = field(default_factory=list)
    """Time from the request to the answer, for each answer."""
    broken: int = 0
    """Requests without an answer."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _more: threading.Condition = field(default_factory=threading.Condition)

    def wait_for_more(self, count: int, status: int = 201) -> None:
        """Wait for `count` more answers with this status."""
        wanted = self.statuses.get(status, 0) + count
        self._wait(lambda: self.statuses.get(status, 0) >= wanted)

    def wait_for_broken(self, count: int) -> None:
        """Wait until `count` requests in all had no answer."""
        self._wait(lambda: self.broken >= count)

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        with self._more:
            assert self._more.wait_for(is_enough, _TIMEOUT_SECONDS), self.statuses

    def report(self, connection: http.client.HTTPConnection, token: str, host: str, name: str) -> None:
        """Report one step, and note its answer."""
        with self._lock:
            self.sent.add(name)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        began = time.monotonic()
        try:
            connection.request("POST", f"/api/v1/hosts/{host}/steps", json.dumps({"name": name}), headers)
            response = connection.getresponse()
            body: dict[str, Any] = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()
            with self._lock:
                self.broken += 1
        else:
            with self._lock:
                self.seconds.append(time.monotonic() - began)
                self.statuses[response.status] = self.statuses.get(response.status, 0) + 1
                if response.status == 201:
                    self.acknowledged[name] = body["id"]
                elif response.status == 503:
                    self.retries.append(response.headers["Retry-After"])
        with self._more:
            self._more.notify_all()


def create_admin_tokens(database: Database, count: int = 16) -> list[str]:
    new = token_store.TokenRequest(kind=TokenKind.ADMIN)
    with database.changing() as connection:
        return [token_store.create(connection, new, time.time()) for _ in range(count)]


@contextlib.contextmanager
def load(urls: Sequence[str], tokens: Sequence[str], hosts: int = 0) -> Iterator[Load]:
    """Report steps with each token, in a thread of its own, until the end of the block.

    Threads report to the URLs in turn, each for a host of its own. With `hosts`, only that number of hosts is
    used, so several threads report for the same host, possibly to different collectors.
    """
    reported = Load()
    is_over = threading.Event()
    run = os.urandom(4).hex()

    def report_steps(number: int) -> None:
        address = urlsplit(urls[number % len(urls)])
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        count = 0
        while not is_over.is_set():
            reported.report(
                connection,
                tokens[number],
                f"host{number % (hosts or len(tokens))}",
                f"{run} {number} {count}",
            )
            count += 1
            is_over.wait(_PAUSE_SECONDS)
        connection.close()

    threads = [threading.Thread(target=report_steps, args=(number,)) for number in range(len(tokens))]
    for thread in threads:
        thread.start()
    try:
        yield reported
    finally:
        is_over.set()
        for thread in threads:
            thread.join()

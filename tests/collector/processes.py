"""Hosts that only report, and the tokens for it."""

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

_PAUSE: Final = 0.025
"""Seconds between two reports of a host: so often may it report for ever."""
_LONGEST: Final = 300.0
"""Seconds that anything may take here before it is wrong."""


@dataclass(slots=True)
class Load:
    """Reports of hosts that do nothing else, over a connection each."""

    sent: set[str] = field(default_factory=set)
    """Names of steps that were reported, acknowledged or not."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Names of steps -> the ids with which they were acknowledged."""
    statuses: dict[int, int] = field(default_factory=dict)
    """Of all answers -> how many."""
    retries: list[str | None] = field(default_factory=list)
    """Retry-After of the answers of 503."""
    seconds: list[float] = field(default_factory=list)
    """Times of the answers."""
    broken: int = 0
    """Requests without an answer."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _more: threading.Condition = field(default_factory=threading.Condition)

    def wait_for_more(self, count: int, status: int = 201) -> None:
        """Until so many more answers of this status have come."""
        wanted = self.statuses.get(status, 0) + count
        self._wait(lambda: self.statuses.get(status, 0) >= wanted)

    def wait_for_broken(self, count: int) -> None:
        """Until so many requests had no answer."""
        self._wait(lambda: self.broken >= count)

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        with self._more:
            assert self._more.wait_for(is_enough, _LONGEST), self.statuses

    def report(self, connection: http.client.HTTPConnection, token: str, host: str, name: str) -> None:
        """Report one step."""
        with self._lock:
            self.sent.add(name)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        begun = time.monotonic()
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
                self.seconds.append(time.monotonic() - begun)
                self.statuses[response.status] = self.statuses.get(response.status, 0) + 1
                if response.status == 201:
                    self.acknowledged[name] = body["id"]
                elif response.status == 503:
                    self.retries.append(response.headers["Retry-After"])
        with self._more:
            self._more.notify_all()


def tokens_in(database: Database, count: int = 16) -> list[str]:
    """New tokens of administrators."""
    new = token_store.TokenRequest(kind=TokenKind.ADMIN)
    with database.changing() as connection:
        return [token_store.create(connection, new, time.time()) for _ in range(count)]


@contextlib.contextmanager
def load(urls: Sequence[str], tokens: Sequence[str], hosts: int = 0) -> Iterator[Load]:
    """A host for each token, which reports one step after the other, until the end of the block.

    With `hosts` only so many of them: each reports over several connections, to several collectors.
    """
    going = Load()
    is_over = threading.Event()
    run = os.urandom(4).hex()

    def reports(number: int) -> None:
        address = urlsplit(urls[number % len(urls)])
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        count = 0
        while not is_over.is_set():
            going.report(
                connection,
                tokens[number],
                f"host{number % (hosts or len(tokens))}",
                f"{run} {number} {count}",
            )
            count += 1
            is_over.wait(_PAUSE)
        connection.close()

    threads = [threading.Thread(target=reports, args=(number,)) for number in range(len(tokens))]
    for thread in threads:
        thread.start()
    try:
        yield going
    finally:
        is_over.set()
        for thread in threads:
            thread.join()

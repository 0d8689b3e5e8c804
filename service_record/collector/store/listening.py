"""News of other processes on the same PostgreSQL, by its LISTEN and NOTIFY."""

import contextlib
import os
import secrets
import select
import threading
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Connection, func
from sqlalchemy import select as selected

from service_record.collector.store.database import Database

_CHANNEL: Final = "service_record_collector"
_AGAIN: Final = 1.0
"""Seconds until a lost connection is made anew."""
_ALIVE: Final = "connect_timeout=5 keepalives_idle=30 keepalives_interval=10 keepalives_count=3"
"""So that a server that is gone without a word is noticed; libpq's settings."""


class Listening:
    """A thread that tells what other processes have changed. Close it."""

    def __init__(self, database: Database, tell: Callable[[], None]) -> None:
        url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._settings = make_conninfo(url, **conninfo_to_dict(_ALIVE))
        self._tell = tell
        self._name = secrets.token_hex(8)
        self._wake, self._close = os.pipe()
        self._thread = threading.Thread(target=self._run, name="listening")
        self._thread.start()

    def announce(self, connection: Connection) -> None:
        """Have the others told when this transaction is on disk."""
        connection.execute(selected(func.pg_notify(_CHANNEL, self._name)))

    def close(self) -> None:
        """Listen no more."""
        os.close(self._close)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        while True:
            with contextlib.suppress(psycopg.Error):
                if self._listen():
                    return
            if self._is_closed(_AGAIN):
                return

    def _listen(self) -> bool:
        """Tell all that comes; whether it is over because this was closed. Raises psycopg.Error."""
        with psycopg.connect(self._settings, autocommit=True) as connection:
            connection.execute(f"LISTEN {_CHANNEL}")
            self._tell()  # something may have changed while nobody listened
            while not self._is_closed(None, connection.fileno()):
                if {news.payload for news in connection.notifies(timeout=0)} - {self._name}:
                    self._tell()
        return True

    def _is_closed(self, seconds: float | None, *also: int) -> bool:
        """Wait so long, or until one of these can be read; whether this was closed meanwhile."""
        poll = select.poll()
        for descriptor in (self._wake, *also):
            poll.register(descriptor, select.POLLIN)
        found = poll.poll(None if seconds is None else seconds * 1000)
        return any(descriptor == self._wake for descriptor, _ in found)

"""The thread that judges the records which hosts send live: soon after news, and again while they run."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.background import Background
from service_record.collector.looking import look
from service_record.collector.store import bundles, records
from service_record.collector.store.database import Database
from service_record.collector.store.writer import Unavailable, Writer
from service_record.layout import read_stretches

_PAUSE: Final = 2.0
"""Seconds between two looks at the records of a host."""
_AGAIN: Final = 60.0
"""Seconds after which records are looked at again in which something runs: it may be too long by then."""
_MOST_SERVICE: Final = 2 << 20
"""Bytes of the end of one record that are judged."""
_MOST_HOST: Final = 16 << 20
_FORGOTTEN: Final = 24 * 3600.0
"""Seconds without news after which the records of a host are not looked at any more."""
_RUNNING: Final = "running"
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    """When a host is to be looked at, on the monotonic clock, and when it was."""

    due: float
    seen: float = -_PAUSE


class Judge(Background):
    """Judges the records of hosts. Close it before the writer."""

    def __init__(self, database: Database, writer: Writer, now: Callable[[], float] = time.time) -> None:
        super().__init__("judge", "records are judged later")
        self._database = database
        self._writer = writer
        self._now = now
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._has_begun = False

    def tell(self, host_id: int) -> None:
        """There is something new in the records of this host."""
        now = time.monotonic()
        with self._lock:
            watched = self._watched.setdefault(host_id, _Watched(now))
            watched.due = min(watched.due, max(now, watched.seen + _PAUSE))
        self.wake()

    def round(self) -> float:
        """Judge the hosts that are due; seconds until one is."""
        if not self._has_begun:
            self._begin()
            self._has_begun = True
        now = time.monotonic()
        with self._lock:
            due = [host for host, watched in self._watched.items() if watched.due <= now]
        for host in due:
            self._judge(host)
        with self._lock:
            next_due = min((watched.due for watched in self._watched.values()), default=now + _AGAIN)
        return min(_AGAIN, max(0.0, next_due - time.monotonic()))

    def _begin(self) -> None:
        """Hosts in whose records something ran when the process before this one ended."""
        with self._database.reading() as connection:
            found = records.heard_since(connection, self._now() - _FORGOTTEN)
        for host in found:
            self.tell(host)

    def _judge(self, host_id: int) -> None:
        if self._is_closed.is_set():
            return
        try:
            verdict = self._look(host_id)
        except (SQLAlchemyError, Unavailable) as fault:
            _log.warning("records of host %d are judged later: %s", host_id, fault)
            verdict = _RUNNING
        except Exception:  # noqa: BLE001  # a host whose records break the look must not take that of others
            _log.exception("records of host %d cannot be judged", host_id)
            verdict = ""
        with self._lock:
            watched = self._watched[host_id]
            watched.seen = time.monotonic()
            watched.due = watched.seen + _AGAIN
            if verdict != _RUNNING:
                del self._watched[host_id]

    def _look(self, host_id: int) -> str:
        """Look at the records of a host, and keep what they come to; the verdict."""
        with self._database.reading() as connection:
            heard_at, texts = _texts(connection, host_id)
        if not texts or heard_at < self._now() - _FORGOTTEN:
            return ""
        silence = max(0.0, self._now() - heard_at)
        seen = look(((service, read_stretches(BytesIO(text))) for service, text in texts), silence=silence)
        self._writer.change(lambda connection: bundles.tell(connection, host_id, seen, heard_at)).result()
        return seen.verdict


def _texts(connection: Connection, host_id: int) -> tuple[float, list[tuple[str, bytes]]]:
    """When something was received last, and the ends of the records of a host."""
    held = records.held_of(connection, host_id)
    left = _MOST_HOST
    texts: list[tuple[str, bytes]] = []
    for service in sorted({one.service for one in held}):
        places = records.places_of(connection, host_id, service, min(left, _MOST_SERVICE))
        text = records.data_at(connection, places)
        left -= len(text)
        texts.append((service, text))
        if left <= 0:
            break
    return max((one.received_at for one in held), default=0.0), texts

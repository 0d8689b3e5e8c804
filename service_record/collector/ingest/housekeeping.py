"""Delete old data: a thread in each process, and `collector prune`."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection

from service_record.collector.domain.retention import ForgetPlan, plan
from service_record.collector.ingest.rounds import Background
from service_record.collector.store import administration, notices, purge
from service_record.collector.store.database import Database
from service_record.collector.store.objects import Objects
from service_record.collector.store.row_writer import Unavailable

T = TypeVar("T")
DAY: Final = 86_400.0
_EVERY: Final = 3600.0
_DONE: Final = 0.75 * _EVERY
"""After a round of one process, the others do no housekeeping for this time."""
_FIRST: Final = 60.0
"""Delay after the start, because hosts send many reports to a collector that was down."""
_DURATIONS_SECONDS: Final = 365 * DAY
"""How long durations of steps are kept. They are small, and budgets are learnt from them."""
_NEWS: Final = 7 * DAY
_ORPHAN: Final = DAY
"""Objects without a row are deleted after this time. An upload writes its row within an hour."""
_KEYS: Final = 500
_EARLY: Final = 0.05
"""If this share of the size limit was stored since the last round, the next one runs early."""
_PAUSE: Final = 10.0
"""Minimum time between two rounds."""


class Change(Protocol):
    """A function that runs a change in a transaction and waits for it."""

    def __call__(self, do: Callable[[Connection], T], /) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLimits:
    """Limits of the stored data; 0 means no limit."""

    days: float = 0.0
    size: int = 0

    @property
    def are_any(self) -> bool:
        return self.days > 0 or self.size > 0


def planned(connection: Connection, limits: KeepLimits, now: float) -> ForgetPlan:
    """Return the data that exceeds these limits now."""
    if not limits.are_any:
        return ForgetPlan()
    stored = purge.read_builds(connection)
    excess = 0
    if limits.size:
        size = sum(build.size for build in stored) + purge.size_of_chunks(connection)
        excess = max(0, size - limits.size)
    return plan(stored, before=now - limits.days * DAY if limits.days else None, excess=excess)


def carry_out(what: ForgetPlan, change: Change, objects: Objects, actor: str, now: float) -> None:
    """Delete what is planned, in many short transactions. Raises Unavailable, SQLAlchemyError,
    ObjectError.
    """
    for batch in purge.batches(what.builds):
        for build in (each for each in batch if each.steps > purge.AT_ONCE):
            host_id, number = build.host_id, build.number
            while change(lambda connection: purge.delete_steps(connection, host_id, number)):  # noqa: B023
                pass
        objects.delete(change(lambda connection: purge.delete_builds(connection, batch)))  # noqa: B023
    before = what.before
    if before is not None:
        while change(lambda connection: purge.delete_events(connection, before)):
            pass
        change(lambda connection: purge.delete_replaced_chunks(connection, before))
        change(lambda connection: purge.delete_last_words(connection, before))
    if what.builds:
        summary = (
            f"{len(what.builds)} builds, {sum(build.steps for build in what.builds)} steps, {what.size} bytes"
        )
        change(lambda connection: administration.note(connection, actor, "retention", summary, now))


def tidy(change: Change, now: float) -> None:
    """Delete unneeded data, regardless of the limits. Raises Unavailable or SQLAlchemyError."""
    change(lambda connection: purge.delete_sessions(connection, now))
    change(lambda connection: notices.forget(connection, now - _NEWS))
    while change(lambda connection: purge.delete_durations(connection, now - _DURATIONS_SECONDS)):
        pass


def orphans(database: Database, objects: Objects, now: float) -> Iterator[str]:
    """Yield the keys of objects that have belonged to no bundle for a day. Raises SQLAlchemyError,
    ObjectError.
    """
    keys = objects.keys_before(now - _ORPHAN)
    while some := list(islice(keys, _KEYS)):
        with database.reading() as connection:
            without = purge.select_unused_keys(connection, some)
        yield from sorted(without)


def _an_hour() -> float:
    """Return about an hour in seconds, at random, so that not all processes work at the same time."""
    return _EVERY * (0.9 + random.random() / 5)  # noqa: S311


class Housekeeper(Background):
    """Deletes old data every hour."""

    def __init__(
        self,
        database: Database,
        change: Change,
        objects: Objects,
        limits: KeepLimits,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            "housekeeper", "housekeeping was put off", first=_FIRST, again=_an_hour(), pause=_PAUSE
        )
        self._database = database
        self._change = change
        self._objects = objects
        self._limits = limits
        self._now = now
        self._lock = threading.Lock()
        self._new_bytes = 0

    def note_bytes(self, number: int) -> None:
        """Count stored bytes. Wakes the thread if the limit may be reached soon."""
        if not self._limits.size:
            return
        with self._lock:
            self._new_bytes += number
        if self.is_early:
            self.wake()

    @property
    def is_early(self) -> bool:
        """True if so much was stored since the last round that the next one must run early."""
        return 0 < self._limits.size * _EARLY < self._new_bytes

    def round(self) -> float:
        """Delete what is due. Return the seconds until the next round."""
        now, limits = self._now(), self._limits
        with self._lock:
            is_early, self._new_bytes = self.is_early, 0
        rest = 0.0 if is_early else _DONE
        if not self._interruptible(lambda connection: purge.claim_housekeeping(connection, now, rest)):
            return _an_hour()
        if is_early:  # as much again may come until the next round
            limits = replace(limits, size=int(limits.size * (1 - 2 * _EARLY)))
        with self._database.reading() as connection:
            what = planned(connection, limits, now)
        carry_out(what, self._interruptible, self._objects, "retention", now)
        tidy(self._interruptible, now)
        self._objects.delete(orphans(self._database, self._objects, now))
        return _an_hour()

    def _interruptible(self, do: Callable[[Connection], T], /) -> T:
        if self._is_closed.is_set():
            raise Unavailable("the collector is shutting down")
        return self._change(do)

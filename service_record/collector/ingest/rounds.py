"""The threads of a collector that look into bundles, judge records and judge hosts when that is due."""

import logging
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.domain.silence import count_from
from service_record.collector.domain.summary_of_records import judge_records, summarise
from service_record.collector.domain.verdicts import LOOP
from service_record.collector.ingest.baselines import LearnedBaselines
from service_record.collector.ingest.incoming import Incoming
from service_record.collector.ingest.opening_bundles import BundleSeen, ReadingStopped, read_bundle
from service_record.collector.logs import fault_of, log
from service_record.collector.store import absences, bundle_rows, judging, record_rows
from service_record.collector.store.bundle_rows import StoredBundle
from service_record.collector.store.database import Database
from service_record.collector.store.objects import NoSuchObject, ObjectError, Objects
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from service_record.diagnosis.budget import DEFAULT_SECONDS
from service_record.record.layout import read_entries

_log: Final = logging.getLogger(__name__)
_PASSING: Final = (Unavailable, SQLAlchemyError, ObjectError)
"""Faults of what it depends on; any other is one of ours."""


class Background(ABC):
    """Runs rounds in its own thread: when it is woken, and when the next is due.

    A round that fails is logged in one line and made again later: no fault ends the thread.
    """

    def __init__(
        self,
        name: str,
        fault: str,
        *,
        first: float = 0.0,
        again: float = 5.0,
        pause: float = 0.0,
        share: float = 0.0,
    ) -> None:
        """`fault` is what is logged of a round that failed. All times are seconds: `first` until the first
        round, `again` after one that failed, whoever wakes it. Between two rounds are `pause` at least, and
        `share` times as long as the first of them took.
        """
        self._fault = fault
        self._first = first
        self._again = again
        self._pause = pause
        self._share = share
        self._is_awake = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    @abstractmethod
    def round(self) -> float:
        """Do what is due; return the seconds until something will be again."""

    def start(self) -> None:
        """Run rounds until it is closed."""
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread: there may be something to do."""
        self._is_awake.set()

    def end(self) -> None:
        """Begin no further round; a running round may check `_is_closed` and end early."""
        self._is_closed.set()
        self._is_awake.set()

    def close(self) -> None:
        """Stop after the current round."""
        self.end()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        self._is_awake.wait(self._first)
        while True:
            self._is_awake.clear()
            if (
                self._is_closed.is_set()
            ):  # looked at after the clearing, which may have undone close()'s waking
                return
            began = time.monotonic()
            sleep = self._tried()
            if sleep is None:
                self._is_closed.wait(self._again)
                continue
            rest = max(self._pause, self._share * (time.monotonic() - began))
            self._is_awake.wait(sleep)
            self._is_closed.wait(rest)

    def _tried(self) -> float | None:
        """Run a round; return the seconds until the next, None if it failed."""
        try:
            return self.round()
        except _PASSING as fault:
            if not self._is_closed.is_set():  # then rounds are cut short on purpose
                log().warning(self._fault, **fault_of(fault))
        except Exception as fault:  # noqa: BLE001  # whatever is wrong with one thing, the others are still to be done
            log().error(self._fault, **fault_of(fault))
        return None


_REST: Final = 60.0
"""Seconds after which it looks for bundles that were left, by itself or by a process that is gone."""


class Indexer(Background):
    """Reads bundles, as many at once as there are processors. Close it before the writer.

    Any number of processes share the work: each bundle is claimed by one.
    """

    def __init__(
        self,
        database: Database,
        writer: DatabaseWriter,
        objects: Objects,
        incoming: Incoming,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("indexer", "bundles are looked into later")
        self._database = database
        self._writer = writer
        self._objects = objects
        self._incoming = incoming
        self._now = now
        self._at_once = os.cpu_count() or 1

    def round(self) -> float:
        """Read the waiting bundles; those that could not be read are free for a later round, here or
        elsewhere.
        """
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="bundles") as pool:
            while not self._is_closed.is_set():
                claimed = self._writer.change(
                    lambda connection: bundle_rows.claim(connection, self._now(), self._at_once)
                ).result()
                if not claimed:
                    break
                self._wait({pool.submit(self._index, bundle) for bundle in claimed}, claimed)
        with self._database.reading() as connection:
            free_at = bundle_rows.next_free(connection)
        return _REST if free_at is None else min(max(free_at - self._now(), 1.0), _REST)

    def _wait(self, reading: "set[Future[None]]", claimed: Sequence[StoredBundle]) -> None:
        """Wait until all are read, and keep them claimed until then."""
        ids = [bundle.id for bundle in claimed]
        while wait(reading, bundle_rows.LEASE / 4).not_done:
            until = self._now() + bundle_rows.LEASE
            with suppress(Unavailable):
                self._writer.change(
                    lambda connection: bundle_rows.claim_until(connection, ids, until)  # noqa: B023
                ).result()

    def _index(self, bundle: StoredBundle) -> None:
        try:
            result = self._read(bundle)
            self._writer.change(
                lambda connection: bundle_rows.save(connection, bundle.id, result.look, result.analysis)
            ).result()
        except ReadingStopped:
            self._put_back(bundle, self._now())
        except (ObjectError, OSError, Unavailable) as fault:
            _log.warning("bundle %d is looked into later: %s", bundle.id, fault)
            self._put_back(bundle, self._now() + _REST)

    def _put_back(self, bundle: StoredBundle, until: float) -> None:
        with suppress(Unavailable):  # then it is free when the claim ends
            self._writer.change(
                lambda connection: bundle_rows.claim_until(connection, [bundle.id], until)
            ).result()

    def _read(self, bundle: StoredBundle) -> BundleSeen:
        with self._incoming.scratch() as path:
            try:
                with path.open("wb") as stream:
                    stream.writelines(self._objects.read(bundle.key))
            except NoSuchObject:
                return BundleSeen.not_read("its object is gone")
            return read_bundle(path, bundle.name, is_stopped=self._is_closed)


_LOOK_PAUSE: Final = 2.0
"""Seconds between two looks at the records of a host."""
_AGAIN: Final = 60.0
"""Seconds after which records are looked at again in which something runs: it may be too long by then."""
_MOST_SERVICE: Final = 2 << 20
"""Bytes of the end of one record that are judged."""
_MOST_HOST: Final = 16 << 20
_FORGOTTEN: Final = 24 * 3600.0
"""Seconds without news after which the records of a host are not looked at any more."""
_RUNNING: Final = "running"


@dataclass(slots=True)
class _Watched:
    """The times of a host's next and last check, on the monotonic clock."""

    due: float
    seen: float = -_LOOK_PAUSE


class Judge(Background):
    """Judges the records of hosts. Close it before the writer."""

    def __init__(
        self, database: Database, writer: DatabaseWriter, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("judge", "records are judged later")
        self._database = database
        self._writer = writer
        self._now = now
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._has_begun = False

    def tell(self, host_id: int) -> None:
        """Note that there is something new in the records of this host."""
        now = time.monotonic()
        with self._lock:
            watched = self._watched.setdefault(host_id, _Watched(now))
            watched.due = min(watched.due, max(now, watched.seen + _LOOK_PAUSE))
        self.wake()

    def round(self) -> float:
        """Judge the hosts that are due; return the seconds until the next one is."""
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
        """Schedule the hosts whose services were running when the process before this one ended."""
        with self._database.reading() as connection:
            host_ids = record_rows.heard_since(connection, self._now() - _FORGOTTEN)
        for host in host_ids:
            self.tell(host)

    def _judge(self, host_id: int) -> None:
        if self._is_closed.is_set():
            return
        with self._lock:
            self._watched[host_id].due = math.inf  # what comes from now on may not be in this look
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
            if watched.due != math.inf:
                watched.due = max(watched.due, watched.seen + _LOOK_PAUSE)
            elif verdict == _RUNNING:
                watched.due = watched.seen + _AGAIN
            else:
                del self._watched[host_id]

    def _look(self, host_id: int) -> str:
        """Judge the records of a host and store the result; return the verdict."""
        with self._database.reading() as connection:
            files = record_rows.held_of(connection, host_id)
            texts = record_rows.ends_of(connection, host_id, _MOST_HOST, _MOST_SERVICE)
            away = absences.read_absences(connection, self._now())
        heard_at = max((file.received_at for file in files), default=0.0)
        if not texts or heard_at < self._now() - _FORGOTTEN:
            return ""
        counted = count_from(heard_at, DEFAULT_SECONDS, away)
        silence = max(0.0, self._now() - counted)
        records = ((service, read_entries(BytesIO(text))) for service, text in texts)
        look = summarise(judge_records(records, silence=silence))
        self._writer.change(lambda connection: bundle_rows.tell(connection, host_id, look, heard_at)).result()
        return look.verdict


_MOST: Final = 200
"""Hosts that are judged in one transaction: others wait to write meanwhile."""
_OURS_FIRST: Final = 5.0
"""Seconds for which a host is judged by the process alone that heard of it."""
_SWEEP_PAUSE: Final = 0.25
"""Seconds between two rounds at least: what comes within them is judged together."""
_SHARE: Final = 4
"""The rest after a round, as a multiple of its duration, at least: most of the time belongs to those who
report.
"""


def _uptime() -> float:
    """Return the seconds since the machine started; the time in which it was suspended counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Sweeper(Background):
    """Judges hosts when a verdict is due, or a report came."""

    def __init__(
        self,
        database: Database,
        writer: DatabaseWriter,
        baselines: LearnedBaselines,
        now: Callable[[], float] = time.time,
        loop_after: int = LOOP,
    ) -> None:
        super().__init__("sweeper", "hosts could not be judged", pause=_SWEEP_PAUSE, share=_SHARE)
        self._database = database
        self._writer = writer
        self._baselines = baselines
        self._now = now
        self._loop_after = loop_after
        self._heard: set[int] = set()
        self._is_sweeping = False
        self._lock = threading.Lock()
        self._beat_at: float | None = None
        """The time of the latest beat, by `_uptime`."""

    def tell(self, host_id: int) -> None:
        """Judge this host here: its report came to this process."""
        with self._lock:
            self._heard.add(host_id)
        self.wake()

    def due_at(self, now: float) -> float:
        """Return the time from which any process may judge a host that reports now: later, if several
        processes write.

        Others would hold the row of a host that goes on to report to this one.
        """
        return now if self._database.is_sqlite else now + _OURS_FIRST

    @property
    def is_idle(self) -> bool:
        """Return whether it has judged all hosts with reports."""
        with self._lock:
            return not self._heard and not self._is_sweeping

    def round(self) -> float:
        """Judge what is due; return the seconds until something will be again."""
        self.sweep()
        with self._database.reading() as connection:
            due_at = judging.next_due(connection)
        longest = absences.BEAT_SECONDS
        return longest if due_at is None else min(max(due_at - self._now(), 0.0), longest)

    def beat(self) -> None:
        """Note that this process is at work, before it judges anybody after an absence."""
        uptime = _uptime()
        without_beat = None if self._beat_at is None else uptime - self._beat_at
        if without_beat is not None and without_beat < absences.BEAT_SECONDS:
            return
        absence = self._writer.change(
            lambda connection: absences.note_beat(connection, self._now(), without_beat)
        ).result()
        self._beat_at = uptime
        if absence is not None:
            away = absence.ended_at - absence.began_at
            _log.warning("no reports were taken for %.0f s: the time limits of hosts begin again", away)

    def sweep(self) -> None:
        """Judge all that is due now. Raises Unavailable, SQLAlchemyError when the database fails."""
        try:
            while not self._is_closed.is_set() and self._judge_some():
                pass
        finally:
            self._is_sweeping = False

    def _judge_some(self) -> bool:
        """Judge some of the hosts that are due; return whether there were as many as are judged at once.

        Hosts that report meanwhile wait for the next round: those that report all the time are not judged
        all the time.
        """
        self.beat()
        now, ours = self._now(), self._take_hosts()
        with self._database.reading() as connection:
            due = judging.labels_due(connection, now, _MOST, ours)
            away = absences.read_absences(connection, now) if due else ()
        labels = frozenset(due)
        budgets = replace(self._baselines.budgets(labels), absences=away)
        if not due:
            return len(ours) >= _MOST
        judged = self._writer.change(
            lambda connection: judging.judge_due(
                connection, budgets, labels, now, most=_MOST, loop_after=self._loop_after, ours=ours
            )
        ).result()
        is_full = judged is not None and len(due) >= _MOST
        return is_full or len(ours) >= _MOST

    def _take_hosts(self) -> list[int]:
        """Take the hosts that reported here: those that cannot be judged now are due to any process soon."""
        with self._lock:
            self._is_sweeping = True
            return [self._heard.pop() for _ in range(min(_MOST, len(self._heard)))]

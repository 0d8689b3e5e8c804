"""The background threads of a collector: they read bundles, judge service records, and judge hosts."""

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

from service_record.collector.domain.silence import find_limit_start
from service_record.collector.domain.summary_of_records import judge_records, summarise
from service_record.collector.domain.verdicts import LOOP
from service_record.collector.ingest.baselines import LearnedBaselines
from service_record.collector.ingest.incoming import UploadFolder
from service_record.collector.ingest.opening_bundles import BundleContent, ReadingStopped, read_bundle
from service_record.collector.logs import describe_fault, log
from service_record.collector.store import absences, bundle_rows, judging, record_rows
from service_record.collector.store.bundle_rows import StoredBundle
from service_record.collector.store.database import Database
from service_record.collector.store.objects import NoSuchObject, ObjectError, Objects
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from service_record.diagnosis.budget import DEFAULT_SECONDS
from service_record.record.layout import read_entries

_log: Final = logging.getLogger(__name__)
_EXTERNAL_ERRORS: Final = (Unavailable, SQLAlchemyError, ObjectError)
"""Errors of the database or the object store, logged as warnings. Any other exception is a bug."""


class Background(ABC):
    """A thread that runs `round` whenever it is woken or the next round is due.

    If a round raises an exception, it is logged in one line and the round is repeated later.
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
        """Create the thread; `start` starts it. All times are in seconds.

        `fault` is the message to log when a round fails. `first` is the time until the first round, `again`
        the time after a failed round, during which nothing wakes the thread. Between two rounds there are at
        least `pause` seconds and at least `share` times the duration of the first one.
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
        """Do the work that is due. Return the seconds until the next round."""

    def start(self) -> None:
        """Start the thread. It runs rounds until `close` is called."""
        self._thread.start()

    def wake(self) -> None:
        """Run a round soon: there may be work."""
        self._is_awake.set()

    def end(self) -> None:
        """Begin no further round. A running round may check `_is_closed` and end early."""
        self._is_closed.set()
        self._is_awake.set()

    def close(self) -> None:
        """Stop the thread and wait for its current round."""
        self.end()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        self._is_awake.wait(self._first)
        while True:
            self._is_awake.clear()
            # Check this after clear(): otherwise the thread could miss the wake-up of close() and sleep on.
            if self._is_closed.is_set():
                return
            began = time.monotonic()
            sleep = self._try_round()
            if sleep is None:
                self._is_closed.wait(self._again)
                continue
            rest = max(self._pause, self._share * (time.monotonic() - began))
            self._is_awake.wait(sleep)
            self._is_closed.wait(rest)

    def _try_round(self) -> float | None:
        """Run a round. Return the seconds until the next one, or None after an error."""
        try:
            return self.round()
        except _EXTERNAL_ERRORS as fault:
            if not self._is_closed.is_set():  # after `close`, an interrupted round is expected
                log().warning(self._fault, **describe_fault(fault))
        except Exception as fault:  # noqa: BLE001  # a bug must not end the thread
            log().error(self._fault, **describe_fault(fault))
        return None


_RESCAN_SECONDS: Final = 60.0
"""Interval at which unread bundles are claimed: those that failed, and those of a process that was killed."""


class Indexer(Background):
    """Reads uploaded bundles, one on each processor. Close it before the writer.

    Several collector processes share the work: each bundle is claimed by one process.
    """

    def __init__(
        self,
        database: Database,
        writer: DatabaseWriter,
        objects: Objects,
        incoming: UploadFolder,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("indexer", "bundles are looked into later")
        self._database = database
        self._writer = writer
        self._objects = objects
        self._incoming = incoming
        self._now = now
        self._workers = os.cpu_count() or 1

    def round(self) -> float:
        """Read all waiting bundles. Those that fail are released for a later round of any process."""
        with ThreadPoolExecutor(self._workers, thread_name_prefix="bundles") as pool:
            while not self._is_closed.is_set():
                claimed = self._writer.change(
                    lambda connection: bundle_rows.claim(connection, self._now(), self._workers)
                ).result()
                if not claimed:
                    break
                self._wait({pool.submit(self._index, bundle) for bundle in claimed}, claimed)
        with self._database.reading() as connection:
            free_at = bundle_rows.next_free(connection)
        return _RESCAN_SECONDS if free_at is None else min(max(free_at - self._now(), 1.0), _RESCAN_SECONDS)

    def _wait(self, reading: "set[Future[None]]", claimed: Sequence[StoredBundle]) -> None:
        """Wait until all bundles are read, and extend their claims meanwhile."""
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
            self._release(bundle, self._now())
        except (ObjectError, OSError, Unavailable) as fault:
            _log.warning("bundle %d is looked into later: %s", bundle.id, fault)
            self._release(bundle, self._now() + _RESCAN_SECONDS)

    def _release(self, bundle: StoredBundle, until: float) -> None:
        with suppress(Unavailable):  # the claim will expire
            self._writer.change(
                lambda connection: bundle_rows.claim_until(connection, [bundle.id], until)
            ).result()

    def _read(self, bundle: StoredBundle) -> BundleContent:
        with self._incoming.scratch() as path:
            try:
                with path.open("wb") as stream:
                    stream.writelines(self._objects.read(bundle.key))
            except NoSuchObject:
                return BundleContent.not_read("its object is gone")
            return read_bundle(path, bundle.name, is_stopped=self._is_closed)


_JUDGE_PAUSE_SECONDS: Final = 2.0
"""Minimum time between two judgements of the same host's records."""
_REJUDGE_SECONDS: Final = 60.0
"""Records of a running service are judged again after this time: the service may be stuck by then."""
_MAX_SERVICE_BYTES: Final = 2 << 20
"""Only the last part of a long record is judged."""
_MAX_HOST_BYTES: Final = 16 << 20
_FORGET_SECONDS: Final = 24 * 3600.0
"""Records of a host are not judged any more after this time without new ones."""
_RUNNING: Final = "running"


@dataclass(slots=True)
class _Watched:
    """The times of a host's next and last check, on the monotonic clock."""

    due: float
    seen: float = -_JUDGE_PAUSE_SECONDS


class Judge(Background):
    """Judges the service records that hosts send live. Close it before the writer."""

    def __init__(
        self, database: Database, writer: DatabaseWriter, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("judge", "records are judged later")
        self._database = database
        self._writer = writer
        self._now = now
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._is_restored = False

    def add(self, host_id: int) -> None:
        """Judge this host soon: it has new records."""
        now = time.monotonic()
        with self._lock:
            watched = self._watched.setdefault(host_id, _Watched(now))
            watched.due = min(watched.due, max(now, watched.seen + _JUDGE_PAUSE_SECONDS))
        self.wake()

    def round(self) -> float:
        """Judge the records of all hosts that are due. Return the seconds until the next one is due."""
        if not self._is_restored:
            self._restore_watched()
            self._is_restored = True
        now = time.monotonic()
        with self._lock:
            due = [host for host, watched in self._watched.items() if watched.due <= now]
        for host in due:
            self._judge(host)
        with self._lock:
            next_due = min(
                (watched.due for watched in self._watched.values()), default=now + _REJUDGE_SECONDS
            )
        return min(_REJUDGE_SECONDS, max(0.0, next_due - time.monotonic()))

    def _restore_watched(self) -> None:
        """Schedule the hosts with recent records whose services were running when last judged."""
        with self._database.reading() as connection:
            host_ids = record_rows.list_hosts_with_running_services(connection, self._now() - _FORGET_SECONDS)
        for host in host_ids:
            self.add(host)

    def _judge(self, host_id: int) -> None:
        if self._is_closed.is_set():
            return
        with self._lock:
            # Records that arrive from now on may be missed; `add` sets another time for them.
            self._watched[host_id].due = math.inf
        try:
            verdict = self._judge_records(host_id)
        except (SQLAlchemyError, Unavailable) as fault:
            _log.warning("records of host %d are judged later: %s", host_id, fault)
            verdict = _RUNNING
        except Exception:  # noqa: BLE001  # records of one host must not stop the others
            _log.exception("records of host %d cannot be judged", host_id)
            verdict = ""
        with self._lock:
            watched = self._watched[host_id]
            watched.seen = time.monotonic()
            if watched.due != math.inf:
                watched.due = max(watched.due, watched.seen + _JUDGE_PAUSE_SECONDS)
            elif verdict == _RUNNING:
                watched.due = watched.seen + _REJUDGE_SECONDS
            else:
                del self._watched[host_id]

    def _judge_records(self, host_id: int) -> str:
        """Judge the records of a host and store the result. Return the verdict, or '' without records."""
        with self._database.reading() as connection:
            files = record_rows.read_stored_files(connection, host_id)
            texts = record_rows.read_ends(connection, host_id, _MAX_HOST_BYTES, _MAX_SERVICE_BYTES)
            away = absences.read_absences(connection, self._now())
        heard_at = max((file.received_at for file in files), default=0.0)
        if not texts or heard_at < self._now() - _FORGET_SECONDS:
            return ""
        counted = find_limit_start(heard_at, DEFAULT_SECONDS, away)
        silence = max(0.0, self._now() - counted)
        records = ((service, read_entries(BytesIO(text))) for service, text in texts)
        summary = summarise(judge_records(records, silence=silence))
        self._writer.change(
            lambda connection: bundle_rows.store_verdict(connection, host_id, summary, heard_at)
        ).result()
        return summary.verdict


_MAX_HOSTS: Final = 200
"""Maximum number of hosts in one transaction, because other writers wait for it."""
_OWN_HOSTS_SECONDS: Final = 5.0
"""For this time only the process that received a report judges its host."""
_SWEEP_PAUSE_SECONDS: Final = 0.25
"""Minimum time between two rounds of all busy processes. Hosts that report meanwhile are judged together."""
_PAUSE_FACTOR: Final = 4
"""Minimum pause after a round, as a multiple of its duration. Reports need most of the processor."""


def _uptime() -> float:
    """Return the seconds since the machine started, including time in suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Sweeper(Background):
    """Judges hosts after their reports and when their time limits pass."""

    def __init__(
        self,
        database: Database,
        writer: DatabaseWriter,
        baselines: LearnedBaselines,
        now: Callable[[], float] = time.time,
        *,
        loop_after: int = LOOP,
        count_busy: Callable[[], int] = lambda: 1,
    ) -> None:
        super().__init__(
            "sweeper", "hosts could not be judged", pause=_SWEEP_PAUSE_SECONDS, share=_PAUSE_FACTOR
        )
        self._count_busy = count_busy
        self._database = database
        self._writer = writer
        self._baselines = baselines
        self._now = now
        self._loop_after = loop_after
        self._reported: set[int] = set()
        self._is_sweeping = False
        self._lock = threading.Lock()
        self._beat_at: float | None = None
        """The `_uptime` of the latest beat."""

    def add(self, host_id: int) -> None:
        """Judge this host soon: this process received a report of it."""
        with self._lock:
            self._reported.add(host_id)
        self.wake()

    def due_at(self, now: float) -> float:
        """Return the time from which any process may judge a host that reports now.

        With PostgreSQL that is some seconds later. Another process that judges the host would lock its row,
        and the next reports to this process would wait.
        """
        return now if self._database.is_sqlite else now + _OWN_HOSTS_SECONDS

    @property
    def is_idle(self) -> bool:
        """True if all hosts that reported to this process are judged."""
        with self._lock:
            return not self._reported and not self._is_sweeping

    def round(self) -> float:
        """Judge all hosts that are due. Return the seconds until the next one is due."""
        # All busy processes together have a constant number of rounds, because each round costs the same.
        self._pause = _SWEEP_PAUSE_SECONDS * self._count_busy()
        self.sweep()
        with self._database.reading() as connection:
            due_at = judging.next_due(connection)
        longest = absences.BEAT_SECONDS
        return longest if due_at is None else min(max(due_at - self._now(), 0.0), longest)

    def beat(self) -> None:
        """Store that this process is alive, and store an absence of the collector that has just ended.

        Must run before hosts are judged: the time limits of hosts do not count absences.
        """
        uptime = _uptime()
        without_beat = None if self._beat_at is None else uptime - self._beat_at
        if without_beat is not None and without_beat < absences.BEAT_SECONDS:
            return
        absence = self._writer.change(
            lambda connection: absences.store_beat(connection, self._now(), without_beat)
        ).result()
        self._beat_at = uptime
        if absence is not None:
            away = absence.ended_at - absence.began_at
            _log.warning("no reports were taken for %.0f s: the time limits of hosts begin again", away)

    def sweep(self) -> None:
        """Judge all hosts that are due now. Raises Unavailable or SQLAlchemyError if the database fails."""
        try:
            while not self._is_closed.is_set() and self._judge_some():
                pass
        finally:
            self._is_sweeping = False

    def _judge_some(self) -> bool:
        """Judge up to `_MAX_HOSTS` due hosts. Return True if there may be more.

        Hosts that report meanwhile wait for the next round; otherwise a host that reports all the time would
        be judged all the time.
        """
        self.beat()
        now, ours = self._now(), self._take_hosts()
        with self._database.reading() as connection:
            due = judging.list_due_labels(connection, now, _MAX_HOSTS, ours)
            away = absences.read_absences(connection, now) if due else ()
        labels = frozenset(due)
        budgets = replace(self._baselines.budgets(labels), absences=away)
        if not due:
            return len(ours) >= _MAX_HOSTS
        judged = self._writer.change(
            lambda connection: judging.judge_due(
                connection, budgets, labels, now, most=_MAX_HOSTS, loop_after=self._loop_after, ours=ours
            )
        ).result()
        is_full = judged is not None and len(due) >= _MAX_HOSTS
        return is_full or len(ours) >= _MAX_HOSTS

    def _take_hosts(self) -> list[int]:
        """Take hosts that reported to this process. If judging them fails, any process judges them later."""
        with self._lock:
            self._is_sweeping = True
            return [self._reported.pop() for _ in range(min(_MAX_HOSTS, len(self._reported)))]

"""The thread that looks into bundles: those that come, and those that a process before had not come to."""

import logging
import threading
from typing import Final

from service_record.collector.confined import Stopped
from service_record.collector.incoming import Incoming
from service_record.collector.looking import Look
from service_record.collector.opening import look_into
from service_record.collector.store import bundles
from service_record.collector.store.bundles import Kept
from service_record.collector.store.database import Database
from service_record.collector.store.objects import NoSuchObject, ObjectError, Objects
from service_record.collector.store.writer import Unavailable, Writer

_REST: Final = 60.0
"""Seconds after which it looks for bundles that were left, by itself or by a process that is gone."""
_log: Final = logging.getLogger(__name__)


class Indexer:
    """Looks into one bundle after the other. Close it before the writer."""

    def __init__(self, database: Database, writer: Writer, objects: Objects, incoming: Incoming) -> None:
        self._database = database
        self._writer = writer
        self._objects = objects
        self._incoming = incoming
        self._is_wanted = threading.Event()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look into what waits, and into what comes, until it is closed."""
        self._is_wanted.set()
        self._thread = threading.Thread(target=self._run, name="indexer")
        self._thread.start()

    def wake(self) -> None:
        """There is a new bundle."""
        self._is_wanted.set()

    def close(self) -> None:
        """Stop; what is looked into now, and what waits, is looked into after the next start."""
        self._is_closed.set()
        self._is_wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            self._is_wanted.wait(_REST)
            self._is_wanted.clear()
            try:
                self._index_all()
            except Exception:  # noqa: BLE001  # the next look may do better
                _log.exception("looking into bundles failed")

    def _index_all(self) -> None:
        failed: set[int] = set()
        while not self._is_closed.is_set():
            with self._database.reading() as connection:
                waiting = [bundle for bundle in bundles.unindexed(connection) if bundle.id not in failed]
            if not waiting:
                return
            for bundle in waiting:
                if self._is_closed.is_set():
                    return
                if not self._index(bundle):
                    failed.add(bundle.id)

    def _index(self, bundle: Kept) -> bool:
        try:
            seen = self._look(bundle)
            self._writer.change(lambda connection: bundles.save(connection, bundle.id, seen)).result()
        except Stopped:
            return False
        except (ObjectError, OSError, Unavailable) as fault:
            _log.warning("bundle %d is looked into later: %s", bundle.id, fault)
            return False
        return True

    def _look(self, bundle: Kept) -> Look:
        with self._incoming.scratch() as path:
            try:
                with path.open("wb") as stream:
                    stream.writelines(self._objects.read(bundle.key))
            except NoSuchObject:
                return Look(left_out=("not read: its object is gone",))
            return look_into(path, is_stopped=self._is_closed)

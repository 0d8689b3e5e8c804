"""The thread that looks into bundles: those that come, and those that a process before had not come to."""

import logging
from typing import Final

from service_record.collector.background import Background
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


class Indexer(Background):
    """Looks into one bundle after the other. Close it before the writer."""

    def __init__(self, database: Database, writer: Writer, objects: Objects, incoming: Incoming) -> None:
        super().__init__("indexer", "bundles are looked into later")
        self._database = database
        self._writer = writer
        self._objects = objects
        self._incoming = incoming

    def round(self) -> float:
        """Look into what waits; what could not be looked into, or not any more, is left to a later round."""
        failed: set[int] = set()
        while not self._is_closed.is_set():
            with self._database.reading() as connection:
                waiting = [bundle for bundle in bundles.unindexed(connection) if bundle.id not in failed]
            if not waiting:
                break
            for bundle in waiting:
                if not self._is_closed.is_set() and not self._index(bundle):
                    failed.add(bundle.id)
        return _REST

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

"""Provide pages with analyses of records.

The analysis of a bundle is read from the database. Live records are analysed in the background. No page waits
for an analysis: the page is first shown without it, and is updated when it is ready.
"""

import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.domain.records_page import Analysis
from service_record.collector.ingest.opening_bundles import ReadingStopped, read_bundle
from service_record.collector.process import Collector
from service_record.collector.store.bundle_rows import (
    RecordsSource,
    find_source,
    read_analysis,
    write_records,
)

_MOST: Final = 64
"""Maximum number of hosts with a cached analysis."""
_REST: Final = 5.0
"""Minimum time between two analyses of a host that sends live records."""
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AnalysisView:
    """The known analysis of a host's records."""

    source: RecordsSource | None
    """The source of the records; None if the host has sent none."""
    analysis: Analysis | None = None
    """The analysis of this source, or of a previous one while `is_pending`."""
    is_pending: bool = False

    @property
    def mark(self) -> str:
        """Return a key that changes with the analysis."""
        return "" if self.source is None else f"{self.source.mark} {self.is_pending}"


@dataclass(frozen=True, slots=True)
class _MadeAnalysis:
    """An analysis, its source, and the monotonic time at which it was made."""

    mark: str
    analysis: Analysis
    at: float

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() < self.at + _REST


class Analyses:
    """A cache of the requested analyses. Close it before the collector."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _MadeAnalysis] = OrderedDict()
        self._pending: set[str] = set()
        self._is_stopped = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="analyses")

    def close(self) -> None:
        """Stop making analyses."""
        self._is_stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def of(self, host: str) -> AnalysisView:
        """Return the cached analysis. If it is missing or out of date, start making one."""
        with self._collector.database.reading() as connection:
            source = find_source(connection, host)
            if source is None:
                return AnalysisView(None)
            if source.bundle_id:  # one process analyses each bundle, and stores the result
                analysis = read_analysis(connection, source.bundle_id)
                return AnalysisView(source, analysis, is_pending=analysis is None)
        with self._lock:
            entry = self._known.get(host)
            if entry is not None and entry.mark == source.mark:
                self._known.move_to_end(host)
                return AnalysisView(source, entry.analysis)
            may_rest = entry is not None and entry.is_fresh
            if not may_rest and host not in self._pending and not self._is_stopped.is_set():
                self._pending.add(host)
                self._pool.submit(self._make, host, source)
        return AnalysisView(source, entry.analysis if entry else None, is_pending=True)

    def _make(self, host: str, source: RecordsSource) -> None:
        try:
            analysis = self._analyse_source(source)
        except ReadingStopped:
            return
        except (OSError, SQLAlchemyError) as fault:
            _log.warning("records of %s cannot be analysed: %s", host, fault)
            analysis = Analysis(left_out=("not read: they cannot be had at the moment",))
        except Exception:  # noqa: BLE001  # unusual records of one host must not stop the analyses of others
            _log.exception("records of %s cannot be analysed", host)
            analysis = Analysis(left_out=("not read: the analysis failed",))
        with self._lock:
            self._pending.discard(host)
            self._known[host] = _MadeAnalysis(source.mark, analysis, time.monotonic())
            self._known.move_to_end(host)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        self._collector.news.announce()

    def _analyse_source(self, source: RecordsSource) -> Analysis:
        collector = self._collector
        with collector.incoming.scratch() as path:
            with path.open("wb") as stream, collector.database.reading() as connection:
                write_records(connection, source, stream)
            silence = max(0.0, collector.now() - source.received_at)
            return read_bundle(path, source.name, silence=silence, is_stopped=self._is_stopped).analysis

"""Send the traces of a directory of records: each span after its end.

The ids of sent spans are kept only in memory, so a restart sends spans again. They have the same ids as
before.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

from service_record.export.otlp import name_of_unnamed_boot, span_id, traces_data
from service_record.export.trace import SteadyClock, TraceSpan, trace_spans
from service_record.export.trace_backend import TraceBackend, request_of
from service_record.history import History, build_history
from service_record.history.outcome import Outcome
from service_record.history.results import Liveness
from service_record.http.record_sending import read_signature
from service_record.record import systemd
from service_record.record.directory import Records
from service_record.record.entry import Piece

MARK_SECONDS: Final = 10.0
"""A span that has been running for this long is marked as running."""
SETTLE_SECONDS: Final = 10.0
"""Wait before a run without an end is sent: the exit helper may record its end after the process is gone."""
_BATCH: Final = 200
"""Spans in one request. A span has at most some kilobytes, so a request has at most some megabytes."""
_LOOK_SECONDS: Final = 60.0
"""The interval for reading records that have not changed."""
_WAITING_LOOK_SECONDS: Final = 2.0
"""The interval while a span is running or may still change."""
_REST: Final = 20
"""The pause after reading, as a multiple of the reading's duration: at most 1/20 of a processor is used."""


@dataclass(slots=True)
class TraceSender:
    """Sends the spans of all or some services in one directory of records."""

    backend: TraceBackend
    host: str
    records: Records
    services: frozenset[str] = frozenset()
    mask: Callable[[str], str] = str
    """Masks secrets in a text."""
    host_id: str | None = None
    mark_seconds: float = MARK_SECONDS
    settle_seconds: float = SETTLE_SECONDS
    sent_spans: int = 0
    rejected_spans: int = 0
    remarks: list[str] = field(default_factory=list)
    """The backend's reasons for refused spans, and its warnings. The caller prints them and empties the list.
    """
    _sent: set[str] = field(default_factory=set)
    """Ids of sent spans and marks that are still in the records."""
    _ended: dict[str, float] = field(default_factory=dict)
    """Id of each span that seems to be interrupted -> monotonic time at which this was first seen."""
    _files: object = None
    """Names and signatures of the record files when they were last read."""
    _next_look: float = 0.0
    _rest_until: float = 0.0

    def send(self, *, is_last: bool = False) -> None:
        """Send the spans that ended since the last call, if the records are due to be read again.

        With `is_last`, the records are always read. Raises NotTaken, LeakError, and OSError if records cannot
        be read.
        """
        begun = monotonic()
        services = self._services()
        files = [(name, read_signature(self.records.path(name))) for name in services]
        is_due = files != self._files or begun >= self._next_look
        if not is_last and (begun < self._rest_until or not is_due):
            return
        history = self._history(services)
        self._rest_until = monotonic() + _REST * (monotonic() - begun)
        is_waiting = self._deliver(history)
        self._files = files
        self._next_look = monotonic() + (_WAITING_LOOK_SECONDS if is_waiting else _LOOK_SECONDS)

    def _services(self) -> list[str]:
        return [
            name
            for name in self.records.services(with_inbox=True)
            if not self.services or name in self.services
        ]

    def _history(self, services: list[str]) -> History:
        """Return the current history. The records are read twice instead of being kept in memory."""

        def pieces(service: str) -> Iterator[Piece]:
            with suppress(FileNotFoundError):  # removed in the meantime
                yield from self.records.read(service)

        clock = SteadyClock(piece for service in services for piece in pieces(service))
        is_home = self.records.directory.resolve() == Records().directory.resolve()
        liveness = Liveness(systemd.boot_id(), is_home, systemd.is_alive)
        return build_history(((service, clock.timed(pieces(service))) for service in services), liveness)

    def _deliver(self, history: History) -> bool:
        """Send new spans and marks in batches. Return True if a span is still running or may change."""
        unnamed = name_of_unnamed_boot(history, self.host)
        is_waiting = False
        there: set[str] = set()
        batch = _Batch()
        for span in trace_spans(history):
            own = span_id(span.key)
            there.add(own)
            if own in self._sent:
                continue
            mark = f"{own} running"
            if span.span.outcome is Outcome.RUNNING:
                is_waiting = True
                there.add(mark)
                if mark not in self._sent and _age(span) >= self.mark_seconds:
                    batch.marks.append(span)
                    batch.ids.append(mark)
            elif self._is_settled(span, own, history):
                batch.spans.append(span)
                batch.ids.append(own)
            else:
                is_waiting = True
            if len(batch.ids) == _BATCH:
                self._post(batch, unnamed)
                batch = _Batch()
        self._post(batch, unnamed)
        self._sent &= there
        self._ended = {own: since for own, since in self._ended.items() if own in there}
        return is_waiting

    def _is_settled(self, span: TraceSpan, own: str, history: History) -> bool:
        """Return whether a span can no longer change."""
        if span.run.outcome is not Outcome.INTERRUPTED or span.run.boot_id != history.latest_boot:
            return True
        since = self._ended.setdefault(own, monotonic())
        return monotonic() - since >= self.settle_seconds

    def _post(self, batch: "_Batch", unnamed: str) -> None:
        if not batch.ids:
            return
        document = traces_data(batch.spans, self.host, unnamed, marks=batch.marks, host_id=self.host_id)
        reception = self.backend.post(request_of(self._masked(document)), len(batch.ids))
        self._sent.update(batch.ids)
        self.sent_spans += len(batch.ids) - reception.rejected
        self.rejected_spans += reception.rejected
        if reception.rejected:
            self.remarks.append(f"{reception.rejected} of {len(batch.ids)} spans refused: {reception.reason}")
        elif reception.reason:
            self.remarks.append(f"taken with a warning: {reception.reason}")

    def _masked(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the document with secrets masked in all texts from records."""
        clean: dict[str, str] = {}

        def masked(value: Any, name: str = "") -> Any:
            if isinstance(value, dict):
                return {key: masked(item, key) for key, item in value.items()}
            if isinstance(value, list):
                return [masked(item) for item in value]
            if name not in _TEXTS:
                return value
            if value not in clean:
                clean[value] = self.mask(value)
            return clean[value]

        result: dict[str, Any] = masked(document)
        return result


_TEXTS: Final = frozenset(("stringValue", "name", "message"))


@dataclass(slots=True)
class _Batch:
    spans: list[TraceSpan] = field(default_factory=list)
    marks: list[TraceSpan] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)


def _age(span: TraceSpan) -> float:
    """Return the seconds since the start of a span, by the clock of this host."""
    return (datetime.now(UTC) - span.start).total_seconds()

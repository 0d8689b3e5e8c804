"""Convert a history to nested spans, and write spans in Google's Trace Event Format. Pure.

All trace formats are made from these spans. Perfetto (ui.perfetto.dev) and chrome://tracing open the Trace
Event Format: JSON with a process for each service, one thread for spans that follow or contain each other,
further threads for spans that overlap, and times in microseconds since 1970.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, TypeAlias

import msgspec

from service_record.display.machine import encode_document
from service_record.display.phrases import VERBS, exit_text, span_kind
from service_record.display.show_document import facts_document
from service_record.history import History
from service_record.history.outcome import Command, Outcome, Run, Stage
from service_record.record.entry import Entry, Malformed
from service_record.version import __version__

_Key: TypeAlias = tuple[str, ...]

_MAX_OPEN: Final = 100
"""Number of earlier stages that may be the parent of a stage. More are open only if ends are missing."""


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A run, command or stage."""

    key: _Key
    """Unique on the host. It does not change when the records grow."""
    around: _Key | None = None
    """The key of the parent span."""
    level: int = 0
    """The number of ancestors."""
    run: Run
    """The run itself, or the run of the command or stage."""
    span: Run | Command | Stage
    start: datetime
    end: datetime
    """The time of the end entry. Without one, the last known time of the run or, while it runs, the boot."""

    @property
    def name(self) -> str:
        """`bootkube` for a run, `stage render` for a stage."""
        if isinstance(self.span, Run):
            return self.span.service
        return f"{span_kind(self.span)} {self.span.name}"

    @property
    def exit_text(self) -> str:
        """Return the outcome in words: `failed: exit 1`."""
        return ": ".join(filter(None, (VERBS[self.span.outcome], exit_text(self.span.facts))))


def trace_spans(history: History) -> Iterator[TraceSpan]:
    """Yield the runs of all services, each followed by its commands and stages.

    Runs without times are skipped.
    """
    runs = [run for service in history.services for run in service.runs]
    latest: dict[str | None, datetime] = {}
    for run in runs:
        if run.last_entry is not None:
            latest[run.boot_id] = max(run.last_entry, latest.get(run.boot_id, run.last_entry))
    attempts = Counter[_Key]()
    for run in runs:
        identity = (run.service, run.boot_id or "", run.invocation_id or "", str(run.pid or ""))
        attempts[identity] += 1
        if run.first_entry is not None and run.last_entry is not None:
            end = latest[run.boot_id] if run.outcome is Outcome.RUNNING else run.last_entry
            yield from _run_spans(run, (*identity, str(attempts[identity])), run.first_entry, end)


def _run_spans(run: Run, key: _Key, first: datetime, last: datetime) -> Iterator[TraceSpan]:
    """Yield the spans of a run, its commands and its stages.

    `first` is the time of its first entry. `last` is its last known time, the end of spans without an end.
    """
    start = run.started or first
    whole = TraceSpan(key=key, run=run, span=run, start=start, end=max(run.ended or last, start))
    yield whole
    for number, command in enumerate(run.commands):
        start = command.started or command.ended or first
        end = max(command.ended or last, start)
        # A command may be outside the time of its run: it runs before or after the service itself.
        inner = _make_inner_span(whole, (*key, f"command {number}"), command, start, end)
        yield inner
        yield from _stage_spans(command.stages, inner)
    yield from _stage_spans(run.stages, whole)


def _stage_spans(stages: Sequence[Stage], around: TraceSpan) -> Iterator[TraceSpan]:
    """Yield the spans of stages. The parent of a stage is the one that it names, or without ids the innermost
    stage around it.
    """
    opened: deque[TraceSpan] = deque(maxlen=_MAX_OPEN)
    identified: dict[str, TraceSpan] = {}
    for number, stage in enumerate(stages):
        start = stage.started or stage.ended or around.start
        end = max(stage.ended or around.end, start)
        if stage.id is not None:
            holder = identified.get(stage.parent or "", around)
        else:
            holders = (other for other in reversed(opened) if other.start <= start and end <= other.end)
            holder = next(holders, around) if stage.depth else around
        span = _make_inner_span(holder, (*around.key, f"stage {number}"), stage, start, end)
        if stage.id is not None:
            identified[stage.id] = span
        yield span
        opened.append(span)


def _make_inner_span(
    around: TraceSpan, key: _Key, span: Command | Stage, start: datetime, end: datetime
) -> TraceSpan:
    return TraceSpan(
        key=key, around=around.key, level=around.level + 1, run=around.run, span=span, start=start, end=end
    )


class SteadyClock:
    """Computes the times of entries from their uptime, so that changes of the host's clock have no effect.

    The time of a boot is the time of its last entry minus the uptime of that entry, because the clock is most
    likely to be correct then. Entries without an uptime, such as upstream's, keep their time.
    """

    def __init__(self, pieces: Iterable[Entry | Malformed]) -> None:
        """Read the pieces of all services, without keeping them in memory."""
        last: dict[str | None, Entry] = {}
        for piece in pieces:
            if isinstance(piece, Entry) and piece.uptime is not None and piece.time is not None:
                latest = last.get(piece.boot_id, piece)
                if piece.uptime >= (latest.uptime or 0):
                    last[piece.boot_id] = piece
        self._booted: dict[str | None, datetime] = {}
        for boot_id, entry in last.items():
            time = entry.time
            if time is None:
                continue
            try:
                self._booted[boot_id] = time - timedelta(seconds=entry.uptime or 0)
            except OverflowError:  # an impossible uptime
                continue

    def timed(self, pieces: Iterable[Entry | Malformed]) -> Iterator[Entry | Malformed]:
        """Yield the pieces of a record with times computed from the uptime."""
        for piece in pieces:
            if isinstance(piece, Malformed) or piece.uptime is None or piece.boot_id not in self._booted:
                yield piece
                continue
            try:
                time = self._booted[piece.boot_id] + timedelta(seconds=piece.uptime)
                text = time.astimezone(UTC).isoformat(timespec="microseconds")
            except OverflowError:  # an impossible uptime
                yield piece
                continue
            yield msgspec.structs.replace(piece, timestamp=text)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NANOSECONDS: Final = (1 << 63) - 1


def nanoseconds(time: datetime) -> int:
    """Return the nanoseconds since 1970, at least 0 and at most the largest signed 64-bit integer."""
    passed = (time - _EPOCH) // timedelta(microseconds=1) * 1000
    return min(max(passed, 0), _MAX_NANOSECONDS)


_FIRST_THREAD: Final = "in order"
_OTHER_THREAD: Final = "at the same time"


def to_chrome_trace(history: History, host: str | None) -> Iterator[bytes]:
    """Yield one JSON object in Trace Event Format, with an event on each line."""
    about = {"recorder": f"service-record {__version__}"} | ({"host": host} if host else {})
    head = encode_document({"displayTimeUnit": "ms", "otherData": about}).removesuffix("}")
    yield f'{head},"traceEvents":['.encode()
    before = "\n"
    for event in _events(history):
        yield f"{before}{encode_document(event)}".encode()
        before = ",\n"
    yield b"\n]}\n"


def _events(history: History) -> Iterator[dict[str, Any]]:
    by_service: dict[str, list[TraceSpan]] = {service.name: [] for service in history.services}
    for span in trace_spans(history):
        by_service[span.run.service].append(span)
    threads = count(len(by_service) + 1)  # some viewers need thread ids that differ from process ids
    for process, (service, spans) in enumerate(by_service.items(), 1):
        yield _metadata("process_name", process, 0, name=service)
        lanes = _lanes(spans)
        for number, lane in enumerate(lanes):
            thread = next(threads)
            name = f"{_OTHER_THREAD} {number}" if number else _FIRST_THREAD
            yield _metadata("thread_name", process, thread, name=name)
            yield _metadata("thread_sort_index", process, thread, sort_index=number)
            for span in lane:
                yield from _span_events(span, process, thread)


def _lanes(spans: Iterable[TraceSpan]) -> list[list[TraceSpan]]:
    """Distribute spans to as few rows as possible.

    Each span of a row is inside the previous one or after it.
    """
    lanes: list[list[TraceSpan]] = []
    opened: list[list[TraceSpan]] = []
    for span in sorted(spans, key=lambda span: (span.start, span.level, -span.end.timestamp())):
        number = next((number for number, around in enumerate(opened) if _fits(span, around)), len(lanes))
        if number == len(lanes):
            lanes.append([])
            opened.append([])
        lanes[number].append(span)
        opened[number].append(span)
    return lanes


def _fits(span: TraceSpan, around: list[TraceSpan]) -> bool:
    """Return whether a span fits into the innermost open span of a row.

    Ended spans are removed from `around`.
    """
    while around and around[-1].end <= span.start:
        if around[-1].key == span.around and span.end <= around[-1].end:
            break  # its parent, which ends at the same time
        around.pop()
    return not around or span.end <= around[-1].end


def _span_events(span: TraceSpan, process: int, thread: int) -> Iterator[dict[str, Any]]:
    at = {"pid": process, "tid": thread}
    start, end = _microseconds(span.start), _microseconds(span.end)
    document = facts_document(span.span.facts)
    facts = {} if document is None else {"facts": document}
    category = "run" if isinstance(span.span, Run) else span.name.partition(" ")[0]
    event = {"name": span.name, "cat": category, "ph": "X", "ts": start, "dur": end - start}
    yield event | at | {"args": _arguments(span) | facts}
    if span.span.outcome.is_bad:
        instant = {"name": f"{span.name} {span.exit_text}", "cat": "failure", "ph": "i", "s": "t", "ts": end}
        yield instant | at | {"args": facts}


def _arguments(span: TraceSpan) -> dict[str, Any]:
    arguments: dict[str, Any] = {"outcome": span.span.outcome.value}
    if span.span.duration is not None:
        arguments["duration"] = span.span.duration
    if span.span.attributes:
        arguments["attributes"] = dict(span.span.attributes)
    if isinstance(span.span, Run):
        run = span.span
        identity = {"bootId": run.boot_id, "invocationId": run.invocation_id, "pid": run.pid}
        arguments |= {"attempt": run.attempt} | {
            name: value for name, value in identity.items() if value is not None
        }
    return arguments


def _metadata(what: str, process: int, thread: int, **arguments: object) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": arguments}


def _microseconds(time: datetime) -> int:
    return nanoseconds(time) // 1000

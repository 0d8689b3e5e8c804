"""Trace Event Format, JSON: what Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process for each service, a thread for what follows or holds one another in it, and further threads for what
overlaps. Times are microseconds since 1970. The format: "Trace Event Format", Google, 2016.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import count
from typing import Any, Final

from service_record.display.document import facts_document
from service_record.display.machine import encoded
from service_record.export.trace import TraceSpan, nanoseconds, trace_spans
from service_record.history import History
from service_record.history.outcome import Run
from service_record.version import __version__

_FIRST_THREAD: Final = "in order"
_OTHER_THREAD: Final = "at the same time"


def to_chrome_trace(history: History, host: str | None) -> Iterator[bytes]:
    """Yield one JSON object with an event on each line."""
    about = {"recorder": f"service-record {__version__}"} | ({"host": host} if host else {})
    head = encoded({"displayTimeUnit": "ms", "otherData": about}).removesuffix("}")
    yield f'{head},"traceEvents":['.encode()
    before = "\n"
    for event in _events(history):
        yield f"{before}{encoded(event)}".encode()
        before = ",\n"
    yield b"\n]}\n"


def _events(history: History) -> Iterator[dict[str, Any]]:
    by_service: dict[str, list[TraceSpan]] = {service.name: [] for service in history.services}
    for span in trace_spans(history):
        by_service[span.run.service].append(span)
    threads = count(len(by_service) + 1)  # unlike every process, for viewers that take them for one kind
    for process, (service, spans) in enumerate(by_service.items(), 1):
        yield _metadata("process_name", process, 0, name=service)
        lanes = _lanes(spans)
        for number, lane in enumerate(lanes):
            thread = next(threads)
            name = f"{_OTHER_THREAD} {number}" if number else _FIRST_THREAD
            yield _metadata("thread_name", process, thread, name=name)
            yield _metadata("thread_sort_index", process, thread, sort_index=number)
            for span in lane:
                yield from _of_span(span, process, thread)


def _lanes(spans: Iterable[TraceSpan]) -> list[list[TraceSpan]]:
    """Return the spans in as few rows as possible where none crosses another: each is within the last or
    after it.
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
    """Return whether a span fits into the innermost one open in a row; those that are over are put aside."""
    while around and around[-1].end <= span.start and not _holds(around[-1], span):
        around.pop()
    return not around or span.end <= around[-1].end


def _holds(around: TraceSpan, span: TraceSpan) -> bool:
    return around.key == span.around and span.end <= around.end


def _of_span(span: TraceSpan, process: int, thread: int) -> Iterator[dict[str, Any]]:
    at = {"pid": process, "tid": thread}
    start, end = _microseconds(span.start), _microseconds(span.end)
    facts = facts_document(span.span.facts)
    category = "run" if isinstance(span.span, Run) else span.name.partition(" ")[0]
    event = {"name": span.name, "cat": category, "ph": "X", "ts": start, "dur": end - start}
    yield event | at | {"args": _arguments(span) | facts}
    if span.span.outcome.is_bad:
        instant = {"name": f"{span.name} {span.ending}", "cat": "failure", "ph": "i", "s": "t", "ts": end}
        yield instant | at | {"args": facts}


def _arguments(span: TraceSpan) -> dict[str, Any]:
    arguments: dict[str, Any] = {"outcome": span.span.outcome.value}
    if span.span.duration is not None:
        arguments["duration"] = span.span.duration
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

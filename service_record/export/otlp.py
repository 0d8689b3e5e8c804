"""OTLP/JSON: the TracesData of the OpenTelemetry protocol, which collectors and trace viewers take.

A trace for each boot, a resource for each service in it, a span for each run, command and stage. As the
protocol has it in JSON, ids are lowercase hexadecimal and 64-bit integers are texts:
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. `export` writes it, `ship` sends it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from service_record.display.machine import encoded
from service_record.export.trace import TraceSpan, nanoseconds, trace_spans
from service_record.history import History
from service_record.history.outcome import Facts, Location, Outcome, Run
from service_record.version import __version__

_INTERNAL: Final = 1
_OK: Final = 1
_ERROR: Final = 2
_MAX_INTEGER: Final = (1 << 63) - 1
_BOOT_ID: Final = re.compile("(?!0{32})[0-9a-f]{32}")
_SCOPE: Final = {"name": "service-record", "version": __version__}


def to_otlp(history: History, host: str | None) -> Iterator[bytes]:
    """Yield one line of JSON: what the collector's file receiver reads, and what is posted to /v1/traces."""
    document = traces_data(trace_spans(history), host, name_of_unnamed_boot(history, host))
    yield f"{encoded(document)}\n".encode()


def traces_data(
    spans: Iterable[TraceSpan], host: str | None, unnamed: str, *, marks: Iterable[TraceSpan] = ()
) -> dict[str, Any]:
    """Return the TracesData of some spans, and of marks that others are running.

    `unnamed` stands for the boot of entries that name none: `name_of_unnamed_boot`.
    """
    by_resource: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for make, some in ((_span, spans), (_running_mark, marks)):
        for span in some:
            of_resource = by_resource.setdefault((span.run.service, span.run.boot_id), [])
            of_resource.append(make(span, _trace_id(span.run.boot_id, unnamed)))
    resources = [
        {
            "resource": {"attributes": _attributes(_resource(service, boot_id, host))},
            "scopeSpans": [{"scope": _SCOPE, "spans": some}],
        }
        for (service, boot_id), some in by_resource.items()
    ]
    return {"resourceSpans": resources}


def _resource(service: str, boot_id: str | None, host: str | None) -> dict[str, object]:
    return {
        "service.name": service,
        "host.name": host,
        "service_record.boot_id": boot_id,
        "service_record.version": __version__,
    }


def name_of_unnamed_boot(history: History, host: str | None) -> str:
    """Return the stand-in for the boot of entries that name none, as upstream's: the records' first time."""
    runs = (run for service in history.services for run in service.runs if run.boot_id is None)
    first = min((run.first_entry for run in runs if run.first_entry is not None), default=None)
    return f"{host} {first}"


def _trace_id(boot_id: str | None, unnamed: str) -> str:
    if boot_id is not None and _BOOT_ID.fullmatch(boot_id):
        return boot_id
    return sha256((boot_id or unnamed).encode(errors="replace")).hexdigest()[:32]


def span_id(key: Sequence[str]) -> str:
    """Return the id of a span, the same whenever and by whomever it is made: 16 hexadecimal digits."""
    return sha256("\0".join(key).encode(errors="replace")).hexdigest()[:16]


def _span(span: TraceSpan, trace_id: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": span_id(span.key),
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(nanoseconds(span.start)),
        "endTimeUnixNano": str(nanoseconds(span.end)),
        "attributes": _attributes(
            dict(span.span.attributes) | _run_facts(span) | _end_facts(span.span.facts)
        ),
    }
    if span.around is not None:
        document["parentSpanId"] = span_id(span.around)
    if span.span.outcome.is_bad:
        document["events"] = [_event(span)]
        document["status"] = {"code": _ERROR, "message": span.ending}
    elif span.span.outcome is Outcome.SUCCESS:
        document["status"] = {"code": _OK}
    return document


_MARK: Final = "is running"


def _running_mark(span: TraceSpan, trace_id: str) -> dict[str, Any]:
    """Return a span of no length that tells of one that has not ended: the protocol knows none of these."""
    start = str(nanoseconds(span.start))
    return {
        "traceId": trace_id,
        "spanId": span_id((*span.key, _MARK)),
        "parentSpanId": span_id(span.key),
        "name": f"{span.name} {_MARK}",
        "kind": _INTERNAL,
        "startTimeUnixNano": start,
        "endTimeUnixNano": start,
        "attributes": _attributes(_run_facts(span)),
    }


def _run_facts(span: TraceSpan) -> dict[str, object]:
    facts: dict[str, object] = {"service_record.outcome": span.span.outcome.value}
    if isinstance(span.span, Run):
        facts |= {
            "service_record.attempt": span.span.attempt,
            "service_record.invocation_id": span.span.invocation_id,
            "process.pid": span.span.pid,
        }
    return facts


def _end_facts(facts: Facts) -> dict[str, object]:
    """Return the known facts of an end, under the names of OpenTelemetry's conventions where there
    are any.
    """
    return {
        "process.exit.code": facts.exit_code,
        **_place(facts),
        "service_record.command": facts.command,
        "service_record.signal": facts.signal,
        "service_record.service_result": facts.service_result,
        "service_record.stop_request": facts.stop_request,
        "service_record.stopped_with": facts.stopped_with,
        "service_record.time_limit": facts.time_limit,
    }


def _place(facts: Facts) -> dict[str, object]:
    """Return the line of the script or program at which it failed."""
    place = facts.location
    return {
        "code.file.path": place.file if place else None,
        "code.line.number": place.line if place else None,
        "code.function.name": place.function or None if place else None,
        "service_record.location_approximate": facts.is_approximate or None,
    }


def _event(span: TraceSpan) -> dict[str, Any]:
    """Return the failure, with its line and its last words, as the event in which viewers look for one."""
    facts = span.span.facts
    attributes = {
        "exception.type": span.ending,
        "exception.message": facts.message,
        "exception.stacktrace": "\n".join(map(_frame, facts.stack)) or None,
        **_place(facts),
    }
    return {
        "timeUnixNano": str(nanoseconds(span.end)),
        "name": "exception",
        "attributes": _attributes(attributes),
    }


def _frame(place: Location) -> str:
    return f"{place.file}:{place.line} in {place.function}"


def _attributes(values: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: object) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, float):
        return {"doubleValue": value}
    fits = isinstance(value, int) and abs(value) <= _MAX_INTEGER
    return {"intValue" if fits else "stringValue": str(value)}

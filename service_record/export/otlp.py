"""OTLP/JSON: the TracesData of the OpenTelemetry protocol, which collectors and trace viewers take.

A trace for each boot, a resource for each service, a span for each run, command and stage. As the protocol
has it in JSON, ids are lowercase hexadecimal and 64-bit integers are texts:
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
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
    by_service: dict[str, list[dict[str, Any]]] = {service.name: [] for service in history.services}
    unnamed = _name_of_unnamed_boot(history, host)
    for span in trace_spans(history):
        by_service[span.run.service].append(_span(span, _trace_id(span.run.boot_id, unnamed)))
    resources = [
        {
            "resource": {"attributes": _attributes({"service.name": service, "host.name": host})},
            "scopeSpans": [{"scope": _SCOPE, "spans": spans}],
        }
        for service, spans in by_service.items()
        if spans
    ]
    yield f"{encoded({'resourceSpans': resources})}\n".encode()


def _name_of_unnamed_boot(history: History, host: str | None) -> str:
    """Return the stand-in for the boot of entries that name none, as upstream's: the records' first time."""
    runs = (run for service in history.services for run in service.runs if run.boot_id is None)
    first = min((run.first_entry for run in runs if run.first_entry is not None), default=None)
    return f"{host} {first}"


def _trace_id(boot_id: str | None, unnamed: str) -> str:
    if boot_id is not None and _BOOT_ID.fullmatch(boot_id):
        return boot_id
    return sha256((boot_id or unnamed).encode(errors="replace")).hexdigest()[:32]


def _span_id(key: Sequence[str]) -> str:
    return sha256("\0".join(key).encode(errors="replace")).hexdigest()[:16]


def _span(span: TraceSpan, trace_id: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": _span_id(span.key),
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(nanoseconds(span.start)),
        "endTimeUnixNano": str(nanoseconds(span.end)),
        "attributes": _attributes(_run_facts(span) | _end_facts(span.span.facts)),
    }
    if span.around is not None:
        document["parentSpanId"] = _span_id(span.around)
    if span.span.outcome.is_bad:
        document["events"] = [_event(span)]
        document["status"] = {"code": _ERROR, "message": span.ending}
    elif span.span.outcome is Outcome.SUCCESS:
        document["status"] = {"code": _OK}
    return document


def _run_facts(span: TraceSpan) -> dict[str, object]:
    facts: dict[str, object] = {"service_record.outcome": span.span.outcome.value}
    if isinstance(span.span, Run):
        facts |= {
            "service_record.attempt": span.span.attempt,
            "service_record.boot_id": span.span.boot_id,
            "service_record.invocation_id": span.span.invocation_id,
            "process.pid": span.span.pid,
        }
    return facts


def _end_facts(facts: Facts) -> dict[str, object]:
    """Return the known facts of an end, under the names of OpenTelemetry's conventions where there
    are any.
    """
    place = facts.location
    return {
        "process.exit.code": facts.exit_code,
        "code.file.path": place.file if place else None,
        "code.line.number": place.line if place else None,
        "code.function.name": place.function or None if place else None,
        "service_record.location_approximate": facts.is_approximate or None,
        "service_record.command": facts.command,
        "service_record.signal": facts.signal,
        "service_record.service_result": facts.service_result,
        "service_record.stop_request": facts.stop_request,
    }


def _event(span: TraceSpan) -> dict[str, Any]:
    """Return the failure as the event in which viewers look for one."""
    facts = span.span.facts
    attributes = {
        "exception.type": span.ending,
        "exception.message": facts.message,
        "exception.stacktrace": "\n".join(map(_frame, facts.stack)) or None,
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
    fits = isinstance(value, int) and abs(value) <= _MAX_INTEGER
    return {"intValue" if fits else "stringValue": str(value)}

"""Write a history as OTLP/JSON, the message TracesData of the OpenTelemetry protocol. Pure.

There is a trace for each boot, a resource for each service in it, and a span for each run, command and stage.
In the protocol's JSON, ids are lowercase hexadecimal and 64-bit integers are strings:
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. `export` writes it, `ship` sends it.
"""

import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from service_record.display.machine import encode_document
from service_record.export.trace import TraceSpan, nanoseconds, trace_spans
from service_record.history import History
from service_record.history.outcome import Facts, Location, Outcome, Run
from service_record.version import __version__

_INTERNAL: Final = 1
_OK: Final = 1
_ERROR: Final = 2
_MAX_INTEGER: Final = (1 << 63) - 1
_BOOT_ID: Final = re.compile("(?!0{32})[0-9a-f]{32}")
_EXCEPTION: Final = re.compile(r"((?:\w+(\.))*[A-Z]\w*)(?:: |$)")
"""`OSError: text` of a built-in class, or `package.module.Class: text`."""
_SCOPE: Final = {"name": "service-record", "version": __version__}
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.37.0"
"""The version of OpenTelemetry's semantic conventions that defines the names of attributes."""


def to_otlp(history: History, host: str | None, host_id: str | None = None) -> Iterator[bytes]:
    """Yield the parts of one line of JSON, which the file receiver of OpenTelemetry's collector reads.

    Each span is encoded separately. Encoding all spans of a long record at once would take a kilobyte of
    memory for each span.
    """
    unnamed = name_of_unnamed_boot(history, host)
    before = '{"resourceSpans":['
    latest = None
    for span in trace_spans(history):
        resource = span.run.service, span.run.boot_id
        if resource != latest:
            end = f"]{_AFTER_SPANS}," if latest else ""
            instance = _trace_id(span.run.boot_id, unnamed)
            whole = encode_document(_resource_spans(_resource(*resource, host, host_id, instance), []))
            begin = whole.removesuffix(f"]{_AFTER_SPANS}")
            before, latest = (end or before) + begin, resource
        yield (before + encode_document(_span(span, _trace_id(span.run.boot_id, unnamed)))).encode()
        before = ","
    yield f"]{_AFTER_SPANS}]}}\n".encode() if latest else b'{"resourceSpans":[]}\n'


def traces_data(
    spans: Iterable[TraceSpan],
    host: str | None,
    unnamed: str,
    *,
    marks: Iterable[TraceSpan] = (),
    host_id: str | None = None,
) -> dict[str, Any]:
    """Return the TracesData of ended `spans`, and of marks for spans that are still running.

    `unnamed` identifies the boot of entries without a boot id: see `name_of_unnamed_boot`.
    """
    by_resource: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for make, some in ((_span, spans), (_running_mark, marks)):
        for span in some:
            of_resource = by_resource.setdefault((span.run.service, span.run.boot_id), [])
            of_resource.append(make(span, _trace_id(span.run.boot_id, unnamed)))
    return {
        "resourceSpans": [
            _resource_spans(_resource(service, boot_id, host, host_id, _trace_id(boot_id, unnamed)), some)
            for (service, boot_id), some in by_resource.items()
        ]
    }


def _resource_spans(resource: dict[str, object], spans: list[dict[str, Any]]) -> dict[str, Any]:
    # `to_otlp` splits the encoded document before _AFTER_SPANS, so only the schemas may follow the spans.
    return {
        "resource": {"attributes": _attributes(resource)},
        "scopeSpans": [{"scope": _SCOPE, "spans": spans, "schemaUrl": _SCHEMA}],
        "schemaUrl": _SCHEMA,
    }


_AFTER_SPANS: Final = f',"schemaUrl":"{_SCHEMA}"}}],"schemaUrl":"{_SCHEMA}"}}'


def _resource(
    service: str, boot_id: str | None, host: str | None, host_id: str | None, instance: str
) -> dict[str, object]:
    return {
        "service.name": service,
        # Name and instance id together must be unique. A resource is a service in one boot.
        "service.instance.id": instance,
        "host.name": host,
        "host.id": host_id,
        "service_record.boot_id": boot_id,
        "service_record.version": __version__,
    }


def name_of_unnamed_boot(history: History, host: str | None) -> str:
    """Return a substitute for the boot id of entries without one: the host and their first time."""
    runs = (run for service in history.services for run in service.runs if run.boot_id is None)
    first = min((run.first_entry for run in runs if run.first_entry is not None), default=None)
    return f"{host} {first}"


def _trace_id(boot_id: str | None, unnamed: str) -> str:
    if boot_id is not None and _BOOT_ID.fullmatch(boot_id):
        return boot_id
    return sha256((boot_id or unnamed).encode(errors="replace")).hexdigest()[:32]


def span_id(key: Sequence[str]) -> str:
    """Return the id of a span: 16 hexadecimal digits that depend on the key only."""
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
            dict(span.span.attributes) | _run_facts(span) | _end_facts(span.span.facts) | _error_type(span)
        ),
    }
    if span.around is not None:
        document["parentSpanId"] = span_id(span.around)
    if span.span.outcome.is_bad:
        document["events"] = [_event(span)]
        document["status"] = {"code": _ERROR, "message": span.exit_text}
    elif span.span.outcome is Outcome.SUCCESS:
        document["status"] = {"code": _OK}
    return document


_MARK: Final = "is running"


def _running_mark(span: TraceSpan, trace_id: str) -> dict[str, Any]:
    """Return a zero-length span that marks a running span, because the protocol has no spans without end."""
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
    """Return the known facts of an end, with names of OpenTelemetry's conventions if these define one."""
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


def _error_type(span: TraceSpan) -> dict[str, object]:
    """Return the class of the error, by which a backend groups failed spans."""
    return {"error.type": (exception_type(span) or span.exit_text) if span.span.outcome.is_bad else None}


def _place(facts: Facts) -> dict[str, object]:
    """Return the place of the failure in the script or program."""
    place = facts.location
    return {
        "code.file.path": place.file if place else None,
        "code.line.number": place.line if place else None,
        "code.function.name": place.function or None if place else None,
        "service_record.location_approximate": facts.is_approximate or None,
    }


def _event(span: TraceSpan) -> dict[str, Any]:
    """Return the failure as an exception event with place and message, which trace viewers show."""
    facts = span.span.facts
    attributes = {
        "exception.type": exception_type(span) or span.exit_text,
        "exception.message": facts.message,
        "exception.stacktrace": "\n".join(map(_frame, facts.stack)) or None,
        **_place(facts),
    }
    return {
        "timeUnixNano": str(nanoseconds(span.end)),
        "name": "exception",
        "attributes": _attributes(attributes),
    }


def exception_type(span: TraceSpan) -> str | None:
    """Return the class of the exception that ended a run, command or stage of a Python service; else None.

    The recorder writes exceptions as `Class: text`, outermost last. The text may have several lines.
    """
    if not (span.run.recorder or "").startswith("python/"):
        return None
    for line in reversed((span.span.facts.message or "").split("\n")):
        match = _EXCEPTION.match(line)
        if match and (match[2] or _is_exception(match[1])):
            return match[1]
    return None


def _is_exception(name: str) -> bool:
    """Return whether a name without a module names an exception. Other lines may look alike: `Note: text`."""
    known = getattr(builtins, name, None)
    is_builtin = isinstance(known, type) and issubclass(known, BaseException)
    return is_builtin or name.endswith(("Error", "Exception", "Warning"))


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

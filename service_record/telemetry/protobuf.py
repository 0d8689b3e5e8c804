"""Traces as the bytes of the OpenTelemetry protocol, and what a backend answers. Pure.

`service_record.export.otlp` says what becomes of a record; here it only changes its form.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

_IDS: Final = frozenset(("traceId", "spanId", "parentSpanId"))


def request_of(traces_data: Mapping[str, Any]) -> bytes:
    """Return the request that carries a TracesData in the protocol's JSON form."""
    return ParseDict(_with_base64_ids(traces_data), ExportTraceServiceRequest()).SerializeToString()


def _with_base64_ids(value: Any) -> Any:
    """Return the document with ids in base64: OTLP has them in hexadecimal, protobuf's own JSON has not."""
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_base64_ids(item)
        for key, item in value.items()
    }


def rejected_spans(body: bytes) -> tuple[int, str]:
    """Return how many spans a good answer says were not taken, and the reason; it may warn of none."""
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return 0, ""
    return max(partial.rejected_spans, 0), partial.error_message


def refusal_message(body: bytes) -> str:
    """Return the message of a refusal: a google.rpc.Status, which has it as the second field, too."""
    try:
        return ExportTracePartialSuccess.FromString(body).error_message
    except DecodeError:
        return ""

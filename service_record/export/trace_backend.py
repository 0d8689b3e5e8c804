"""Post traces by OTLP over HTTP, and read the backend's answers.

The protocol says which failures may be retried, that a partial success must not be, and that a refused
request is dropped: https://opentelemetry.io/docs/specs/otlp/#otlphttp.
"""

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from service_record.http.address import CA_VARIABLE, NotTaken, environment_path
from service_record.http.answers import Unreachable, printable
from service_record.http.attempt import Request
from service_record.http.collector_client import SingleTryClient, describe_refusal
from service_record.http.transport import acknowledged

_IDS: Final = frozenset(("traceId", "spanId", "parentSpanId"))


def request_of(traces_data: Mapping[str, Any]) -> bytes:
    """Return the body of a request with this TracesData, which is in the protocol's JSON form."""
    return ParseDict(_with_base64_ids(traces_data), ExportTraceServiceRequest()).SerializeToString()


def _with_base64_ids(value: Any) -> Any:
    """Return the document with ids in base64, as protobuf's JSON parser needs them, not in hexadecimal."""
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_base64_ids(item)
        for key, item in value.items()
    }


def rejected_spans(body: bytes) -> tuple[int, str]:
    """Return the number of rejected spans in a successful answer, and the reason or a warning."""
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return 0, ""
    return max(partial.rejected_spans, 0), partial.error_message


def refusal_message(body: bytes) -> str:
    """Return the message of a refusal, a google.rpc.Status. There, too, the second field is the message."""
    try:
        return ExportTracePartialSuccess.FromString(body).error_message
    except DecodeError:
        return ""


_UPLOAD_SECONDS: Final = 300.0
_MOST_ANSWER: Final = 64 << 10
_TRY_AGAIN: Final = frozenset(
    (
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    )
)
_HEADERS: Final = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
_PROTOBUF: Final = "application/x-protobuf"


@dataclass(frozen=True, slots=True)
class Reception:
    """The final answer to a request."""

    rejected: int = 0
    """Number of spans that the backend will never accept."""
    reason: str = ""
    """The reason, or a warning about accepted spans, in one line that is safe to print."""


class TraceBackend(SingleTryClient):
    """Connections to one backend."""

    def __init__(self, url: str, headers: Mapping[str, str], *, ca_bundle: Path | None = None) -> None:
        self._secrets = tuple(headers.values())
        bundle = ca_bundle or environment_path(CA_VARIABLE)
        super().__init__(url, headers, self._secrets, ca_bundle=bundle, transfer_seconds=_UPLOAD_SECONDS)

    def post(self, body: bytes, spans: int) -> Reception:
        """Send a request with this number of spans. Raises NotTaken if it was not accepted."""
        request = Request(
            method="POST",
            url=self.url,
            headers=_HEADERS,
            file=gzip.compress(body, 6, mtime=0),
            most_body=_MOST_ANSWER,
            most_refusal=_MOST_ANSWER,
        )
        reply = self._transport.call(request)
        outcome = acknowledged(reply, {HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT})
        if isinstance(outcome, Unreachable):
            raise NotTaken(f"{self.url}: {outcome.reason}", is_final=False)
        is_protobuf = reply.headers.get("content-type", "").startswith(_PROTOBUF)
        if outcome.good:
            rejected, reason = rejected_spans(bytes(reply.body)) if is_protobuf else (0, "")
            return Reception(min(rejected, spans), self._printable(reason))
        text = refusal_message(bytes(reply.body)) if is_protobuf else outcome.text
        reason = f"{outcome.status}: {self._printable(describe_refusal(outcome, text))}"
        if outcome.status == HTTPStatus.BAD_REQUEST:  # only these spans are bad
            return Reception(spans, reason)
        is_final = outcome.status not in _TRY_AGAIN
        raise NotTaken(f"{self.url}: {reason}", is_final=is_final, retry_after=outcome.retry_after)

    def _printable(self, text: str) -> str:
        return printable(text, filter(None, self._secrets))

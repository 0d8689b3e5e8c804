"""Post traces by OTLP over HTTP, and read the backend's answers.

The protocol defines which failed requests may be retried. Partly accepted requests must not be retried, and
refused ones are dropped: https://opentelemetry.io/docs/specs/otlp/#otlphttp.
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
    """Encode TracesData, given in the protocol's JSON form, as the body of a request (protobuf)."""
    return ParseDict(_with_base64_ids(traces_data), ExportTraceServiceRequest()).SerializeToString()


def _with_base64_ids(value: Any) -> Any:
    """Return the document with ids converted from hexadecimal to base64, for protobuf's JSON parser."""
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
    """Return the message of a refusal, which is a google.rpc.Status."""
    # The text is the second field of both messages, so no class for google.rpc.Status is needed.
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
    """Number of spans that the backend refused and will not accept later."""
    reason: str = ""
    """The reason, or a warning about accepted spans: one printable line."""


class TraceBackend(SingleTryClient):
    """A client of one trace backend."""

    def __init__(self, url: str, headers: Mapping[str, str], *, ca_bundle: Path | None = None) -> None:
        self._secrets = tuple(headers.values())
        bundle = ca_bundle or environment_path(CA_VARIABLE)
        super().__init__(url, headers, self._secrets, ca_bundle=bundle, transfer_seconds=_UPLOAD_SECONDS)

    def post(self, body: bytes, spans: int) -> Reception:
        """Send a request that contains `spans` spans. Raises NotTaken if it was not accepted."""
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

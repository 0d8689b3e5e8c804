"""Posts traces by OTLP over HTTP, and says by the protocol's rules what became of them.

https://opentelemetry.io/docs/specs/otlp/#otlphttp: which failures may be tried again, that partial success
may not, and that a refused request is dropped.
"""

import base64
import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from service_record.client.address import CA_VARIABLE, CollectorError, NotTaken, environment_path
from service_record.http.answers import Answered, RetryPolicy, Unreachable, printable
from service_record.http.attempt import Request
from service_record.http.proxies import proxies_of
from service_record.http.transport import Transport, acknowledged

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


_SECONDS: Final = 30.0
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
    """A backend's final answer to a request."""

    rejected: int = 0
    """Spans that it does not want, now or later."""
    reason: str = ""
    """The reason, in one line that is safe to print; it may also warn of spans that were taken."""


class TraceBackend:
    """Connections to one backend. Close it, or use it as a context manager. Each request is tried once."""

    def __init__(self, url: str, headers: Mapping[str, str], *, ca_bundle: Path | None = None) -> None:
        """Take the proxies of the environment. Raises CollectorError when a setting cannot be used."""
        self.url = url
        self._secrets = tuple(headers.values())
        self._transport = Transport(
            url,
            ca_bundle=ca_bundle or environment_path(CA_VARIABLE),
            proxies=proxies_of(os.environ),
            retry_policy=RetryPolicy(
                connect=_SECONDS,
                read=_SECONDS,
                write=_SECONDS,
                total=_SECONDS,
                upload_total=_UPLOAD_SECONDS,
                answer=_SECONDS,
                tries=1,
                upload_tries=1,
            ),
            headers=headers,
            secrets=self._secrets,
            keeps_connections=True,
        )
        if self._transport.fault is not None:
            raise CollectorError(f"{url}: {self._transport.fault.reason}")

    def post(self, body: bytes, spans: int) -> Reception:
        """Send a request with so many spans. Raises NotTaken when it was not taken."""
        request = Request(method="POST", url=self.url, headers=_HEADERS, file=gzip.compress(body, 6, mtime=0))
        reply = self._transport.call(request, tries=1, most_body=_MOST_ANSWER, most_refusal=_MOST_ANSWER)
        outcome = acknowledged(reply, {HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT})
        if isinstance(outcome, Unreachable):
            raise NotTaken(f"{self.url}: {outcome.reason}", is_final=False)
        is_protobuf = reply.headers.get("content-type", "").startswith(_PROTOBUF)
        if outcome.good:
            rejected, reason = rejected_spans(bytes(reply.body)) if is_protobuf else (0, "")
            return Reception(min(rejected, spans), self._printable(reason))
        reason = self._refusal(outcome, refusal_message(bytes(reply.body)) if is_protobuf else outcome.text)
        if outcome.status == HTTPStatus.BAD_REQUEST:  # these spans are at fault: others may be taken
            return Reception(spans, reason)
        is_final = outcome.status not in _TRY_AGAIN
        raise NotTaken(f"{self.url}: {reason}", is_final=is_final, retry_after=outcome.retry_after)

    def _refusal(self, outcome: Answered, text: str) -> str:
        is_standard = outcome.status in set(HTTPStatus)
        reason = text or (HTTPStatus(outcome.status).phrase if is_standard else "no reason")
        return f"{outcome.status}: {self._printable(reason)}"

    def _printable(self, text: str) -> str:
        return printable(text, filter(None, self._secrets))

    def close(self) -> None:
        """Give the connections back."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

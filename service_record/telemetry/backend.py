"""Posts traces by OTLP over HTTP, and says by the protocol's rules what became of them.

https://opentelemetry.io/docs/specs/otlp/#otlphttp: which failures may be tried again, that partial success
may not, and that a refused request is dropped.
"""

import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from service_record.client.address import CA_VARIABLE, CollectorError, NotTaken, environment_path
from service_record.http.answers import Answered, RetryPolicy, Unreachable, printable
from service_record.http.attempt import Request
from service_record.http.proxies import proxies_of
from service_record.http.transport import Transport, acknowledged
from service_record.telemetry.protobuf import refusal_message, rejected_spans

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

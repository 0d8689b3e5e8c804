"""Answer reports of single steps without the ASGI application: no task, no routing and no middleware.

Nearly all requests are such reports, and routing and middleware would take longer than storing them. A report
is answered here only if it can be written at once. Otherwise the application answers it, makes it wait or
refuses it. This is decided before anything is counted or stored.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import msgspec

from service_record.collector.api.answering import add_safe_headers, render_refusal
from service_record.collector.api.guard import bearer_token
from service_record.collector.api.metrics import Metrics, log_fault, log_refusal, new_request_id
from service_record.collector.api.operation import HOSTS
from service_record.collector.api.requests import parse_fields
from service_record.collector.api.serving import REFUSED, Serving, make_refusal
from service_record.collector.api.step_calls import accept_report, make_report
from service_record.collector.domain.access import parse_token
from service_record.collector.domain.reports import parse_step
from service_record.collector.store.reporting import Report, record_steps
from service_record.collector.store.row_writer import Unavailable
from service_record.http.address import is_host_name

ROUTE: Final = "/api/v1/hosts/{host}/steps"
_URL: Final = re.compile(rb"/api/v1/hosts/([A-Za-z0-9._-]+)/steps")
_ENCODER: Final = msgspec.json.Encoder()
RawHeaders = Sequence[tuple[bytes, bytes]]
Send = Callable[[HTTPStatus, bytes, bytes], None]
"""Sends a response: its status, the lines of its headers without Content-Length, and its body."""


def match_host(url: bytes) -> str:
    """Return the host in the URL of a report, or an empty text. The application reads other spellings."""
    match = _URL.fullmatch(url)
    return match[1].decode() if match else ""


class DirectReports:
    """Stores and answers the reports of a server. Use it only on the server's event loop."""

    def __init__(self, serving: Serving, metrics: Metrics) -> None:
        self._serving = serving
        self._metrics = metrics
        json = [(b"content-type", b"application/json")]
        self._headers = {is_tls: _header_lines(json, is_tls=is_tls) for is_tls in (False, True)}

    def take(
        self,
        host: str,
        headers: RawHeaders,
        body: bytes,
        client: tuple[str, int] | None,
        send: Send,
        *,
        is_tls: bool,
    ) -> bool:
        """Store a report, and call `send` once it is on disk.

        Returns False if the application must take the report.
        """
        began = time.perf_counter()
        authorization = key = b""
        for name, value in reversed(headers):  # the first counts if a header is repeated
            if name == b"authorization":
                authorization = value
            elif name == b"idempotency-key":
                key = value
        serving = self._serving
        token = parse_token(bearer_token(authorization.decode("latin-1")) or "")
        grant = None if token is None else serving.guard.find_cached(token)
        if grant is None or grant.kind not in HOSTS.kinds:
            return False
        if not is_host_name(host) or len(body) > serving.settings.most_body:
            return False
        try:
            step = parse_step(parse_fields(body))
        except REFUSED:
            return False
        if not serving.guard.admit_at_once(grant, host):
            return False
        report = make_report(serving, grant, host.lower(), step, key.decode("latin-1"))
        finish = partial(self._finish, report, began=began, client=client, send=send, is_tls=is_tls)
        try:
            loop = asyncio.get_running_loop()
            serving.collector.writer.submit(record_steps, [report], loop, finish)
        except Unavailable as error:
            finish(error)
        return True

    def _finish(
        self,
        report: Report,
        result: Any,
        *,
        began: float,
        client: tuple[str, int] | None,
        send: Send,
        is_tls: bool,
    ) -> None:
        """Answer a report. `result` is that of the writer: a sequence of one result, or an exception."""
        request_id = new_request_id()
        status = HTTPStatus.CREATED
        try:
            outcome = result if isinstance(result, Exception) else result[0]
            body = _ENCODER.encode(accept_report(self._serving, report, outcome))
            headers = self._headers[is_tls]
        except Exception as error:  # noqa: BLE001  # after a bug, the other answers must still be sent
            address = client[0] if client else ""
            event = {"method": "POST", "route": ROUTE, "address": address, "token": report.grant.token_id}
            known = isinstance(error, REFUSED)
            refusal = make_refusal(error) if known else log_fault(request_id, event, error)
            response = render_refusal(refusal)
            status, body = HTTPStatus(response.status_code), bytes(response.body)
            headers = _header_lines(response.raw_headers, is_tls=is_tls)
            log_refusal(request_id, event, status, time.perf_counter() - began)
        send(status, b"%bx-request-id: %b\r\n" % (headers, request_id.encode()), body)
        self._metrics.count(ROUTE, "POST", status, time.perf_counter() - began, None)


def _header_lines(headers: RawHeaders, *, is_tls: bool) -> bytes:
    """Return these headers and the security headers as lines, without Content-Length."""
    lines = [header for header in headers if header[0] != b"content-length"]
    add_safe_headers(lines, is_tls=is_tls)
    return b"".join(b"%b: %b\r\n" % header for header in lines)

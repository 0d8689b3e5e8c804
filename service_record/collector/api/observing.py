"""Sees every request to its end: counts it, logs it where it is refused, and answers for faults of ours."""

import secrets
import time
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service_record.collector.api.answers import Refusal, refused
from service_record.collector.api.metrics import Metrics
from service_record.collector.logs import fault_of, log

_NO_ROUTE = "none"


class Observed:
    """Middleware that gives each request an id, which is in its answer and in the log."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, began = secrets.token_hex(8), time.perf_counter()
        status = 0

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_observed)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the server goes on
            log().error("fault", request=request_id, **_said(scope), **fault_of(fault))
            if status == 0:
                await refused(_sorry(request_id), scope["path"])(scope, receive, send_observed)
        finally:
            seconds = time.perf_counter() - began
            self._metrics.count(_route(scope), scope["method"], status, seconds)
            if status >= HTTPStatus.BAD_REQUEST:
                said = _said(scope) | {"status": status, "milliseconds": round(seconds * 1000, 1)}
                log().info("refused", request=request_id, **said)


def _sorry(request_id: str) -> Refusal:
    return Refusal(
        HTTPStatus.INTERNAL_SERVER_ERROR, f"a fault of the collector's; its log has it as {request_id}"
    )


def _said(scope: Scope) -> dict[str, object]:
    """What of a request may be logged: never its path, query or headers, where secrets might be."""
    client = scope.get("client")
    return {
        "method": scope["method"] if scope["method"] in _METHODS else "other",
        "route": _route(scope),
        "address": client[0] if client else "",
        "token": scope.get("state", {}).get("token_id"),
    }


_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", _NO_ROUTE)

"""Prometheus metrics, the log of failed requests, and health checks."""

import asyncio
import itertools
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector as Source
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service_record.collector.api.answering import (
    PlainText,
    Refusal,
    UnavailableText,
    add_safe_headers,
    render_refusal,
)
from service_record.collector.api.operation import ANYBODY, READERS, operation
from service_record.collector.api.serving import Serving, caller
from service_record.collector.assisted.cluster_rows import count_by_status
from service_record.collector.logs import describe_fault, log
from service_record.collector.process import Collector
from service_record.collector.store import notices
from service_record.collector.store.absences import sum_absences
from service_record.collector.store.dialects import insert_into
from service_record.collector.store.fleet import Filters, count_by_verdict
from service_record.collector.store.schema import counters

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
OVERLOADED: Final = (429, 503, 507)
"""Statuses with which reports are refused: too many requests, unavailable, or no space."""
_METHODS: Final = {"GET", "HEAD", "POST", "PUT", "DELETE"}


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the reports in one request, which may be a batch."""

    taken: int
    """The number of accepted reports."""
    refused: Mapping[int, int]
    """One of the statuses `OVERLOADED` -> number of reports that were refused with it."""


class Metrics:
    """The metrics of one process of the collector."""

    def __init__(self, collector: Collector, counted: Mapping[str, str]) -> None:
        """Create the metrics.

        `counted`: route -> value of the label `kind`, for the routes that accept reports.
        """
        self._counted = counted
        self.registry = CollectorRegistry()
        self.registry.register(_CurrentValues(collector))
        self._requests = Counter(
            "service_record_requests",
            "Requests by their status. Status 0: the client disconnected before the answer.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "service_record_request_seconds",
            "Seconds from the headers of a request to the end of its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._refusals = collector.refusals
        self._refused = Counter(
            "service_record_refused_reports",
            "Reports that were refused: too many (429), or the collector could not store them (503, 507).",
            ("status",),
            registry=self.registry,
        )
        for status in OVERLOADED:
            self._refused.labels(str(status))  # exports 0 before the first refusal
        self._taken = Counter(
            "service_record_ingested",
            "Accepted reports of hosts, by their kind.",
            ("kind",),
            registry=self.registry,
        )

    def count(self, route: str, method: str, status: int, seconds: float, results: "Results | None") -> None:
        """Count a finished request. `results`: the results of a batch of reports; None for other requests."""
        requests, times, taken = self._labelled_metrics(
            route, method if method in _METHODS else "other", status
        )
        requests.inc()
        times.observe(seconds)
        if taken is None:
            return
        if results is None:
            is_taken = HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
            # Routes are counted for all methods. A GET has stored a report only if its status is 201.
            is_taken = is_taken and (method != "GET" or status == HTTPStatus.CREATED)
            results = Results(int(is_taken), {status: 1} if status in OVERLOADED else {})
        if results.taken:
            taken.inc(results.taken)
        for refusal, number in results.refused.items():
            self._refused.labels(str(refusal)).inc(number)
            self._refusals.count(number)

    @lru_cache(4096)  # noqa: B019  # lives as long as the process; labels() is slow
    def _labelled_metrics(
        self, route: str, method: str, status: int
    ) -> tuple[Counter, Histogram, Counter | None]:
        kind = self._counted.get(route)
        taken = None if kind is None else self._taken.labels(kind)
        return self._requests.labels(route, method, str(status)), self._seconds.labels(route), taken

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format. Queries the database."""
        return generate_latest(self.registry)


class _CurrentValues(Source):
    """Metrics whose values are read from the writer and the database at the time of the request."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        writer = self._collector.writer
        yield GaugeMetricFamily(
            "service_record_writer_waiting",
            "Changes that wait to be written to the database.",
            writer.waiting(),
        )
        yield CounterMetricFamily("service_record_commits", "Committed transactions.", writer.commits)
        yield CounterMetricFamily(
            "service_record_changes", "Changes in committed transactions.", writer.changes
        )
        yield CounterMetricFamily(
            "service_record_conflicts", "Transactions that were repeated after a conflict.", writer.conflicts
        )
        yield CounterMetricFamily(
            "service_record_commit_seconds",
            "Seconds that transactions took, including the commit.",
            writer.seconds,
        )
        with self._collector.database.reading() as connection:
            verdicts = count_by_verdict(connection, Filters())
            waiting = dict.fromkeys(self._collector.destinations, 0) | notices.count_waiting(connection)
            statuses = count_by_status(connection)
            away = sum_absences(connection)
        yield CounterMetricFamily(
            "service_record_away_seconds", "Seconds in which the collector accepted no reports.", away
        )
        for name, text, label, numbers in (
            ("hosts", "Hosts by verdict.", "verdict", verdicts),
            ("clusters", "Clusters by state.", "status", statuses),
            (
                "notices_waiting",
                "Notifications that are not delivered yet, by destination.",
                "destination",
                waiting,
            ),
        ):
            family = GaugeMetricFamily(f"service_record_{name}", text, labels=(label,))
            for value, number in numbers.items():
                family.add_metric((value,), number)
            yield family


@operation(
    "GET /metrics",
    who=READERS,
)
async def metrics(request: Request) -> PlainText:
    """Metrics for Prometheus."""
    _, grant = caller(request)
    if grant.confined_to:
        raise Refusal(HTTPStatus.FORBIDDEN, "metrics are of all hosts: this token reads one group only")
    counted: Metrics = request.app.state.metrics
    text = await run_in_threadpool(counted.text)
    return PlainText(text, CONTENT_TYPE_LATEST)


_PROBE: Final = "readyz"
_READY_SECONDS: Final = 5.0
"""The process is not ready if the database does not commit a change within this time."""


@operation(
    "GET /healthz",
    who=ANYBODY,
)
async def healthy(_: Request) -> PlainText:
    """Check that the process runs."""
    return PlainText("ok\n")


@operation(
    "GET /readyz",
    who=ANYBODY,
)
async def ready(request: Request) -> PlainText | UnavailableText:
    """Check that the process runs and the database accepts writes."""
    writer = Serving.of(request).collector.writer
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await asyncio.shield(asyncio.wrap_future(writer.change(_write_probe)))
    except Exception:  # noqa: BLE001  # after any error the process is not ready
        return UnavailableText("the database cannot be written\n")
    return PlainText("ok\n")


def _write_probe(connection: Connection) -> None:
    """Change an unused row, so that the commit has to write to the disk."""
    new = insert_into(connection, counters).values(name=_PROBE, latest=0)
    increment = {"latest": counters.c.latest + 1}  # SQLite writes nothing if no byte changes
    connection.execute(new.on_conflict_do_update(index_elements=["name"], set_=increment))


_NO_ROUTE = "none"
_ID_START: Final = secrets.token_hex(4)
_ID_NUMBERS: Final = itertools.count(1)


def new_request_id() -> str:
    """Return a request id that is unlikely to be used by another process or after a restart.

    Only the start of the id is random, once per process. Reading random bytes for each request would release
    the interpreter lock to another thread, and the request would have to wait for it.
    """
    return f"{_ID_START}{next(_ID_NUMBERS):08x}"


def log_fault(request_id: str, event: Mapping[str, object], fault: Exception) -> Refusal:
    """Log an exception that no handler expected. Return the refusal that answers the request."""
    log().error("fault", request=request_id, **event, **describe_fault(fault))
    reason = f"internal error of the collector; its log has it as {request_id}"
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, reason)


def log_refusal(request_id: str, event: Mapping[str, object], status: int, seconds: float) -> None:
    """Log an answer with an error status."""
    fields = {**event, "status": status, "milliseconds": round(seconds * 1000, 1)}
    log().info("refused", request=request_id, **fields)


class Observed:
    """ASGI middleware that counts requests, logs failed ones, and adds security headers and a request id.

    The request id is in the header `X-Request-Id` and in the log. Security headers that a handler has set
    itself, such as Cache-Control, are kept.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, began = new_request_id(), time.perf_counter()
        status = 0

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                message["headers"].append((b"x-request-id", request_id.encode()))
                add_safe_headers(message["headers"], is_tls=scope.get("scheme") == "https")
            await send(message)

        try:
            await self._app(scope, receive, send_observed)
        except Exception as fault:  # noqa: BLE001  # a bug in a handler must not stop the server
            refusal = log_fault(request_id, _loggable(scope), fault)
            if status == 0:
                await render_refusal(refusal, scope["path"])(scope, receive, send_observed)
        finally:
            seconds = time.perf_counter() - began
            results = scope.get("state", {}).get("results")
            self._metrics.count(_route(scope), scope["method"], status, seconds, results)
            if status >= HTTPStatus.BAD_REQUEST:
                log_refusal(request_id, _loggable(scope), status, seconds)


def _loggable(scope: Scope) -> dict[str, object]:
    """Return a request's fields for the log, without path, query and headers, which may hold secrets."""
    client = scope.get("client")
    return {
        "method": scope["method"] if scope["method"] in _KNOWN_METHODS else "other",
        "route": _route(scope),
        "address": client[0] if client else "",
        "token": scope.get("state", {}).get("token_id"),
    }


_KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}
"""Methods that appear in the log by name. Metrics have fewer names, so that they have fewer time series."""


def _route(scope: Scope) -> str:
    """Return the path template of the matched route, such as `/api/v1/hosts/{name}`, or `none`."""
    return getattr(scope.get("route"), "path", _NO_ROUTE)

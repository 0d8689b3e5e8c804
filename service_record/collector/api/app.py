"""The application: which handler answers which call or page, and how a refusal looks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from sqlalchemy import Connection, delete, insert
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from service_record.collector.api import (
    admin_calls,
    assisted_calls,
    bundle_calls,
    cluster_calls,
    host_calls,
    record_calls,
    step_calls,
)
from service_record.collector.api.answering import EitherSlash, Refusal, SafeHeaders, refused
from service_record.collector.api.guard import Guard
from service_record.collector.api.metrics import Metrics, Observed, metrics
from service_record.collector.api.openapi import get_document
from service_record.collector.api.requests import NUMBER
from service_record.collector.api.serving import Serving, unavailable
from service_record.collector.logs import fault_of, log
from service_record.collector.process import Collector
from service_record.collector.store.row_writer import Unavailable
from service_record.collector.store.schema import counters
from service_record.collector.web import cluster_page, events, fleet_page, host_page, login, statistics_page
from service_record.collector.web.analyses import Analyses
from service_record.collector.web.login import for_readers
from service_record.collector.web.pages import environment, get_asset
from service_record.collector.web.statistics_page import Recent

PAGES: Final = (
    Route("/", for_readers(fleet_page.get_fleet)),
    Route("/hosts/{host}", for_readers(host_page.get_host)),
    Route(f"/hosts/{{host}}/steps/{{step:{NUMBER}}}/logs", for_readers(host_page.get_logs)),
    Route("/hosts/{host}/analysis", for_readers(host_page.get_analysis)),
    Route("/hosts/{host}/bundles/{bundle}", for_readers(bundle_calls.send_bundle)),
    Route("/clusters", for_readers(cluster_page.get_clusters)),
    Route("/clusters/{cluster}", for_readers(cluster_page.get_cluster)),
    Route("/clusters/{cluster}/logs/{kind}", for_readers(cluster_page.get_logs)),
    Route("/hosts/{host}/templates/{template}", for_readers(bundle_calls.show_template)),
    Route("/statistics", for_readers(statistics_page.get_statistics)),
    Route("/events", for_readers(events.get_events)),
    Route("/login", login.get_login, methods=["GET"]),
    Route("/login", login.post_login, methods=["POST"]),
    Route("/logout", for_readers(login.post_logout), methods=["POST"]),
    Route("/static/{file}", get_asset),
)


STEPS = "/api/v1/hosts/{host}/steps"


def application(collector: Collector) -> Starlette:
    """The ASGI application of a collector, which is closed when the application shuts down."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        collector.start()
        try:
            yield
        finally:
            await run_in_threadpool(app.state.analyses.close)
            await run_in_threadpool(collector.close)

    environment()  # a template with a fault stops the start
    counted = Metrics(collector)
    app = Starlette(
        routes=[
            Route("/healthz", healthy),
            Route("/readyz", ready),
            Route("/metrics", metrics),
            Route("/api/v1/openapi.json", get_document),
            Route(STEPS, step_calls.post_step, methods=["POST"]),
            Route(STEPS, step_calls.get_step, methods=["GET"]),
            Route("/api/v1/hosts/{host}/templates", bundle_calls.post_template, methods=["POST"]),
            Route("/api/v1/boot/{secret}", step_calls.get_boot, methods=["GET"]),
            Route("/api/v1/hosts", host_calls.list_hosts, methods=["GET"]),
            Route("/api/v1/hosts/{host}", host_calls.show_host, methods=["GET"]),
            Route(f"/api/v1/hosts/{{host}}/builds/{{n:{NUMBER}}}", host_calls.show_build, methods=["GET"]),
            Route("/api/v1/statistics", host_calls.show_statistics, methods=["GET"]),
            Route("/api/v1/enrol", admin_calls.enrol, methods=["POST"]),
            Route("/api/v1/tokens", admin_calls.create_token, methods=["POST"]),
            Route("/api/v1/tokens", admin_calls.list_tokens, methods=["GET"]),
            Route("/api/v1/tokens/{token}", admin_calls.revoke_token, methods=["DELETE"]),
            Route("/api/v1/audit", admin_calls.list_audit, methods=["GET"]),
            Route("/api/v1/hosts/{host}", admin_calls.put_host, methods=["PUT"]),
            Route("/api/v1/hosts/{host}", admin_calls.delete_host, methods=["DELETE"]),
            Route("/api/v1/hosts/{host}/builds", admin_calls.begin_build, methods=["POST"]),
            Route("/api/update", step_calls.post_update, methods=["POST"]),
            *assisted_calls.ROUTES,
            *cluster_calls.ASSISTED_ROUTES,
            *cluster_calls.ROUTES,
            *bundle_calls.ROUTES,
            *record_calls.ROUTES,
            *PAGES,
        ],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(Observed, metrics=counted),
            Middleware(EitherSlash, prefix=assisted_calls.BASE),
        ],
        exception_handlers={
            Refusal: _refused,
            Unavailable: _unavailable,
            HTTPException: _http,
            OperationalError: _no_database,
            InterfaceError: _no_database,
            PoolTimeout: _no_database,
        },
        lifespan=lifespan,
    )
    app.state.analyses = Analyses(collector)
    app.state.statistics = Recent(collector)
    app.state.serving = Serving(collector, Guard(collector, collector.settings.rates), counted)
    return app


_PROBE: Final = "readyz"
_READY_SECONDS: Final = 5.0
"""How long the database may take to commit until the process counts as not ready."""


async def healthy(_: Request) -> Response:
    """`GET /healthz`: the process answers."""
    return PlainTextResponse("ok\n")


async def ready(request: Request) -> Response:
    """`GET /readyz`: the database can be changed, too: a small write is committed."""
    writer = Serving.of(request).collector.writer
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await asyncio.shield(asyncio.wrap_future(writer.change(_write_probe)))
    except Exception:  # noqa: BLE001  # whatever it is, it is not ready
        return PlainTextResponse("the database cannot be written\n", HTTPStatus.SERVICE_UNAVAILABLE)
    return PlainTextResponse("ok\n")


def _write_probe(connection: Connection) -> None:
    """Replace a row that nobody reads, so that the commit needs the disk.

    SQLite writes nothing for an update that changes no byte, hence the deletion.
    """
    connection.execute(delete(counters).where(counters.c.name == _PROBE))
    connection.execute(insert(counters).values(name=_PROBE, latest=0))


async def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)  # noqa: S101
    return refused(refusal, request.url.path)


async def _unavailable(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unavailable)  # noqa: S101
    return refused(unavailable(error), request.url.path)


async def _no_database(request: Request, error: Exception) -> Response:
    """The database did not answer a question; what it said is for the log."""
    log().error("database", **fault_of(error))
    return refused(unavailable(Unavailable("the database does not answer")), request.url.path)


async def _http(request: Request, error: Exception) -> Response:
    """Return what Starlette itself refuses, in our form."""
    assert isinstance(error, HTTPException)  # noqa: S101
    status = HTTPStatus(error.status_code)
    return refused(Refusal(status, error.detail, dict(error.headers or {})), request.url.path)

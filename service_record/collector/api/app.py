"""The application: which handler answers what, and how a refusal looks."""

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
    administration,
    assisted,
    assisted_clusters,
    bundles,
    clusters,
    enrolment,
    hosts,
    records,
    steps,
    templates,
)
from service_record.collector.api.answers import Refusal, refused
from service_record.collector.api.guard import Guard
from service_record.collector.api.headers import SafeHeaders
from service_record.collector.api.metrics import Metrics, metrics
from service_record.collector.api.numbers import NUMBER
from service_record.collector.api.observing import Observed
from service_record.collector.api.openapi import get_document
from service_record.collector.api.serving import Serving, unavailable
from service_record.collector.collector import Collector
from service_record.collector.logs import fault_of, log
from service_record.collector.store.schema import counters
from service_record.collector.store.writer import Unavailable
from service_record.collector.web.analyses import Analyses
from service_record.collector.web.pages import environment
from service_record.collector.web.routes import PAGES
from service_record.collector.web.statistics import Recent

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
            Route(STEPS, steps.post_step, methods=["POST"]),
            Route(STEPS, steps.get_step, methods=["GET"]),
            Route("/api/v1/hosts/{host}/templates", templates.post_template, methods=["POST"]),
            Route("/api/v1/boot/{secret}", steps.get_boot, methods=["GET"]),
            Route("/api/v1/hosts", hosts.list_hosts, methods=["GET"]),
            Route("/api/v1/hosts/{host}", hosts.show_host, methods=["GET"]),
            Route(f"/api/v1/hosts/{{host}}/builds/{{n:{NUMBER}}}", hosts.show_build, methods=["GET"]),
            Route("/api/v1/statistics", hosts.show_statistics, methods=["GET"]),
            Route("/api/v1/enrol", enrolment.enrol, methods=["POST"]),
            Route("/api/v1/tokens", administration.create_token, methods=["POST"]),
            Route("/api/v1/tokens", administration.list_tokens, methods=["GET"]),
            Route("/api/v1/tokens/{token}", administration.revoke_token, methods=["DELETE"]),
            Route("/api/v1/audit", administration.list_audit, methods=["GET"]),
            Route("/api/v1/hosts/{host}", administration.put_host, methods=["PUT"]),
            Route("/api/v1/hosts/{host}", administration.delete_host, methods=["DELETE"]),
            Route("/api/v1/hosts/{host}/builds", administration.begin_build, methods=["POST"]),
            Route("/api/update", steps.post_update, methods=["POST"]),
            *assisted.ROUTES,
            *assisted_clusters.ROUTES,
            *clusters.ROUTES,
            *bundles.ROUTES,
            *records.ROUTES,
            *PAGES,
        ],
        middleware=[Middleware(SafeHeaders), Middleware(Observed, metrics=counted)],
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

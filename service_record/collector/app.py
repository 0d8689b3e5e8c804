"""The ASGI application: the routes of all calls and pages, middleware and error responses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import msgspec
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service_record.collector.api import (  # noqa: F401  # their decorators add the operations
    admin_calls,
    bundle_calls,
    host_calls,
    mute_calls,
    openapi,
    record_calls,
    step_calls,
)
from service_record.collector.api.answering import (
    ASSISTED,
    BASE,
    AgentError,
    EitherSlash,
    JsonAnswer,
    Refusal,
    render_refusal,
)
from service_record.collector.api.direct_reports import DirectReports
from service_record.collector.api.guard import Guard
from service_record.collector.api.metrics import Metrics, Observed
from service_record.collector.api.operation import OPERATIONS, READERS, operation
from service_record.collector.api.requests import NUMBER
from service_record.collector.api.serving import REFUSED, Serving, make_handler, make_refusal
from service_record.collector.assisted import (  # noqa: F401  # their decorators add the operations
    assisted_calls,
    cluster_calls,
    cluster_page,
)
from service_record.collector.assisted.installation_rules import CallRefused
from service_record.collector.logs import describe_fault, log
from service_record.collector.process import Collector
from service_record.collector.store.row_writer import Unavailable
from service_record.collector.web import (
    events,
    fleet_page,
    host_page,
    login,
    table_pages,
)
from service_record.collector.web.analyses import Analyses
from service_record.collector.web.login import for_anybody, for_readers
from service_record.collector.web.pages import environment, get_asset

__all__ = ["OPERATIONS", "application", "openapi_document"]
PAGES: Final = (
    Route("/", for_readers(fleet_page.get_fleet)),
    Route("/hosts/{host}", for_readers(host_page.get_host), methods=["GET"]),
    Route("/hosts/{host}", for_readers(host_page.post_host), methods=["POST"]),
    Route(f"/hosts/{{host}}/steps/{{step:{NUMBER}}}/logs", for_readers(host_page.get_logs)),
    Route("/hosts/{host}/analysis", for_readers(host_page.get_analysis)),
    Route(f"/hosts/{{host}}/bundles/{{bundle:{NUMBER}}}", for_readers(bundle_calls.get_bundle)),
    Route("/clusters", for_readers(cluster_page.get_clusters)),
    Route("/clusters/{cluster}", for_readers(cluster_page.get_cluster)),
    Route("/clusters/{cluster}/logs/{kind}", for_readers(bundle_calls.get_cluster_logs)),
    Route(f"/hosts/{{host}}/templates/{{template:{NUMBER}}}", for_readers(bundle_calls.show_template)),
    Route("/groups", for_readers(table_pages.get_groups)),
    Route("/statistics", for_readers(table_pages.get_statistics)),
    Route("/fleet.csv", for_readers(fleet_page.get_export)),
    Route("/fleet.json", for_readers(fleet_page.get_export)),
    Route("/mutes", for_readers(table_pages.get_mutes), methods=["GET"]),
    Route("/mutes", for_readers(table_pages.post_mute), methods=["POST"]),
    Route("/events", for_readers(events.get_events)),
    Route("/login", login.get_login, methods=["GET"]),
    Route("/login", for_anybody(login.post_login), methods=["POST"]),
    Route("/logout", for_readers(login.post_logout), methods=["POST"]),
    Route("/static/{file}", get_asset),
)


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of all operations."""
    return openapi.document(OPERATIONS)


@operation("GET /api/v1/openapi.json", who=READERS)
async def get_document(_: Request) -> JsonAnswer[dict[str, Any]]:
    """The OpenAPI document of the interface."""
    return JsonAnswer(openapi_document())


_WORTH_COMPRESSING: Final = 1024
"""Answers of at least this size are compressed. Event streams never are."""


def application(collector: Collector) -> Starlette:
    """Return the ASGI application of a collector, which is closed when the application shuts down."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        collector.start()
        try:
            yield
        finally:
            await run_in_threadpool(app.state.analyses.close)
            await run_in_threadpool(collector.close)

    guard = Guard(collector, collector.settings.rates)
    environment()  # compiles all templates: a broken one must prevent the start
    counted = Metrics(collector, {one.path: one.counted for one in OPERATIONS if one.counted})
    routes = [Route(one.path, make_handler(one), methods=[one.method]) for one in OPERATIONS]
    app = Starlette(
        routes=[*routes, *PAGES],
        middleware=[
            Middleware(Observed, metrics=counted),
            Middleware(GZipMiddleware, minimum_size=_WORTH_COMPRESSING, compresslevel=5),
            Middleware(EitherSlash, prefix=BASE),
        ],
        exception_handlers={
            **dict.fromkeys(REFUSED, _refused),
            HTTPException: _http,
            **dict.fromkeys(_NO_DATABASE, _no_database),
        },
        lifespan=lifespan,
    )
    app.state.analyses = Analyses(collector)
    app.state.views = events.Views(collector)
    app.state.metrics = counted
    app.state.serving = serving = Serving(collector, guard)
    app.state.direct_reports = DirectReports(serving, counted)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    """Render an error. The assisted-service's handlers use string codes; its middleware uses integers."""
    is_assisted = request.url.path.startswith(ASSISTED)
    if is_assisted and isinstance(error, CallRefused) and error.status != HTTPStatus.BAD_REQUEST:
        code = int(error.status)
        document = msgspec.json.encode(AgentError(str(code), "", code, "Error", str(error)))
        return Response(document, error.status, media_type="application/json")
    return render_refusal(make_refusal(error), request.url.path)


_NO_DATABASE: Final = (OperationalError, InterfaceError, PoolTimeout)


async def _no_database(request: Request, error: Exception) -> Response:
    """Return 503 after a database error. The message of the database is only logged."""
    log().error("database", **describe_fault(error))
    return await _refused(request, Unavailable("the database does not answer"))


async def _http(request: Request, error: Exception) -> Response:
    """Render an error that Starlette raised, such as 404."""
    assert isinstance(error, HTTPException)  # noqa: S101
    status = HTTPStatus(error.status_code)
    return render_refusal(Refusal(status, error.detail, dict(error.headers or {})), request.url.path)

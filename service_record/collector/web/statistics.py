"""What the steps of many builds have in common, as a table."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.serving import Serving
from service_record.collector.collector import Collector
from service_record.collector.store.fleet import groups
from service_record.collector.web.look import given
from service_record.collector.web.pages import page


async def get_statistics(request: Request) -> Response:
    """`GET /statistics?group=...&release=...&by=group&by=release`: each step, over the latest builds."""
    serving = Serving.of(request)
    values = await run_in_threadpool(_values, serving.collector, request.query_params)
    signed_in = request.state.grant.name or "session"
    return page("statistics.html", **values, here="statistics", signed_in=signed_in)


def _values(collector: Collector, query: QueryParams) -> dict[str, Any]:
    asked_groups, releases = given(query.getlist("group")), given(query.getlist("release"))
    by = {name for name in ("group", "release") if name in query.getlist("by")}
    with collector.database.reading() as connection:
        known = groups(connection)
    learnt = collector.learnt.statistics(asked_groups, releases, by)
    return {
        "steps": learnt.steps,
        "ended": learnt.executions,
        "group": next(iter(asked_groups), ""),
        "release": next(iter(releases), ""),
        "by": by,
        "groups": known,
    }

"""The table of statistics of the steps of many builds."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.serving import caller
from service_record.collector.store.fleet import groups
from service_record.collector.web.fleet_page import field_values
from service_record.collector.web.pages import page


async def get_statistics(request: Request) -> Response:
    """`GET /statistics?group=...&release=...&by=group&by=release`: each step, over the latest builds."""
    serving, grant = caller(request)
    query = request.query_params
    named, releases = field_values(query.getlist("group")), field_values(query.getlist("release"))
    by = {"group", "release"} & set(query.getlist("by"))
    statistics = await run_in_threadpool(
        serving.collector.baselines.statistics, grant.readable_groups(named), releases, by
    )
    return page(
        "statistics.html",
        steps=statistics.steps,
        ended=statistics.executions,
        groups=await serving.ask(lambda connection: groups(connection, grant.confined_to)),
        group=next(iter(named), ""),
        release=next(iter(releases), ""),
        by=by,
        here="statistics",
        signed_in=grant.name or "session",
    )

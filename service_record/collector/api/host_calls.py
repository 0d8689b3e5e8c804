"""Calls of readers: list hosts, show a host or a build, and statistics of steps."""

from http import HTTPStatus
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.collector.api.answering import JsonAnswer, Refusal
from service_record.collector.api.operation import READERS, operation
from service_record.collector.api.serving import Serving, caller, host_name
from service_record.collector.domain.build_days import DEFAULT_DAYS, MOST_DAYS
from service_record.collector.domain.verdicts import FleetVerdict
from service_record.collector.ingest.baselines import Statistics
from service_record.collector.store.fleet import SHOWN_DONE, Cursor, Filters, Sort, fleet
from service_record.collector.store.host_rows import read_earlier_builds, read_host
from service_record.http.collector_answers import HostDetail, Hosts

_EARLIER_SECONDS: Final = 30 * 86_400.0
"""`earlier` lists earlier builds with a report within this time."""


class HostsQuery(msgspec.Struct, kw_only=True):
    """The parameters of a list of hosts."""

    group: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    verdict: tuple[FleetVerdict, ...] = ()
    cause: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    all: bool = False
    """False leaves out hosts that were done more than a day ago."""
    earlier: bool = False
    """True adds the earlier builds of the listed hosts."""
    sort: Sort = Sort.VERDICT
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: str = ""
    """The `next` of the previous page."""


class StatisticsQuery(msgspec.Struct, kw_only=True):
    """The parameters of statistics."""

    group: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    by: tuple[Literal["group", "release"], ...] = ()
    """The fields that split the statistics."""
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = DEFAULT_DAYS
    """The number of days whose builds are included."""


@operation("GET /api/v1/hosts", who=READERS)
async def list_hosts(request: Request, query: HostsQuery) -> JsonAnswer[Hosts]:
    """List hosts, those in trouble first.

    A host that moves in the order while pages are read is listed at the end, so that none is missed.
    """
    serving, grant = caller(request)
    now = serving.collector.now()
    filters = Filters(
        confined_to=grant.confined_to,
        groups=query.group,
        machines=query.machine,
        verdicts=query.verdict,
        causes=query.cause,
        clusters=query.cluster,
        releases=query.release,
        hardware=query.hardware,
        done_since=None if query.all else now - SHOWN_DONE,
    )
    after = Cursor.of(query.after)
    if after is None and query.after:
        raise Refusal(HTTPStatus.BAD_REQUEST, "after is the `next` of the page before")
    if after is not None and after.sort != query.sort:
        raise Refusal(HTTPStatus.BAD_REQUEST, "after is the `next` of a page in the same order")

    def find(connection: Connection) -> Hosts:
        counts = serving.collector.counts.of(connection, filters)
        page = fleet(connection, filters, query.limit, after, counts, sort=query.sort, now=now)
        names = [each.name for each in page.hosts] if query.earlier else []
        earlier = read_earlier_builds(connection, names, now - _EARLIER_SECONDS) if names else {}
        return Hosts(
            hosts=page.hosts,
            counts=page.counts,
            total=page.total,
            now=now,
            earlier=earlier,
            next=str(page.next or ""),
        )

    return JsonAnswer(await serving.ask(find))


@operation("GET /api/v1/hosts/{host}", who=READERS, refusals=(404,))
async def show_host(request: Request) -> JsonAnswer[HostDetail]:
    """Show a host with the steps of its latest build."""
    return JsonAnswer(await _read_detail(request, None))


@operation("GET /api/v1/hosts/{host}/builds/{n:number}", who=READERS, refusals=(404,))
async def show_build(request: Request) -> JsonAnswer[HostDetail]:
    """Show a host with the steps of a build."""
    return JsonAnswer(await _read_detail(request, request.path_params["n"]))


@operation("GET /api/v1/statistics", who=READERS)
async def show_statistics(request: Request, query: StatisticsQuery) -> JsonAnswer[Statistics]:
    """Show statistics of steps and of the builds of each day: durations and failures."""
    serving, grant = caller(request)
    collector, groups = serving.collector, grant.readable_groups(query.group)
    statistics = collector.baselines.statistics
    found = await run_in_threadpool(statistics, groups, query.release, query.by, collector.now(), query.days)
    return JsonAnswer(found)


async def _read_detail(request: Request, build: int | None) -> HostDetail:
    serving, name = Serving.of(request), host_name(request.path_params["host"])
    now = serving.collector.now()
    detail = await serving.ask(lambda connection: read_host(connection, name, now, build))
    if detail is None:
        what = name if build is None else f"build {build} of {name}"
        raise Refusal(HTTPStatus.NOT_FOUND, f"nothing is known of {what}")
    return detail

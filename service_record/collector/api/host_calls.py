"""Calls of readers: list hosts, show a host or a build, and statistics of steps."""

from http import HTTPStatus
from typing import Final, TypeVar

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.answering import Refusal, answer
from service_record.collector.api.requests import whole_number
from service_record.collector.api.serving import Serving, caller, host_name
from service_record.collector.domain.build_days import DEFAULT_DAYS, MOST_DAYS
from service_record.collector.domain.verdicts import FleetVerdict
from service_record.collector.store.fleet import SHOWN_DONE, Cursor, Filters, Sort, fleet
from service_record.collector.store.host_rows import read_earlier_builds, read_host
from service_record.http.collector_answers import HostDetail, Hosts

T = TypeVar("T")
_DEFAULT_LIMIT: Final = 100
_MAX_LIMIT: Final = 1000
"""Maximum number of hosts in one answer."""
_EARLIER_SECONDS: Final = 30 * 86_400.0
"""`earlier` lists earlier builds with a report within this time."""


async def list_hosts(request: Request) -> Response:
    """`GET /api/v1/hosts?group=&machine=&verdict=&cause=&cluster=&all=&limit=&after=`: a page of hosts.

    `group`, `machine`, `verdict`, `cause`, `cluster`, `release` and `hardware` may be repeated. Hosts in
    trouble come first, or `sort` names another order. A host that moves in the order while pages are read is
    listed at the end, so that none is missed. Hosts that were done more than a day ago are left out without
    `all=true`. `earlier=true` adds the earlier builds of the listed hosts.
    """
    serving, grant = caller(request)
    query = request.query_params
    is_all = flag_in(request, "all")
    filters = Filters(
        confined_to=grant.confined_to,
        groups=tuple(query.getlist("group")),
        machines=tuple(query.getlist("machine")),
        verdicts=tuple(_check_verdict(verdict) for verdict in query.getlist("verdict")),
        causes=tuple(query.getlist("cause")),
        clusters=tuple(query.getlist("cluster")),
        releases=tuple(query.getlist("release")),
        hardware=tuple(query.getlist("hardware")),
        done_since=None if is_all else serving.collector.now() - SHOWN_DONE,
    )
    limit = whole_number(query.get("limit", str(_DEFAULT_LIMIT)), "limit", 1, _MAX_LIMIT)
    after, order = _parse_cursor(query.get("after", "")), query.get("sort", Sort.VERDICT)
    if order not in set(Sort):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"sort is one of {', '.join(Sort)}")
    sort = Sort(order)
    if after is not None and after.sort != sort:
        raise Refusal(HTTPStatus.BAD_REQUEST, "after is the `next` of a page in the same order")
    now, has_earlier = serving.collector.now(), flag_in(request, "earlier")

    def find(connection: Connection) -> Hosts:
        counts = serving.collector.counts.of(connection, filters)
        page = fleet(connection, filters, limit, after, counts, sort=sort, now=now)
        names = [each.name for each in page.hosts] if has_earlier else []
        earlier = read_earlier_builds(connection, names, now - _EARLIER_SECONDS) if names else {}
        return Hosts(
            hosts=page.hosts,
            counts=page.counts,
            total=page.total,
            now=now,
            earlier=earlier,
            next=str(page.next or ""),
        )

    return answer(await serving.ask(find))


async def show_host(request: Request) -> Response:
    """`GET /api/v1/hosts/{host}`: a host with the steps of its latest build."""
    return answer(await _read_detail(request, None))


async def show_build(request: Request) -> Response:
    """`GET /api/v1/hosts/{host}/builds/{n}`: a host with the steps of build `n`."""
    return answer(await _read_detail(request, request.path_params["n"]))


async def show_statistics(request: Request) -> Response:
    """`GET /api/v1/statistics?group=&release=&by=&days=`: each step, and the builds of each day.

    `group` and `release` filter and may be repeated. `by=group` and `by=release` split the statistics. Builds
    are those of the last `days` days.
    """
    serving, grant = caller(request)
    query = request.query_params
    by = set(query.getlist("by"))
    if not by <= {"group", "release"}:
        raise Refusal(HTTPStatus.BAD_REQUEST, "by is group or release")
    groups = grant.readable_groups(query.getlist("group"))
    days = whole_number(query.get("days", str(DEFAULT_DAYS)), "days", 1, MOST_DAYS)
    collector, releases = serving.collector, query.getlist("release")
    statistics = collector.baselines.statistics
    return answer(await run_in_threadpool(statistics, groups, releases, by, collector.now(), days))


async def _read_detail(request: Request, build: int | None) -> HostDetail:
    serving, name = Serving.of(request), host_name(request.path_params["host"])
    now = serving.collector.now()
    detail = await serving.ask(lambda connection: read_host(connection, name, now, build))
    if detail is None:
        what = name if build is None else f"build {build} of {name}"
        raise Refusal(HTTPStatus.NOT_FOUND, f"nothing is known of {what}")
    return detail


def _parse_cursor(text: str) -> Cursor | None:
    """Parse the parameter `after`. Returns None if it is empty. Raises Refusal if it is invalid."""
    cursor = Cursor.of(text)
    if text and cursor is None:
        raise Refusal(HTTPStatus.BAD_REQUEST, "after is the `next` of the page before")
    return cursor


def _check_verdict(text: str) -> str:
    if text not in set(FleetVerdict):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"verdict is one of {', '.join(FleetVerdict)}")
    return text


def flag_in(request: Request, name: str) -> bool:
    """Return a flag of the query; `?all` and `?all=1` are true. Raises Refusal if it is invalid."""
    text = request.query_params.get(name, "false").lower()
    if text not in {"", "true", "false", "1", "0"}:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{name} is true or false")
    return text in {"", "true", "1"}

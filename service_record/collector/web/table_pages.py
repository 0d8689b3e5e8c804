"""Pages with one table: hosts by group, statistics of steps, and mutes with forms to create and end them."""

from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service_record.collector.api.mute_calls import NewMute, finish_mute, make_mute, read_mutes
from service_record.collector.api.requests import parse_values
from service_record.collector.api.serving import caller
from service_record.collector.domain.build_days import DEFAULT_DAYS
from service_record.collector.domain.mutes import MuteKind, MuteScope
from service_record.collector.domain.steps import readable
from service_record.collector.store.fleet import Filters, RollUpBy, groups, roll_up
from service_record.collector.web.fleet_page import field_values
from service_record.collector.web.login import administrator, read_form
from service_record.collector.web.pages import reader_page
from service_record.collector.web.trend_chart import draw_trend

_DURATIONS: Final = ("1h", "4h", "8h", "1d", "3d", "7d", "30d")
_SPANS: Final = (14, 30, 90, 365)
"""The choices for the number of days."""
_LONGEST: Final = 255
_MOST_SUMS: Final = 500


class EndOfMute(msgspec.Struct):
    """The form that ends a mute."""

    end: Annotated[int, Meta(ge=1, le=2**53)]
    """The id of the mute."""


async def get_mutes(request: Request) -> Response:
    """`GET /mutes?scope=...&subject=...`: the list of mutes, and a form with these values."""
    serving, _ = administrator(request)
    return reader_page(
        request,
        "mutes.html",
        mutes=await read_mutes(serving),
        kinds=tuple(MuteKind),
        scopes=tuple(MuteScope),
        durations=_DURATIONS,
        scope=request.query_params.get("scope", ""),
        subject=request.query_params.get("subject", "")[:_LONGEST],
        now=serving.collector.now(),
        here="mutes",
    )


async def post_mute(request: Request) -> Response:
    """`POST /mutes`: create a mute; with the form field `end`, end the mute with that id."""
    serving, grant = administrator(request)
    sent = await read_form(request)
    fields = {name: readable(value).strip()[:_LONGEST] for name, value in sent.items()}
    if "end" in fields:
        await finish_mute(serving, grant, parse_values(fields, EndOfMute).end)
    else:
        is_from_host = fields.pop("back", "") == "host" and fields.get("scope") == MuteScope.HOST
        mute = parse_values(fields, NewMute)
        await make_mute(serving, grant, mute)
        if is_from_host:
            place = f"/hosts/{quote(mute.subject.lower(), safe='')}"
            return RedirectResponse(place, HTTPStatus.SEE_OTHER)
    return RedirectResponse("/mutes", HTTPStatus.SEE_OTHER)


async def get_groups(request: Request) -> Response:
    """`GET /groups?by=site|rack|group|release|hardware`: the number of hosts of each verdict."""
    serving, grant = caller(request)
    word = request.query_params.get("by", "")
    by = RollUpBy(word) if word in set(RollUpBy) else RollUpBy.GROUP
    filters = Filters(confined_to=grant.confined_to)
    sums = await serving.ask(lambda connection: roll_up(connection, filters, by))
    return reader_page(
        request,
        "groups.html",
        sums=sums[:_MOST_SUMS],
        has_more=len(sums) > _MOST_SUMS,
        by=by,
        kinds=tuple(RollUpBy),
        here="groups",
    )


async def get_statistics(request: Request) -> Response:
    """`GET /statistics?group=...&release=...&by=group&days=...`: statistics of days and of steps."""
    serving, grant = caller(request)
    query = request.query_params
    named, releases = field_values(query.getlist("group")), field_values(query.getlist("release"))
    by = {"group", "release"} & set(query.getlist("by"))
    days = next((each for each in _SPANS if str(each) == query.get("days")), DEFAULT_DAYS)
    collector = serving.collector
    statistics = await run_in_threadpool(
        collector.baselines.statistics, grant.readable_groups(named), releases, by, collector.now(), days
    )
    return reader_page(
        request,
        "statistics.html",
        steps=statistics.steps,
        trends=[draw_trend(series) for series in statistics.builds],
        days=days,
        spans=_SPANS,
        ended=statistics.executions,
        groups=await serving.ask(lambda connection: groups(connection, grant.confined_to)),
        group=next(iter(named), ""),
        release=next(iter(releases), ""),
        by=by,
        here="statistics",
    )

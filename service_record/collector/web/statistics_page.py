"""What the steps of many builds have in common, as a table."""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final, Self

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.answering import Refusal
from service_record.collector.domain.access import Forbidden
from service_record.collector.domain.statistics import StepStatistics, statistics
from service_record.collector.process import Collector
from service_record.collector.store.fleet import groups
from service_record.collector.store.judging import executions
from service_record.collector.web.fleet_page import given
from service_record.collector.web.login import viewer_of
from service_record.collector.web.pages import page

_FRESH: Final = 10.0
"""Seconds for which statistics are shown again: they are made of many executions, and change slowly."""
_MOST: Final = 32


@dataclass(frozen=True, slots=True)
class StatisticsQuery:
    """Which steps, and what is told apart."""

    groups: tuple[str, ...]
    releases: tuple[str, ...]
    by: frozenset[str]
    """`group`, `release`, both or none."""

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """Parse a query: `?group=...&release=...&by=group&by=release`."""
        by = frozenset({"group", "release"} & set(query.getlist("by")))
        return cls(given(query.getlist("group")), given(query.getlist("release")), by)


@dataclass(frozen=True, slots=True)
class StatisticsSnapshot:
    """What steps come to, at one moment of the monotonic clock."""

    steps: tuple[StepStatistics, ...]
    ended: int
    """How many executions it is made of."""
    groups: tuple[str, ...]
    """All that there are."""
    at: float


class Recent:
    """Statistics that were asked for lately."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._lock = threading.Lock()
        self._known: OrderedDict[StatisticsQuery, StatisticsSnapshot] = OrderedDict()

    def of(self, asked: StatisticsQuery) -> StatisticsSnapshot:
        """Return known statistics while they are fresh; otherwise make them, one request at a time."""
        with self._lock:
            known = self._known.get(asked)
            if known is None or known.at + _FRESH < time.monotonic():
                known = self._known[asked] = self._made(asked)
                self._known.move_to_end(asked)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
            return known

    def _made(self, asked: StatisticsQuery) -> StatisticsSnapshot:
        with self._collector.database.reading() as connection:
            known = groups(connection)
            ended = executions(connection, asked.groups, asked.releases)
        steps = statistics(ended, by_group="group" in asked.by, by_release="release" in asked.by)
        return StatisticsSnapshot(steps, len(ended), known, time.monotonic())


async def get_statistics(request: Request) -> Response:
    """`GET /statistics`: each step, over the latest builds."""
    grant = viewer_of(request)
    asked = StatisticsQuery.of(request.query_params)
    try:
        readable = replace(asked, groups=grant.readable_groups(asked.groups))
    except Forbidden as error:
        raise Refusal(HTTPStatus.FORBIDDEN, str(error)) from None
    told = await run_in_threadpool(request.app.state.statistics.of, readable)
    return page(
        "statistics.html",
        steps=told.steps,
        ended=told.ended,
        groups=tuple(group for group in told.groups if grant.may_read_group(group)),
        group=next(iter(asked.groups), ""),
        release=next(iter(asked.releases), ""),
        by=asked.by,
        here="statistics",
        signed_in=grant.name or "session",
    )

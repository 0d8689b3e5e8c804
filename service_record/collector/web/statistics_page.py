"""The table of statistics of the steps of many builds."""

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
from service_record.collector.web.fleet_page import field_values
from service_record.collector.web.login import viewer_of
from service_record.collector.web.pages import page

_FRESH: Final = 10.0
"""Seconds for which statistics are shown again: they are made of many executions, and change slowly."""
_MOST: Final = 32


@dataclass(frozen=True, slots=True)
class StatisticsQuery:
    """The filter and grouping of steps."""

    groups: tuple[str, ...]
    releases: tuple[str, ...]
    by: frozenset[str]
    """`group`, `release`, both or none."""

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """Parse a query: `?group=...&release=...&by=group&by=release`."""
        by = frozenset({"group", "release"} & set(query.getlist("by")))
        return cls(field_values(query.getlist("group")), field_values(query.getlist("release")), by)


@dataclass(frozen=True, slots=True)
class StatisticsSnapshot:
    """Statistics of steps at one moment of the monotonic clock."""

    steps: tuple[StepStatistics, ...]
    ended: int
    """The number of executions behind it."""
    groups: tuple[str, ...]
    """All groups there are."""
    at: float


class Recent:
    """Statistics that were requested lately."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._lock = threading.Lock()
        self._known: OrderedDict[StatisticsQuery, StatisticsSnapshot] = OrderedDict()

    def of(self, query: StatisticsQuery) -> StatisticsSnapshot:
        """Return known statistics while they are fresh; otherwise make them, one request at a time."""
        with self._lock:
            snapshot = self._known.get(query)
            if snapshot is None or snapshot.at + _FRESH < time.monotonic():
                snapshot = self._known[query] = self._make_snapshot(query)
                self._known.move_to_end(query)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
            return snapshot

    def _make_snapshot(self, query: StatisticsQuery) -> StatisticsSnapshot:
        with self._collector.database.reading() as connection:
            known_groups = groups(connection)
            ended = executions(connection, query.groups, query.releases)
        steps = statistics(ended, by_group="group" in query.by, by_release="release" in query.by)
        return StatisticsSnapshot(steps, len(ended), known_groups, time.monotonic())


async def get_statistics(request: Request) -> Response:
    """`GET /statistics`: each step, over the latest builds."""
    grant = viewer_of(request)
    query = StatisticsQuery.of(request.query_params)
    try:
        readable = replace(query, groups=grant.readable_groups(query.groups))
    except Forbidden as error:
        raise Refusal(HTTPStatus.FORBIDDEN, str(error)) from None
    snapshot = await run_in_threadpool(request.app.state.statistics.of, readable)
    return page(
        "statistics.html",
        steps=snapshot.steps,
        ended=snapshot.ended,
        groups=tuple(group for group in snapshot.groups if grant.may_read_group(group)),
        group=next(iter(query.groups), ""),
        release=next(iter(query.releases), ""),
        by=query.by,
        here="statistics",
        signed_in=grant.name or "session",
    )

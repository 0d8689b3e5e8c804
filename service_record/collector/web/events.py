"""Changes of a page as they happen: one stream of server-sent events for each page that is looked at.

WHATWG HTML, 9.2. The parts are rendered here, so that a page is the same live as it is when it is loaded.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from service_record.collector.api.answering import Refusal
from service_record.collector.api.serving import Serving, check_readable, host_name
from service_record.collector.web.cluster_page import see_cluster, see_clusters
from service_record.collector.web.fleet_page import FleetFilters, FleetSeen, see_fleet
from service_record.collector.web.host_page import build_of, see_host
from service_record.collector.web.login import grant_of, viewer_of

_QUIET: Final = 15.0
"""Seconds after which a stream says that it is alive, and looks whether its session still is."""
_LEAST: Final = 1.0
"""Seconds between two changes of a page: nobody reads faster."""
_SHARE: Final = 8
"""A stream rests so many times as long as it has worked,"""
_LONGEST: Final = 5.0
"""but no more seconds than these."""


class PageState(Protocol):
    """Something that is looked at, at one moment."""

    @property
    def state(self) -> str:
        """Tells whether anything that is shown has changed."""

    @property
    def sentence(self) -> str:
        """What it comes to, to be read aloud when it changes."""

    def whole(self) -> str:
        """The part of the page that changes."""


@dataclass(slots=True)
class _Viewer:
    """What a browser has of a page."""

    see: Callable[[], PageState]
    state: str
    rows: Mapping[str, int] = field(default_factory=dict)
    """Of a fleet: host -> the revision that is shown. Empty until something was sent."""

    def changes(self) -> dict[str, Any] | None:
        """What the browser lacks; None where it lacks nothing."""
        seen = self.see()
        if seen.state == self.state:
            self._has(seen)
            return None
        changed: dict[str, Any] = {"state": seen.state, "sentence": seen.sentence}
        if isinstance(seen, FleetSeen):
            changed |= self._rows(seen)
        if "rows" not in changed:
            changed["whole"] = seen.whole()
        self.state = seen.state
        self._has(seen)
        return changed

    def _rows(self, seen: FleetSeen) -> dict[str, Any]:
        """The rows that changed, where the rows are the same ones."""
        if not self.rows or list(self.rows) != list(seen.revisions):
            return {}
        changed = [name for name, revision in seen.revisions.items() if self.rows[name] != revision]
        return {"rows": {name: seen.row(name) for name in changed}, "tally": seen.tally()}

    def _has(self, seen: PageState) -> None:
        if isinstance(seen, FleetSeen):
            self.rows = seen.revisions


async def get_events(request: Request) -> Response:
    """`GET /events?...&state=...`: what changes of the fleet since that state.

    With `host=` it is of a host, with `of_cluster=` of a cluster, with `clusters=` of their list.
    """
    serving = Serving.of(request)
    query = request.query_params
    see: Callable[[], PageState]
    grant = viewer_of(request)
    if "of_cluster" in query:
        see = partial(see_cluster, serving.collector, query["of_cluster"], grant.confined_to)
        await run_in_threadpool(see)
    elif "clusters" in query:
        see = partial(see_clusters, serving.collector, grant.confined_to, is_all=query.get("all") == "1")
    elif "host" in query:
        name, build = host_name(query["host"]), build_of(query.get("build", ""))
        await check_readable(serving, grant, name)
        see = partial(see_host, request.app.state.analyses, serving.collector, name, build)
        await run_in_threadpool(see)  # one that is not there is refused now
    else:
        see = partial(see_fleet, serving.collector, FleetFilters.of(query), grant.confined_to)
    return StreamingResponse(
        _stream(request, serving, _Viewer(see, query.get("state", ""))),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(request: Request, serving: Serving, viewer: _Viewer) -> AsyncIterator[str]:
    """Events until the browser leaves, its session ends or the process shuts down."""
    news = serving.collector.news
    while True:
        told = news.subscribe()
        if await grant_of(request) is None:
            yield "event: over\ndata: the session has ended\n\n"
            return
        began = time.monotonic()
        try:
            changes = await run_in_threadpool(viewer.changes)
        except Refusal:  # the host is not there any more
            yield "event: gone\ndata: it is not there any more\n\n"
            return
        worked = time.monotonic() - began
        yield ": nothing new\n\n" if changes is None else _event(changes)
        if news.is_over:
            return
        await _wait(told)
        if not news.is_over:
            await asyncio.sleep(min(max(_LEAST, worked * _SHARE), _LONGEST))


async def _wait(told: asyncio.Event) -> None:
    """Until there is news; not long where there is none."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(told.wait(), _QUIET)


def _event(changes: dict[str, Any]) -> str:
    return f"event: change\ndata: {msgspec.json.encode(changes).decode()}\n\n"

"""Changes of a page as they happen: one stream of server-sent events for each page that is looked at.

WHATWG HTML, 9.2. The parts are rendered here, so that a page is the same live as when it is loaded. Those
who look at the same page share one look at the database and one rendering, at most once a second, and all
pages together take a small share of the time: reports of hosts come first.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from service_record.collector.api.answering import Refusal
from service_record.collector.api.serving import caller, check_readable, host_name
from service_record.collector.logs import fault_of, log
from service_record.collector.process import Collector
from service_record.collector.web.cluster_page import see_cluster, see_clusters
from service_record.collector.web.fleet_page import FleetFilters, FleetSeen, see_fleet
from service_record.collector.web.host_page import build_of, see_host
from service_record.collector.web.login import grant_of

_QUIET: Final = 15.0
"""Seconds after which a stream says that it is alive."""
_SESSION: Final = 5.0
"""Seconds between two looks whether the session of a stream still is good."""
_LEAST: Final = 1.0
"""Seconds between two changes of a page: nobody reads faster."""
_SHARE: Final = 14
"""Pages rest so many times as long as one has taken,"""
_LONGEST: Final = 5.0
"""but no more seconds than these."""
_POLL: Final = 10
"""Seconds after which a browser asks again that has no stream."""
_GONE_EVENT: Final = b"event: gone\ndata: it is not there any more\n\n"


class PageState(Protocol):
    """The state of a page at one moment."""

    @property
    def state(self) -> str:
        """Return a key that changes with what is shown."""

    @property
    def sentence(self) -> str:
        """Return the page's state in a sentence, to be read aloud when it changes."""

    def whole(self) -> str:
        """Return the part of the page that changes."""


class _Moment:
    """A page at one moment, and the updates for browsers with an earlier state."""

    def __init__(self, state: PageState, before: PageState | None) -> None:
        self.seen = state
        self._before = before
        self._events: dict[bool, bytes] = {}
        self._rendering = asyncio.Lock()

    async def event_for(self, state: str) -> bytes:
        """Return the event that brings a browser with this state up to date: rendered once for all with the
        same state.
        """
        is_next = self._before is not None and self._before.state == state
        async with self._rendering:
            if is_next not in self._events:
                render = self._change if is_next else self._whole
                self._events[is_next] = await run_in_threadpool(render)
        return self._events[is_next]

    def _whole(self) -> bytes:
        return self._event(whole=self.seen.whole())

    def _change(self) -> bytes:
        """Return the changed rows, if the set of rows is the same."""
        state, before = self.seen, self._before
        if not isinstance(state, FleetSeen) or not isinstance(before, FleetSeen):
            return self._whole()
        rows, earlier = state.revisions, before.revisions
        if not earlier or list(rows) != list(earlier) or state.grouped != before.grouped:
            return self._whole()
        changed = [name for name, revision in rows.items() if earlier[name] != revision]
        return self._event(rows={name: state.row(name) for name in changed}, tally=state.tally())

    def _event(self, **changed: Any) -> bytes:
        data = {"state": self.seen.state, "sentence": self.seen.sentence, **changed}
        return b"event: change\ndata: " + msgspec.json.encode(data) + b"\n\n"


class _Channel:
    """A page that browsers look at: rendered again for all of them when there is news."""

    def __init__(self, see: Callable[[], PageState], views: "Views") -> None:
        self._see = see
        self._views = views
        self._looked = asyncio.Event()
        self._wanted = asyncio.Event()
        self.viewers = 0
        self.looks = 0
        self.moment: _Moment | None = None
        self.fault: Exception | None = None
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def joined(self, state: str) -> None:
        """Wait until the page was seen, by a browser that may have a newer state than the one seen last."""
        if self.moment is not None and self.moment.seen.state == state:
            return
        looks = self.looks
        self._wanted.set()
        while self.looks == looks and self.fault is None and not self._views.news.is_over:
            await self.changed(_QUIET)

    async def changed(self, seconds: float) -> None:
        """Wait for the next look, or so long."""
        looked = self._looked
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(looked.wait(), seconds)

    async def _run(self) -> None:
        """Render the page whenever there is news, until nobody looks at it any more."""
        news = self._views.news
        while self.fault is None and not news.is_over:
            news_event = news.subscribe()
            self._wanted.clear()
            async with self._views.turn:
                began = time.monotonic()
                await self._look()
                rest = min((time.monotonic() - began) * _SHARE, _LONGEST)
                self._tell()
                await asyncio.sleep(rest)
            await asyncio.sleep(_LEAST)
            if not self.viewers:
                return
            await self._wait(news_event)
        self._tell()

    async def _look(self) -> None:
        """Render the page once."""
        try:
            state = await run_in_threadpool(self._see)
        except Exception as fault:  # noqa: BLE001  # it is not there any more, or the database is not
            self.fault = fault
            return
        if self.moment is None or self.moment.seen.state != state.state:
            self.moment = _Moment(state, None if self.moment is None else self.moment.seen)

    async def _wait(self, news_event: asyncio.Event) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (news_event, self._wanted)]
        await asyncio.wait(waiting, timeout=_QUIET, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    def _tell(self) -> None:
        self.looks += 1
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()


class Views:
    """The pages that browsers look at, by their content. Used on one event loop."""

    def __init__(self, collector: Collector) -> None:
        self.news = collector.news
        self.most = collector.settings.most_streams
        self.turn = asyncio.Lock()
        """Held by the page that is seen: one at a time, and rests between them."""
        self._channels: dict[Hashable, _Channel] = {}
        self.viewers = 0

    @contextmanager
    def channel(self, key: Hashable, see: Callable[[], PageState]) -> Iterator[_Channel]:
        """Look at a page for as long as the block lasts, together with all others who do."""
        channel = self._channels.get(key)
        if channel is None or channel.task.done():
            channel = self._channels[key] = _Channel(see, self)
            channel.task.add_done_callback(partial(self._ended, key))
        channel.viewers += 1
        self.viewers += 1
        try:
            yield channel
        finally:
            channel.viewers -= 1
            self.viewers -= 1

    def _ended(self, key: Hashable, task: "asyncio.Task[None]") -> None:
        if key in self._channels and self._channels[key].task is task:
            del self._channels[key]
        if not task.cancelled() and (fault := task.exception()) is not None:
            log().error("a page could not be shown", **fault_of(fault))


async def get_events(request: Request) -> Response:
    """`GET /events?...&state=...`: the changes of the fleet since that state.

    With `host=` it is of a host, with `of_cluster=` of a cluster, with `clusters=` of their list.
    """
    key, see = await _query_of(request)
    return StreamingResponse(
        _stream(request, key, see),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _query_of(request: Request) -> tuple[Hashable, Callable[[], PageState]]:
    """Return the page that a browser looks at, as a key and as a function. Raises Refusal when it does not
    exist.
    """
    (serving, grant), query = caller(request), request.query_params
    confined_to = grant.confined_to
    see: Callable[[], PageState]
    if "of_cluster" in query:
        see = partial(see_cluster, serving.collector, query["of_cluster"], confined_to)
        await run_in_threadpool(see)
        return ("cluster", query["of_cluster"], confined_to), see
    if "clusters" in query:
        is_all = query.get("all") == "1"
        see = partial(see_clusters, serving.collector, confined_to, is_all=is_all)
        return ("clusters", is_all, confined_to), see
    if "host" in query:
        name, build = host_name(query["host"]), build_of(query.get("build", ""))
        await check_readable(serving, grant, name)
        see = partial(see_host, request.app.state.analyses, serving.collector, name, build)
        await run_in_threadpool(see)
        return ("host", name, build), see
    filters = FleetFilters.of(query)
    return (filters, confined_to), partial(see_fleet, serving.collector, filters, confined_to)


async def _stream(request: Request, key: Hashable, see: Callable[[], PageState]) -> AsyncIterator[bytes]:
    """Yield events until the browser leaves, its session ends or the process shuts down."""
    views: Views = request.app.state.views
    state = request.query_params.get("state", "")
    is_polling = views.viewers >= views.most
    with views.channel(key, see) as channel:
        await channel.joined(state)
        last_sent = last_look = time.monotonic()
        is_first = True
        while channel.fault is None and channel.moment is not None:
            moment = channel.moment
            if not await _is_readable(request):
                yield _GONE_EVENT
                return
            if moment.seen.state != state:
                yield await moment.event_for(state)
                state, last_sent = moment.seen.state, time.monotonic()
            elif is_first or time.monotonic() - last_sent >= _QUIET:
                yield b": nothing new\n\n"
                last_sent = time.monotonic()
            is_first = False
            if is_polling:
                yield f"event: poll\ndata: {_POLL}\n\n".encode()
            if is_polling or views.news.is_over:
                return
            await channel.changed(_SESSION)
            if time.monotonic() - last_look >= _SESSION:
                last_look = time.monotonic()
                if await grant_of(request) is None:
                    yield b"event: over\ndata: the session has ended\n\n"
                    return
        if isinstance(channel.fault, Refusal):
            yield _GONE_EVENT


async def _is_readable(request: Request) -> bool:
    """Return whether a host still is one that the reader may see: it may have come into another group."""
    if "host" not in request.query_params:
        return True
    try:
        await check_readable(*caller(request), host_name(request.query_params["host"]))
    except Refusal:
        return False
    return True

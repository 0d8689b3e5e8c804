"""Live updates of open pages, as server-sent events (WHATWG HTML, section 9.2).

Events contain HTML rendered by the templates of the page, so a live page equals a newly loaded one. All
viewers of a page share one database query and one rendering, at most once a second. All pages together use
only a small share of the processor, because the reports of hosts have priority.
"""

import asyncio
import contextlib
import threading
import time
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from service_record.collector.api.answering import Refusal
from service_record.collector.api.serving import caller, check_readable, host_name
from service_record.collector.assisted.cluster_page import make_cluster_page, make_clusters_page
from service_record.collector.logs import describe_fault, log
from service_record.collector.process import Collector
from service_record.collector.web.fleet_page import FleetFilters, FleetPage, make_fleet_page
from service_record.collector.web.host_page import make_host_page, parse_build
from service_record.collector.web.login import read_session
from service_record.collector.web.pages import LivePage

T = TypeVar("T")
_KEEPALIVE_SECONDS: Final = 15.0
"""Interval of keep-alive comments in a quiet stream."""
_SESSION_CHECK_SECONDS: Final = 5.0
"""Interval at which a stream checks that its login session is still valid."""
_MIN_CHANGE_SECONDS: Final = 1.0
"""Minimum time between two updates of a page."""
_IDLE_FACTOR: Final = 11
"""Each second of processor time for viewers is followed by this many in which no page is read."""
_MAX_IDLE_SECONDS: Final = 5.0
"""Upper limit of that pause."""
_POLL_SECONDS: Final = 10
"""Polling interval of browsers that get no stream."""
_GONE_EVENT: Final = b"event: gone\ndata: it is not there any more\n\n"


class _Budget:
    """The processor time that viewers may use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_at = 0.0
        """Until this time of the monotonic clock, no page is read."""

    def spend(self, seconds: float) -> None:
        """Count processor time of viewers: no page is read for a multiple of it."""
        with self._lock:
            now = time.monotonic()
            free_at = max(self._free_at, now) + seconds * _IDLE_FACTOR
            self._free_at = min(free_at, now + _MAX_IDLE_SECONDS)

    async def wait(self) -> None:
        """Wait until the time that was spent is paid for."""
        while (seconds := self._free_at - time.monotonic()) > 0:  # noqa: ASYNC110  # more may be spent meanwhile
            await asyncio.sleep(seconds)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Call a function in another thread, and count its processor time."""

        def run() -> T:
            began = time.thread_time()
            try:
                return work()
            finally:
                self.spend(time.thread_time() - began)

        return await run_in_threadpool(run)

    @types.coroutine
    def run(self, coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await a coroutine, and count its processor time without that of other tasks meanwhile."""
        resume, value = coroutine.send, None
        while True:
            began = time.thread_time()
            try:
                waits_for = resume(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.spend(time.thread_time() - began)
            try:
                resume, value = coroutine.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001  # such as a cancellation; the coroutine gets it
                resume, value = coroutine.throw, error


class _Rendering:
    """A page at one time, and the events that update browsers to it. Each event is rendered only once."""

    def __init__(self, state: LivePage, before: LivePage | None, budget: _Budget) -> None:
        self.seen = state
        self._before = before
        self._budget = budget
        self._events: dict[bool, bytes] = {}
        self._rendering = asyncio.Lock()

    async def event_for(self, state: str) -> bytes:
        """Return the event that updates a browser which shows `state`.

        If that is the previous state, the event has only the changed rows, otherwise the whole live part.
        """
        is_next = self._before is not None and self._before.state == state
        async with self._rendering:
            if is_next not in self._events:
                render = self._changed_part if is_next else self._whole_part
                self._events[is_next] = await self._budget.run_in_thread(render)
        return self._events[is_next]

    def _whole_part(self) -> bytes:
        return self._event(whole=self.seen.whole())

    def _changed_part(self) -> bytes:
        """Return an event with the changed rows and the tally, or with everything if other parts changed."""
        state, before = self.seen, self._before
        if not isinstance(state, FleetPage) or not isinstance(before, FleetPage):
            return self._whole_part()
        rows, earlier = state.revisions, before.revisions
        if not earlier or list(rows) != list(earlier) or state.surroundings != before.surroundings:
            return self._whole_part()
        changed = [name for name, revision in rows.items() if earlier[name] != revision]
        return self._event(rows={name: state.row(name) for name in changed}, tally=state.tally())

    def _event(self, **parts: Any) -> bytes:
        data = {"state": self.seen.state, "sentence": self.seen.sentence, **parts}
        return b"event: change\ndata: " + msgspec.json.encode(data) + b"\n\n"


class _Channel:
    """A page that is open in browsers. One task reads it for all of them after changes of the database."""

    def __init__(self, see: Callable[[], LivePage], views: "Views") -> None:
        self._see = see
        self._views = views
        self._was_read = asyncio.Event()
        self._requested = asyncio.Event()
        self.viewers = 0
        self.reads = 0
        self.latest: _Rendering | None = None
        self.fault: Exception | None = None
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def catch_up(self, state: str) -> None:
        """Wait until the page is at least as new as the state that a browser shows.

        If the states differ, the browser may have loaded the page after this channel last read it. So this
        waits for the next reading.
        """
        if self.latest is not None and self.latest.seen.state == state:
            return
        reads = self.reads
        self._requested.set()
        while self.reads == reads and self.fault is None and not self._views.news.is_over:
            await self.wait_for_change(_KEEPALIVE_SECONDS)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait for the next reading of the page, for at most `seconds`."""
        was_read = self._was_read
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(was_read.wait(), seconds)

    async def _run(self) -> None:
        """Read the page after each change of the database, until it has no viewers."""
        news = self._views.news
        while self.fault is None and not news.is_over:
            news_event = news.subscribe()
            self._requested.clear()
            async with self._views.turn:
                await self._views.budget.wait()
                await self._read()
                self._wake_streams()
            await asyncio.sleep(_MIN_CHANGE_SECONDS)
            if not self.viewers:
                return
            await self._wait_for_news(news_event)
        self._wake_streams()

    async def _read(self) -> None:
        try:
            state = await self._views.budget.run_in_thread(self._see)
        except Exception as fault:  # noqa: BLE001  # the page was removed, or the database failed
            self.fault = fault
            return
        if self.latest is None or self.latest.seen.state != state.state:
            before = None if self.latest is None else self.latest.seen
            self.latest = _Rendering(state, before, self._views.budget)

    async def _wait_for_news(self, news_event: asyncio.Event) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (news_event, self._requested)]
        await asyncio.wait(waiting, timeout=_KEEPALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    def _wake_streams(self) -> None:
        self.reads += 1
        was_read, self._was_read = self._was_read, asyncio.Event()
        was_read.set()


class Views:
    """All pages that are open in browsers. All calls must be on one event loop."""

    def __init__(self, collector: Collector) -> None:
        self.news = collector.news
        self.most = collector.settings.most_streams
        self.turn = asyncio.Lock()
        """Held while a page is read and during the pause before it, so that pages are read one at a time."""
        self.budget = _Budget()
        self._channels: dict[Hashable, _Channel] = {}
        self.viewers = 0

    @contextmanager
    def channel(self, key: Hashable, see: Callable[[], LivePage]) -> Iterator[_Channel]:
        """Yield the shared channel of a page, and count a viewer of it while the block runs."""
        channel = self._channels.get(key)
        if channel is None or channel.task.done():
            channel = self._channels[key] = _Channel(see, self)
            channel.task.add_done_callback(partial(self._forget_channel, key))
        channel.viewers += 1
        self.viewers += 1
        try:
            yield channel
        finally:
            channel.viewers -= 1
            self.viewers -= 1

    def _forget_channel(self, key: Hashable, task: "asyncio.Task[None]") -> None:
        if key in self._channels and self._channels[key].task is task:
            del self._channels[key]
        if not task.cancelled() and (fault := task.exception()) is not None:
            log().error("a page could not be shown", **describe_fault(fault))


async def get_events(request: Request) -> Response:
    """`GET /events?...&state=...`: a stream of the changes since that state.

    `host=` selects the page of a host, `of_cluster=` of a cluster, and `clusters=` the list of clusters. Any
    other query has the filters of the fleet page.
    """
    key, see = await _find_page(request)
    return _EventStream(request, _stream(request, key, see))


class _EventStream(StreamingResponse):
    """An answer whose processor time is counted."""

    def __init__(self, request: Request, events: AsyncIterator[bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._budget: _Budget = request.app.state.views.budget

    async def stream_response(self, send: Send) -> None:
        await self._budget.run(super().stream_response(send))


async def _find_page(request: Request) -> tuple[Hashable, Callable[[], LivePage]]:
    """Return a key of the requested page and a function that reads its content.

    Raises Refusal if the page does not exist.
    """
    (serving, grant), query = caller(request), request.query_params
    confined_to = grant.confined_to
    see: Callable[[], LivePage]
    if "of_cluster" in query:
        see = partial(make_cluster_page, serving.collector, query["of_cluster"], confined_to)
        await run_in_threadpool(see)
        return ("cluster", query["of_cluster"], confined_to), see
    if "clusters" in query:
        is_all = query.get("all") == "1"
        see = partial(make_clusters_page, serving.collector, confined_to, is_all=is_all)
        return ("clusters", is_all, confined_to), see
    if "host" in query:
        name, build = host_name(query["host"]), parse_build(query.get("build", ""))
        await check_readable(serving, grant, name)
        see = partial(make_host_page, request.app.state.analyses, serving.collector, name, build)
        await run_in_threadpool(see)
        return ("host", name, build), see
    filters = FleetFilters.of(query)
    return (filters, confined_to), partial(make_fleet_page, serving.collector, filters, confined_to)


async def _stream(request: Request, key: Hashable, see: Callable[[], LivePage]) -> AsyncIterator[bytes]:
    """Yield events until the browser disconnects, its session ends or the process shuts down."""
    views: Views = request.app.state.views
    state = request.query_params.get("state", "")
    is_polling = views.viewers >= views.most
    with views.channel(key, see) as channel:
        await channel.catch_up(state)
        last_sent = last_check = time.monotonic()
        is_first = True
        while channel.fault is None and channel.latest is not None:
            latest = channel.latest
            if not await _is_readable(request):
                yield _GONE_EVENT
                return
            if latest.seen.state != state:
                yield await latest.event_for(state)
                state, last_sent = latest.seen.state, time.monotonic()
            elif is_first or time.monotonic() - last_sent >= _KEEPALIVE_SECONDS:
                yield b": nothing new\n\n"
                last_sent = time.monotonic()
            is_first = False
            if is_polling:
                yield f"event: poll\ndata: {_POLL_SECONDS}\n\n".encode()
            if is_polling or views.news.is_over:
                return
            await channel.wait_for_change(_SESSION_CHECK_SECONDS)
            if time.monotonic() - last_check >= _SESSION_CHECK_SECONDS:
                last_check = time.monotonic()
                if await read_session(request) is None:
                    yield b"event: over\ndata: the session has ended\n\n"
                    return
        if isinstance(channel.fault, Refusal):
            yield _GONE_EVENT


async def _is_readable(request: Request) -> bool:
    """Return False if the reader may no longer see the host, because the host moved to another group."""
    if "host" not in request.query_params:
        return True
    try:
        await check_readable(*caller(request), host_name(request.query_params["host"]))
    except Refusal:
        return False
    return True

"""Serves a collector's application by uvicorn, to clients that may be slow, wrong or hostile.

uvicorn bounds the time between two requests, and leaves the rest to its user: here no client may hold a
connection for ever, or have much kept of what it sends. Bodies are bounded where they are read
(`collector/api/requests.py`).
"""

import asyncio
import contextlib
import ctypes
import errno
import gc
import resource
import signal
import socket
import ssl
import sys
import threading
from collections import Counter
from ipaddress import ip_address, ip_network
from typing import Any, Final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service_record.collector import logs
from service_record.collector.api.app import application
from service_record.collector.api.guard import address_of
from service_record.collector.process import Collector, StepsError
from service_record.collector.serving_settings import CollectorSettings

_LONGEST_HEAD: Final = 64 * 1024
"""Bytes of a request's first line and headers."""
_READ: Final = 256 * 1024
"""Bytes that may come at once, with the head among them."""
_MOST_HEADERS: Final = 128
_MOST_PIPELINED: Final = 32
"""Requests that may wait behind one that is not answered yet."""
_MOST_HALF_OPEN: Final = 1_024
"""Connections of one address whose first request has not come yet. Trusted proxies may have any number."""
_READING: Final = 60.0
"""Seconds that a client may read nothing of an answer that waits for it."""


class Config(uvicorn.Config):
    """The limits of the connections over which the collector is served."""

    def __init__(self, app: Any, *, seconds: float, most_connections: int, **settings: Any) -> None:
        super().__init__(app, http=Connection, ws="none", **settings)
        self.seconds = seconds
        """The time limit of a request's head, from when its client begins to send."""
        self.most_connections = most_connections
        self.half_open: Counter[str] = Counter()
        """Connections by their address whose first request has not come yet."""
        self.proxies = [ip_network(proxy, strict=False) for proxy in settings["forwarded_allow_ips"]]

    def is_proxy(self, address: str) -> bool:
        """Return whether requests from this address are those of many clients."""
        try:
            return any(ip_address(address) in proxy for proxy in self.proxies)
        except ValueError:  # a name
            return False


class Connection(HttpToolsProtocol):
    """A connection of a client that may be slow, wrong or hostile."""

    config: Config

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._until_head: asyncio.TimerHandle | None = None
        self._until_read: asyncio.TimerHandle | None = None
        self._size = 0
        """Bytes that came since the last head, without bodies."""
        self._is_in_body = False
        self._half_open = ""
        """The address for which this counts as half-open; empty once its first request is here."""

    @property
    def _is_idle(self) -> bool:
        """Return whether no request waits for its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.config.most_connections:
            transport.abort()
            return
        address = self.client[0] if self.client else ""
        if not self.config.is_proxy(address):
            self._half_open = address_of(address)
            self.config.half_open[self._half_open] += 1
            if self.config.half_open[self._half_open] > _MOST_HALF_OPEN:
                transport.abort()
                return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_no_longer_half_open()
        self._head_is_here()
        self._is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:  # it is the beginning of a head, or the rest of a body that was refused
            self._expect_head()
        super().data_received(data)
        if not self._is_in_body:
            self._size += len(data)
            if self._size > _LONGEST_HEAD + _READ and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_message_complete(self) -> None:
        self._is_in_body = False
        super().on_message_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _MOST_HEADERS or len(name) + len(value) > _LONGEST_HEAD:
            raise httptools.HttpParserError("too many headers")  # answered with 400, as all that is no HTTP
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_no_longer_half_open()
        self._head_is_here()
        self._is_in_body = True
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise httptools.HttpParserError("too many requests at once")
        super().on_headers_complete()

    def _is_no_longer_half_open(self) -> None:
        address, self._half_open = self._half_open, ""
        if address:
            self.config.half_open[address] -= 1
            if not self.config.half_open[address]:
                del self.config.half_open[address]

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._until_read is None:
            self._until_read = self.loop.call_later(_READING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    def _expect_head(self) -> None:
        if self._until_head is None:
            self._until_head = self.loop.call_later(self.config.seconds, self._is_late)

    def _head_is_here(self) -> None:
        self._size = 0
        if self._until_head is not None:
            self._until_head.cancel()
            self._until_head = None

    def _is_read(self) -> None:
        if self._until_read is not None:
            self._until_read.cancel()
            self._until_read = None

    def _is_late(self) -> None:
        self._until_head = None
        if self._is_idle:
            self.transport.close()
        else:  # it is the next request that does not come: this one still is answered
            self.cycle.keep_alive = False


_DESCRIPTORS: Final = 65_536
_FEWEST: Final = 128
"""Descriptors reserved for the database, for bundles and the like."""
_GARBAGE: Final = 10_000
"""Objects that are made until it looks for those that nobody holds: most of a request go by themselves."""
_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS: Final = 2
_GRACE: Final = 20
"""Seconds that requests may still take when it shuts down."""


def serve(settings: CollectorSettings) -> None:
    """Serve until SIGTERM or SIGINT; everything acknowledged until then is on disk.

    It says its address on stderr once connections are taken. Raises what Collector does, and OSError.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is somebody to heed it: it would kill us
    _limit_arenas()
    listening = _listening(settings.host, settings.port)
    scheme = "https" if settings.certificate else "http"
    host, port = listening.getsockname()[:2]
    logs.configure(settings.log_level)
    _allow_descriptors()
    collector = Collector(settings)
    try:
        config = config_of(collector)
        _check_certificate(config, settings)
    except BaseException:
        collector.close()
        raise
    gc.freeze()  # what is here now stays: it need not be looked through again and again
    gc.set_threshold(_GARBAGE)
    print(f"listening on {scheme}://{host}:{port}", file=sys.stderr, flush=True)  # noqa: T201
    with listening:
        Server(config, collector).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=1024)
    except (TypeError, UnicodeError):  # what no name of a host can be
        raise OSError(errno.EINVAL, "no address to listen at", host) from None


def config_of(collector: Collector) -> Config:
    """Return the server's configuration."""
    settings = collector.settings
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Config(
        application(collector),
        seconds=settings.seconds,
        most_connections=max(_FEWEST, descriptors - _FEWEST),
        log_config=None,  # ours is in force
        access_log=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=str(settings.certificate) if settings.certificate else None,
        ssl_keyfile=str(settings.key) if settings.key else None,
    )


def _check_certificate(config: Config, settings: CollectorSettings) -> None:
    """Raise OSError, with the file's name, if TLS does not work with it."""
    try:
        config.load()
    except ssl.SSLError as error:
        reason = f"no certificate with its private key: {error.reason or error}"
        raise OSError(errno.EINVAL, reason, str(settings.certificate)) from None


def _allow_descriptors() -> None:
    """Raise the limit of open files and connections as far as the parent process allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def _limit_arenas() -> None:
    """Let the threads share memory: glibc would keep what each of them has freed for that one; mallopt(3)."""
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no arenas
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


class Server(uvicorn.Server):
    """A server that ends endless streams when it shuts down, and reads its files again on SIGHUP."""

    def __init__(self, config: Config, collector: Collector) -> None:
        super().__init__(config)
        self._collector = collector
        self._news = collector.news

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)

    def reload(self) -> None:
        """Read certificate, key, steps and the webhook's secret again; each stays as it is if it is wrong."""
        files = {
            "certificate": self._reload_certificate,
            "steps": self._collector.reload_definitions,
            "webhook secret": self._collector.reload_webhook_secret,
        }
        for name, reload in files.items():
            try:
                reload()
            except (OSError, ValueError, StepsError) as error:
                logs.log().error("not reloaded, the present one stays", what=name, reason=str(error))
        logs.log().info("reloaded")

    def _reload_certificate(self) -> None:
        """Use the certificate that is in the file now for new connections. Raises OSError."""
        settings, live = self._collector.settings, self.config.ssl
        if live is None or settings.certificate is None:
            return
        # A pair that does not fit would leave the live context with half of it.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), live):
            context.load_cert_chain(settings.certificate, settings.key)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._news.end()
        await super().shutdown(sockets)

"""Run the collector's application with uvicorn, with limits against slow, broken and hostile clients.

uvicorn itself limits only the time between two requests. The limits here apply to connections and to the head
of a request; those for bodies are in `collector/api/requests.py`.
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
"""Maximum size of a request's first line and headers."""
_READ: Final = 256 * 1024
"""Maximum size of data that may arrive at once, including the head."""
_MOST_HEADERS: Final = 128
_MOST_PIPELINED: Final = 32
"""Maximum number of pipelined requests on a connection."""
_MOST_HALF_OPEN: Final = 1_024
"""Maximum number of connections of one address without a first request. Does not apply to trusted proxies."""
_READING: Final = 60.0
"""A client that reads nothing of its answer for this time is disconnected."""


class Config(uvicorn.Config):
    """uvicorn's configuration, and the limits of connections."""

    def __init__(self, app: Any, *, seconds: float, most_connections: int, **settings: Any) -> None:
        super().__init__(app, http=Connection, ws="none", **settings)
        self.seconds = seconds
        """Time limit for a request's head, from its first byte."""
        self.most_connections = most_connections
        self.half_open: Counter[str] = Counter()
        """Address -> number of connections without a first request."""
        self.proxies = [ip_network(proxy, strict=False) for proxy in settings["forwarded_allow_ips"]]

    def is_proxy(self, address: str) -> bool:
        """Return True if the address is a trusted proxy."""
        try:
            return any(ip_address(address) in proxy for proxy in self.proxies)
        except ValueError:  # a name
            return False


class Connection(HttpToolsProtocol):
    """A connection with limits on time, size and number of requests."""

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
        """Number of bytes since the last complete head, without bodies."""
        self._is_in_body = False
        self._half_open = ""
        """The address for which this connection counts as half-open; empty after its first request."""

    @property
    def _is_idle(self) -> bool:
        """Return True if no request is being answered."""
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
"""File descriptors that are reserved for the database, bundles and so on."""
_GARBAGE: Final = 10_000
"""GC threshold of generation 0: most objects of a request are freed by reference counting."""
_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS: Final = 2
_GRACE: Final = 20
"""Time for running requests at shutdown."""


def serve(settings: CollectorSettings) -> None:
    """Serve until SIGTERM or SIGINT.

    Prints the address on stderr once connections are accepted. Raises OSError, and what `Collector` raises.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the default action would end the process
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
    gc.freeze()  # the garbage collector can skip objects of the start
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
        log_config=None,  # logging is configured already
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
    """Raise OSError with the file's name if the certificate or key cannot be used."""
    try:
        config.load()
    except ssl.SSLError as error:
        reason = f"no certificate with its private key: {error.reason or error}"
        raise OSError(errno.EINVAL, reason, str(settings.certificate)) from None


def _allow_descriptors() -> None:
    """Raise the soft limit of open files to the hard limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def _limit_arenas() -> None:
    """Let threads share malloc arenas (mallopt(3)): memory freed in one arena is not reused in others."""
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no arenas
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


class Server(uvicorn.Server):
    """A server that ends event streams at shutdown and reloads its files on SIGHUP."""

    def __init__(self, config: Config, collector: Collector) -> None:
        super().__init__(config)
        self._collector = collector
        self._news = collector.news

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)

    def reload(self) -> None:
        """Read certificate, key, steps and the webhook's secret again. An invalid file changes nothing."""
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
        """Read the certificate again and use it for new connections. Raises OSError."""
        settings, live = self._collector.settings, self.config.ssl
        if live is None or settings.certificate is None:
            return
        # A pair that does not fit would leave the live context with half of it.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), live):
            context.load_cert_chain(settings.certificate, settings.key)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._news.end()
        await super().shutdown(sockets)

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
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import Any, ClassVar, Final, cast

import httptools
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service_record.collector import logs
from service_record.collector.api.direct_reports import DirectReports, match_host
from service_record.collector.api.guard import make_address_key
from service_record.collector.app import application
from service_record.collector.process import Collector, StepsError
from service_record.collector.serving_settings import CollectorSettings

_MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of a request's first line and headers."""
_MAX_READ_BYTES: Final = 256 * 1024
"""Maximum size of data that may arrive at once, including the head."""
_MOST_HEADERS: Final = 128
_MOST_PIPELINED: Final = 32
"""Maximum number of pipelined requests on a connection."""
_MOST_HALF_OPEN: Final = 1_024
"""Maximum number of connections of one address without a first request. Does not apply to trusted proxies."""
_MAX_DIRECT_BYTES: Final = 64 * 1024
"""Reports with a longer body are left to the application."""
_DIRECT_SECONDS: Final = 0.25
"""A report is left to the application, which has its own time limit, if its body does not arrive within this
time after the head.
"""
_READ_SECONDS: Final = 60.0
"""A client that reads nothing of its answer for this time is disconnected."""


class Config(uvicorn.Config):
    """uvicorn's configuration, and the limits of connections."""

    def __init__(self, app: Starlette, *, seconds: float, most_connections: int, **settings: Any) -> None:
        super().__init__(app, http=Connection, ws="none", **settings)
        self.direct_reports: DirectReports = app.state.direct_reports
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
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._size = 0
        """Number of bytes since the last complete head, without bodies."""
        self._is_in_body = False
        self._is_head_due = False
        """True from the first byte of a request until its head is complete."""
        self._is_proxied = False
        self._report_host = ""
        """The host of the report whose body is expected, if it will be answered directly; otherwise empty."""
        self._report = bytearray()
        self._report_timer: asyncio.TimerHandle | None = None
        self._half_open = ""
        """The address for which this connection counts as half-open; empty after its first request."""

    @property
    def _is_idle(self) -> bool:
        """Return True if no request is being answered."""
        cycle: RequestResponseCycle | _DirectAnswer | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.config.most_connections:
            transport.abort()
            return
        address = self.client[0] if self.client else ""
        self._is_proxied = self.config.is_proxy(address)
        if not self._is_proxied:
            self._half_open = make_address_key(address)
            self.config.half_open[self._half_open] += 1
            if self.config.half_open[self._half_open] > _MOST_HALF_OPEN:
                transport.abort()
                return
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_half_open()
        self._stop_head_timer()
        self._stop_read_timer()
        self._end_report()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle and not self._report_host:  # the start of a head, or the rest of a refused body
            self._is_head_due = True
        super().data_received(data)
        if self._is_head_due:  # most heads arrive in one piece and need no timer
            self._start_head_timer()
        if self._report_host and self._report_timer is None:
            self._report_timer = self.loop.call_later(_DIRECT_SECONDS, self._leave_to_application)
        if not self._is_in_body:
            self._size += len(data)
            if self._size > _MAX_HEAD_BYTES + _MAX_READ_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_head_due = True

    def on_body(self, body: bytes) -> None:
        if not self._report_host:
            super().on_body(body)
            return
        self._report += body
        if len(self._report) > _MAX_DIRECT_BYTES:
            self._leave_to_application()

    def on_message_complete(self) -> None:
        self._is_in_body = False
        if self._report_host:
            if self._answer_report():
                return
            self._leave_to_application()
        super().on_message_complete()

    def _answer_report(self) -> bool:
        """Answer the report that is complete. Returns False if the application must do that."""
        answer = _DirectAnswer(self)
        is_taken = self.config.direct_reports.take(
            self._report_host,
            self.headers,
            bytes(self._report),
            self.client,
            answer.send,
            is_tls=self.scheme == "https",
        )
        if is_taken:
            self._end_report()
            if not answer.response_complete:
                self.cycle = cast("RequestResponseCycle", answer)
        return is_taken

    def _leave_to_application(self) -> None:
        """Let the application answer the report, and receive the rest of its body."""
        body = bytes(self._report)
        self._end_report()
        super().on_headers_complete()
        if body:
            super().on_body(body)

    def _end_report(self) -> None:
        """Forget the report whose body was expected: it was answered, left to the application, or lost."""
        self._report_host = ""
        self._report.clear()
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _MOST_HEADERS or len(name) + len(value) > _MAX_HEAD_BYTES:
            raise httptools.HttpParserError("too many headers")  # answered with 400, like any invalid HTTP
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end_half_open()
        self._stop_head_timer()
        self._is_in_body = True
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise httptools.HttpParserError("too many requests at once")
        self._report_host = self._match_report()
        if not self._report_host:
            super().on_headers_complete()

    def _match_report(self) -> str:
        """Return the host if this request may be answered directly, or an empty text.

        The application reads what proxies say about their clients, and answers pipelined requests in order.
        """
        parser = self.parser
        if parser.get_method() != b"POST" or not self._is_idle or self._is_proxied or self.flow.write_paused:
            return ""
        is_plain = parser.get_http_version() == "1.1" and parser.should_keep_alive()
        if not is_plain or self.expect_100_continue or parser.should_upgrade():
            return ""
        return match_host(self.url)

    def _end_half_open(self) -> None:
        """Stop counting this connection as half-open: its first request has arrived, or it is closed."""
        address, self._half_open = self._half_open, ""
        if address:
            self.config.half_open[address] -= 1
            if not self.config.half_open[address]:
                del self.config.half_open[address]

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(_READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_read_timer()

    def _start_head_timer(self) -> None:
        """Start the timer for the head of a request, unless it runs."""
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.config.seconds, self._close_late)

    def _stop_head_timer(self) -> None:
        """Stop the timer for the head: the head is complete, or the connection is lost."""
        self._size = 0
        self._is_head_due = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_read_timer(self) -> None:
        """Stop the timer for a client that does not read the answer."""
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _close_late(self) -> None:
        """End the connection because the head of the next request has not arrived in time."""
        self._head_timer = None
        if self._is_idle:
            self.transport.close()
        else:  # the next, pipelined request is late: close only after the answer to the current one
            self.cycle.keep_alive = False


class _DirectAnswer:
    """A report that is answered without the application. uvicorn treats it as a request cycle."""

    message_event: ClassVar = asyncio.Event()
    """uvicorn sets it when the connection is lost; nothing waits for it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = False

    def send(self, status: HTTPStatus, headers: bytes, body: bytes) -> None:
        self.response_complete = True
        transport = self._connection.transport
        if self.disconnected or transport.is_closing():
            return
        general = b"".join([
            b"%b: %b\r\n" % header for header in self._connection.server_state.default_headers
        ])  # fmt: skip
        if not self.keep_alive:
            general += b"connection: close\r\n"
        length = b"content-length: %d\r\n\r\n" % len(body)
        transport.write(b"".join((STATUS_LINE[status], general, headers, length, body)))
        if not self.keep_alive:
            transport.close()
        self._connection.on_response_complete()


_DESCRIPTORS: Final = 65_536
_RESERVED_DESCRIPTORS: Final = 128
"""File descriptors that are reserved for the database, bundles and so on."""
_GC_THRESHOLD: Final = 10_000
"""GC threshold of generation 0: most objects of a request are freed by reference counting."""
_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS: Final = 2
_GRACE_SECONDS: Final = 20
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
        config = make_config(collector)
        _check_certificate(config, settings)
    except BaseException:
        collector.close()
        raise
    gc.freeze()  # the garbage collector can skip objects of the start
    gc.set_threshold(_GC_THRESHOLD)
    print(f"listening on {scheme}://{host}:{port}", file=sys.stderr, flush=True)  # noqa: T201
    with listening:
        Server(config, collector).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=1024)
    except (TypeError, UnicodeError):  # not a valid host name
        raise OSError(errno.EINVAL, "no address to listen at", host) from None


def make_config(collector: Collector) -> Config:
    """Return the server's configuration."""
    settings = collector.settings
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Config(
        application(collector),
        seconds=settings.seconds,
        most_connections=max(_RESERVED_DESCRIPTORS, descriptors - _RESERVED_DESCRIPTORS),
        log_config=None,  # logging is configured already
        access_log=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_SECONDS,
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

"""Serves a collector's application by uvicorn."""

import asyncio
import errno
import gc
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from typing import Final

import uvicorn

from service_record.collector import logs
from service_record.collector.api.app import application
from service_record.collector.api.protocol import Config
from service_record.collector.collector import Collector, StepsError
from service_record.collector.settings import Settings

_DESCRIPTORS: Final = 65_536
_FEWEST: Final = 128
"""Of them that are for the database, for bundles and the like."""
_GARBAGE: Final = 10_000
"""Objects that are made until it looks for those that nobody holds: most of a request go by themselves."""
_GRACE: Final = 20
"""Seconds that requests may still take when it shuts down."""


def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; what was acknowledged until then is on disk.

    `ready` is told the address once connections are taken. Raises what Collector does, and OSError.
    """
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
    ready(f"{scheme}://{host}:{port}")
    with listening:
        Server(config, collector).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=1024)
    except (TypeError, UnicodeError):  # what no name of a host can be
        raise OSError(errno.EINVAL, "no address to listen at", host) from None


def config_of(collector: Collector) -> Config:
    """How a collector is served."""
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


def _check_certificate(config: Config, settings: Settings) -> None:
    """Raise OSError, with the file's name, where TLS cannot be spoken with it."""
    try:
        config.load()
    except ssl.SSLError as error:
        reason = f"no certificate with its private key: {error.reason or error}"
        raise OSError(errno.EINVAL, reason, str(settings.certificate)) from None


def _allow_descriptors() -> None:
    """Have as many files and connections open at once as whoever started this allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


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
        """Have new connections use the certificate that is in the file now. Raises OSError."""
        settings, live = self._collector.settings, self.config.ssl
        if live is None or settings.certificate is None:
            return
        # A pair that does not fit would leave the live context with half of it.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), live):
            context.load_cert_chain(settings.certificate, settings.key)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._news.end()
        await super().shutdown(sockets)


def say_ready(url: str) -> None:
    """Tell whoever started it where it is."""
    print(f"listening on {url}", file=sys.stderr, flush=True)  # noqa: T201

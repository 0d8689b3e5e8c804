"""Serves a collector's application by uvicorn."""

import socket
import sys
from collections.abc import Callable

import uvicorn

from service_record.collector import logs
from service_record.collector.api.app import application
from service_record.collector.collector import Collector
from service_record.collector.live import News
from service_record.collector.settings import Settings

_GRACE = 20
"""Seconds that requests may still take when it shuts down."""


def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; what was acknowledged until then is on disk.

    `ready` is told the address once connections are taken. Raises what Collector does, and OSError.
    """
    listening = socket.create_server((settings.host, settings.port), backlog=1024)
    scheme = "https" if settings.certificate else "http"
    host, port = listening.getsockname()[:2]
    logs.configure(settings.log_level)
    collector = Collector(settings)
    config = uvicorn.Config(
        application(collector),
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
    ready(f"{scheme}://{host}:{port}")
    with listening:
        Server(config, collector.news).run(sockets=[listening])
    logs.log().info("stopped")


class Server(uvicorn.Server):
    """A server that lets go of streams without an end when it shuts down: it would wait for them."""

    def __init__(self, config: uvicorn.Config, news: News) -> None:
        super().__init__(config)
        self._news = news

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._news.end()
        await super().shutdown(sockets)


def say_ready(url: str) -> None:
    """Tell whoever started it where it is."""
    print(f"listening on {url}", file=sys.stderr, flush=True)  # noqa: T201

"""Serves a collector's application by uvicorn."""

import socket
import sys
from collections.abc import Callable
from types import FrameType

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
        _Server(config, collector.news).run(sockets=[listening])
    logs.log().info("stopped")


class _Server(uvicorn.Server):
    """One that has live answers, which have no end, end when it is to stop."""

    def __init__(self, config: uvicorn.Config, news: News) -> None:
        super().__init__(config)
        self._news = news

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._news.end()


def say_ready(url: str) -> None:
    """Tell whoever started it where it is."""
    print(f"listening on {url}", file=sys.stderr, flush=True)  # noqa: T201

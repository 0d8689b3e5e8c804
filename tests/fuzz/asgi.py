"""Run the collector's application in this process, so that hundreds of requests take a second."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import structlog
from starlette.applications import Starlette

from service_record.collector import logs
from service_record.collector.app import application
from service_record.collector.domain.access import TokenKind
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings, Rates
from service_record.collector.store import tokens
from service_record.collector.store.database import FILE
from tests.collector.in_process import call_application, empty_database
from tests.collector.serving import Reply

NO_LIMIT: Final = Rates(per_second=1e6, burst=1_000_000)


@dataclass(slots=True)
class FuzzedCollector:
    """A running collector application that takes requests."""

    process: Collector
    app: Starlette
    runner: "asyncio.Runner"
    log: StringIO
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, kind: str, scope: str = "") -> str:
        """Return a token of that kind and scope. Each is created once, except enrolment tokens, which work
        only once.
        """
        name = f"{kind} {scope}"
        if name not in self.tokens or kind == "enrolment":
            request = tokens.TokenRequest(kind=TokenKind(kind), scope=scope, created_by="test")
            now = self.process.now()
            token = self.process.writer.change(lambda connection: tokens.create(connection, request, now))
            self.tokens[name] = token.result()
        return self.tokens[name]

    def ask(
        self, method: str, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes | list[bytes] = b""
    ) -> Reply:
        """Send a request and return the reply. Raises exceptions of the application."""
        pieces = [body] if isinstance(body, bytes) else body
        return self.runner.run(call_application(self.app, method, target, headers, pieces))

    def get(self, path: str, kind: str = "admin") -> Reply:
        """Send a GET request with a token of that kind and return the reply."""
        bearer = (b"authorization", f"Bearer {self.token(kind)}".encode())
        return self.ask("GET", path.encode(), [bearer, (b"host", b"collector.example")])


@contextmanager
def run_application(**changes: Any) -> Iterator[FuzzedCollector]:
    """Start an empty collector and stop it at the end of the block."""
    with TemporaryDirectory() as folder, capture_log() as log, asyncio.Runner() as runner:
        settings = CollectorSettings(data=Path(folder) / "data", rates=NO_LIMIT, guesses=NO_LIMIT, **changes)
        settings.data.mkdir(mode=0o700)
        (settings.data / FILE).write_bytes(empty_database())
        app = application(collector := Collector(settings))
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        try:
            yield FuzzedCollector(collector, app, runner, log)
        finally:
            runner.run(lifespan.__aexit__(None, None, None))


@contextmanager
def capture_log() -> Iterator[StringIO]:
    """Redirect the collector's log to a buffer during the block."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    log = StringIO()
    logs.configure("info", log)
    try:
        yield log
    finally:
        structlog.reset_defaults()
        root.handlers[:], root.level = before, level

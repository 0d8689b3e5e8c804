"""The collector's application in this process, asked with any bytes: hundreds of times a second."""

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
from tests.collector.in_process import answer_of, empty_database
from tests.collector.serving import Reply

ANY: Final = Rates(per_second=1e6, burst=1_000_000)


@dataclass(slots=True)
class Asked:
    """A collector, and how to ask it."""

    collector: Collector
    app: Starlette
    runner: "asyncio.Runner"
    log: StringIO
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, kind: str, scope: str = "") -> str:
        """A token of that kind; each is made once, but for those that are good once."""
        name = f"{kind} {scope}"
        if name not in self.tokens or kind == "enrolment":
            new = tokens.TokenRequest(kind=TokenKind(kind), scope=scope, created_by="test")
            now = self.collector.now()
            made = self.collector.writer.change(lambda connection: tokens.create(connection, new, now))
            self.tokens[name] = made.result()
        return self.tokens[name]

    def ask(
        self, method: str, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes | list[bytes] = b""
    ) -> Reply:
        """The answer to a request. What is raised in the application is raised here."""
        pieces = [body] if isinstance(body, bytes) else body
        return self.runner.run(answer_of(self.app, method, target, headers, pieces))

    def get(self, path: str, kind: str = "admin") -> Reply:
        """Return the answer to a holder of a token."""
        bearer = (b"authorization", f"Bearer {self.token(kind)}".encode())
        return self.ask("GET", path.encode(), [bearer, (b"host", b"collector.example")])


@contextmanager
def at_work(**changes: Any) -> Iterator[Asked]:
    """A collector with nothing in it, at work until the end of the block."""
    with TemporaryDirectory() as folder, quiet() as log, asyncio.Runner() as runner:
        settings = CollectorSettings(data=Path(folder) / "data", rates=ANY, guesses=ANY, **changes)
        settings.data.mkdir(mode=0o700)
        (settings.data / FILE).write_bytes(empty_database())
        app = application(collector := Collector(settings))
        living = app.router.lifespan_context(app)
        runner.run(living.__aenter__())
        try:
            yield Asked(collector, app, runner, log)
        finally:
            runner.run(living.__aexit__(None, None, None))


@contextmanager
def quiet() -> Iterator[StringIO]:
    """Collect the collector's log meanwhile, which nobody else hears."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    log = StringIO()
    logs.configure("info", log)
    try:
        yield log
    finally:
        structlog.reset_defaults()
        root.handlers[:], root.level = before, level

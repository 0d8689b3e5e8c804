"""The collector's application in this process, asked with any bytes: hundreds of times a second."""

import asyncio
import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote

import structlog
from starlette.applications import Starlette

from service_record.collector import logs
from service_record.collector.api.app import application
from service_record.collector.domain.access import TokenKind
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings, Rates
from service_record.collector.store import tokens
from service_record.collector.store.database import FILE, Database, sqlite_url

ANY: Final = Rates(per_second=1e6, burst=1_000_000)
ADDRESS: Final = ("127.0.0.1", 4000)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


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
        raw_path, _, query = target.partition(b"?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": _unquoted(raw_path), "raw_path": raw_path, "query_string": query,
            "root_path": "", "headers": headers, "client": ADDRESS, "server": ("collector.example", 80),
            "state": {},
        }  # fmt: skip
        pieces = [body] if isinstance(body, bytes) else body
        return self.runner.run(_told(self.app, scope, pieces))

    def get(self, path: str, kind: str = "admin") -> Reply:
        """Return the answer to a holder of a token."""
        bearer = (b"authorization", f"Bearer {self.token(kind)}".encode())
        return self.ask("GET", path.encode(), [bearer, (b"host", b"collector.example")])


def _unquoted(raw: bytes) -> str:
    """As uvicorn has it."""
    return unquote(raw.decode("ascii", "replace"))


async def _told(app: Starlette, scope: MutableMapping[str, Any], pieces: list[bytes]) -> Reply:
    left = list(pieces)
    said: list[MutableMapping[str, Any]] = []
    over = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        if left:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left)}
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            over.set()

    async with asyncio.timeout(30):
        await app(scope, receive, send)
    start = next(one for one in said if one["type"] == "http.response.start")
    body = b"".join(one.get("body", b"") for one in said if one["type"] == "http.response.body")
    return Reply(start["status"], {k.decode(): v.decode("latin-1") for k, v in start["headers"]}, body)


@cache
def _template() -> bytes:
    """A database that has all tables already."""
    with TemporaryDirectory() as folder:
        database = Database(sqlite_url(Path(folder)))
        database.migrate()
        database.close()
        return (Path(folder) / FILE).read_bytes()


@contextmanager
def at_work(**changes: Any) -> Iterator[Asked]:
    """A collector with nothing in it, at work until the end of the block."""
    with TemporaryDirectory() as folder, quiet() as log, asyncio.Runner() as runner:
        settings = CollectorSettings(data=Path(folder) / "data", rates=ANY, guesses=ANY, **changes)
        settings.data.mkdir(mode=0o700)
        (settings.data / FILE).write_bytes(_template())
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

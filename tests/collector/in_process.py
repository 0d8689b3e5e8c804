"""The application of a collector without a network, for tests that ask it often."""

import asyncio
import json
import tempfile
from collections.abc import Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

from starlette.applications import Starlette

from service_record.collector.api.app import application
from service_record.collector.process import Collector
from service_record.collector.store.database import FILE, Database, sqlite_url
from tests.collector.serving import Reply


@cache
def empty_database() -> bytes:
    """A database that has all tables, and nothing in them."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(sqlite_url(Path(folder)))
        database.migrate()
        database.close()
        return Path(folder, FILE).read_bytes()


class Application:
    """Asked one thing after the other, without its threads. Close it; the collector is its owner's."""

    def __init__(self, collector: Collector) -> None:
        self._app = application(collector)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._app.state.analyses.close()
        self._runner.close()

    def ask(
        self,
        method: str,
        path: str,
        token: str,
        *,
        data: object = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        **query: object,
    ) -> Reply:
        """The answer to whoever has that token."""
        if data is not None:
            body = json.dumps(data).encode()
        told = {"authorization": f"Bearer {token}", "content-length": str(len(body))} | dict(headers or {})
        lines = [(name.lower().encode(), value.encode()) for name, value in told.items()]
        target = path.encode() + b"?" + urlencode(query).encode()
        return self._runner.run(answer_of(self._app, method, target, lines, [body]))


async def answer_of(
    app: Starlette, method: str, target: bytes, headers: list[tuple[bytes, bytes]], pieces: list[bytes]
) -> Reply:
    """The answer to a request whose body comes in these pieces. What it raises is raised."""
    raw_path, _, query = target.partition(b"?")
    path = unquote(raw_path.decode("ascii", "replace"))  # as uvicorn has it
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": raw_path, "query_string": query, "root_path": "",
        "headers": headers, "client": ("127.0.0.1", 4000), "server": ("collector.example", 80), "state": {},
    }  # fmt: skip
    left, over = list(pieces), asyncio.Event()
    said: list[MutableMapping[str, Any]] = []

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

"""Call the collector's application without a network, and make empty databases quickly."""

import asyncio
import tempfile
from collections.abc import MutableMapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette

from service_record.collector.store.database import FILE, Database, sqlite_url
from tests.collector.serving import Reply


@cache
def empty_database() -> bytes:
    """Return the file of an SQLite database with all tables and no rows."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(sqlite_url(Path(folder)))
        database.migrate()
        database.close()
        return Path(folder, FILE).read_bytes()


async def call_application(
    app: Starlette, method: str, target: bytes, headers: list[tuple[bytes, bytes]], pieces: list[bytes]
) -> Reply:
    """Return the application's answer to a request whose body arrives in these pieces.

    Exceptions of the application are passed on.
    """
    raw_path, _, query = target.partition(b"?")
    path = unquote(raw_path.decode("ascii", "replace"))  # like uvicorn
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": raw_path, "query_string": query, "root_path": "",
        "headers": headers, "client": ("127.0.0.1", 4000), "server": ("collector.example", 80), "state": {},
    }  # fmt: skip
    left, over = list(pieces), asyncio.Event()
    messages: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if left:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left)}
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            over.set()

    async with asyncio.timeout(30):
        await app(scope, receive, send)
    start = next(one for one in messages if one["type"] == "http.response.start")
    body = b"".join(one.get("body", b"") for one in messages if one["type"] == "http.response.body")
    return Reply(start["status"], {k.decode(): v.decode("latin-1") for k, v in start["headers"]}, body)

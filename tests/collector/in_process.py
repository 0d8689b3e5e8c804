"""The application of a collector without a network and without its threads, for tests that ask it often."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from service_record.collector.api.app import application
from service_record.collector.process import Collector
from tests.collector.serving import Reply


class Application:
    """Asked one thing after the other. Close it; the collector is its owner's."""

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
        said = {"authorization": f"Bearer {token}", "content-length": str(len(body))} | dict(headers or {})
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": urlencode(query).encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in said.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        return self._runner.run(self._asked(scope, body))

    async def _asked(self, scope: dict[str, Any], body: bytes) -> Reply:
        told: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            told.append(message)

        await self._app(scope, receive, send)  # type: ignore[arg-type]
        headers = {name.decode(): value.decode() for name, value in told[0]["headers"]}
        return Reply(told[0]["status"], headers, b"".join(part.get("body", b"") for part in told[1:]))

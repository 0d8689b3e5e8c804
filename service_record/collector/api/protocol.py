"""HTTP for clients of any kind: none may hold a connection for ever, or have much kept of what it sends.

uvicorn bounds the time between two requests, and leaves the rest to whoever uses it. Bodies are bounded where
they are read (`bodies.py`).
"""

import asyncio
from typing import Any, Final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

_LONGEST_HEAD: Final = 64 * 1024
"""Bytes of a request's first line and headers."""
_READ: Final = 256 * 1024
"""Bytes that may come at once, with the head among them."""
_MOST_HEADERS: Final = 128
_MOST_PIPELINED: Final = 32
"""Requests that may wait behind one that is not answered yet."""
_READING: Final = 60.0
"""Seconds that a client may read nothing of an answer that waits for it."""


class Config(uvicorn.Config):
    """How the collector is served: over connections with these bounds."""

    def __init__(self, app: Any, *, seconds: float, most_connections: int, **settings: Any) -> None:
        super().__init__(app, http=Connection, ws="none", **settings)
        self.seconds = seconds
        """That the head of a request may take, from when its client begins to send."""
        self.most_connections = most_connections


class Connection(HttpToolsProtocol):
    """A connection of a client that may be slow, wrong or hostile."""

    config: Config

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._until_head: asyncio.TimerHandle | None = None
        self._until_read: asyncio.TimerHandle | None = None
        self._size = 0
        """Bytes that came since the last head, without bodies."""
        self._is_in_body = False

    @property
    def _is_idle(self) -> bool:
        """Whether no request waits for its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.config.most_connections:
            transport.abort()
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        self._is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:  # it is the beginning of a head, or the rest of a body that was refused
            self._expect_head()
        super().data_received(data)
        if not self._is_in_body:
            self._size += len(data)
            if self._size > _LONGEST_HEAD + _READ and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_message_complete(self) -> None:
        self._is_in_body = False
        super().on_message_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _MOST_HEADERS or len(name) + len(value) > _LONGEST_HEAD:
            raise httptools.HttpParserError("too many headers")  # answered with 400, as all that is no HTTP
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_is_here()
        self._is_in_body = True
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise httptools.HttpParserError("too many requests at once")
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._until_read is None:
            self._until_read = self.loop.call_later(_READING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    def _expect_head(self) -> None:
        if self._until_head is None:
            self._until_head = self.loop.call_later(self.config.seconds, self._is_late)

    def _head_is_here(self) -> None:
        self._size = 0
        if self._until_head is not None:
            self._until_head.cancel()
            self._until_head = None

    def _is_read(self) -> None:
        if self._until_read is not None:
            self._until_read.cancel()
            self._until_read = None

    def _is_late(self) -> None:
        self._until_head = None
        if self._is_idle:
            self.transport.close()
        else:  # it is the next request that does not come: this one still is answered
            self.cycle.keep_alive = False

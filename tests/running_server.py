"""A server of the standard library's, that serves in a thread until the end of a block; and where none is."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer, TCPServer
from types import TracebackType
from typing import Self


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """Have it serve, and close it at the end."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class RunningServer:
    """A context manager: a server of the standard library's runs from its beginning to its end."""

    def __init__(self, server: TCPServer) -> None:
        self._httpd = server
        self._running = running(server)
        self.port: int = server.server_address[1]

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, fault, trace)


def of_requests(handler: type[BaseHTTPRequestHandler], front: object, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback that waits for none of its threads; its handlers know of `front`."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (handler,), {"front": front}))
    server.daemon_threads = True
    server.block_on_close = False
    return server


@cache
def _taken() -> socket.socket:
    """Bound for as long as tests run, so that no other gets the port; connections are refused."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken


def nobody() -> str:
    """A URL where nobody listens."""
    return f"http://127.0.0.1:{_taken().getsockname()[1]}"

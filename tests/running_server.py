"""A server of the standard library's, that serves in a thread until the end of a block; and where none is."""

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer, TCPServer
from types import MappingProxyType
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

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)


class Quiet(BaseHTTPRequestHandler):
    """Reads a request to its end, answers it, and logs nothing."""

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(iter(self._chunk, b""))
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if len(body) < size:
            raise ConnectionAbortedError(f"the client hung up after {len(body)} of {size} bytes")
        return body

    def _chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline().partition(b";")[0], 16))
        self.rfile.readline()
        return chunk

    def say(self, status: int, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port on loopback where it answers, with TLS or without."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server):
        yield server.server_port


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

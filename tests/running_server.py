"""Run HTTP servers of the standard library in a thread until the end of a block."""

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
def serve_in_thread(server: BaseServer) -> Iterator[None]:
    """Run the server in a thread, and close it at the end of the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class RunningServer:
    """A context manager that runs a server in a thread."""

    def __init__(self, server: TCPServer) -> None:
        self._httpd = server
        self._running = serve_in_thread(server)
        self.port: int = server.server_address[1]

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)


class QuietHandler(BaseHTTPRequestHandler):
    """A request handler that logs nothing, with methods to read a body and to respond."""

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(iter(self._read_chunk, b""))
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if len(body) < size:
            raise ConnectionAbortedError(f"the client hung up after {len(body)} of {size} bytes")
        return body

    def _read_chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline().partition(b";")[0], 16))
        self.rfile.readline()
        return chunk

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
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
def serve(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on a free port of loopback, with TLS if there is a context. Yields the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with serve_in_thread(server):
        yield server.server_port


def make_server(handler: type[BaseHTTPRequestHandler], front: object, port: int = 0) -> ThreadingHTTPServer:
    """Return a server on loopback. `front` becomes an attribute of its handlers.

    Closing the server does not wait for the threads of open connections.
    """
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (handler,), {"front": front}))
    server.daemon_threads = True
    server.block_on_close = False
    return server


@cache
def _reserve_port() -> socket.socket:
    # Bound but not listening: connections are refused, and no other process gets the port.
    reserved = socket.socket()
    reserved.bind(("127.0.0.1", 0))
    return reserved


def get_refused_url() -> str:
    """Return a URL at which connections are refused."""
    return f"http://127.0.0.1:{_reserve_port().getsockname()[1]}"

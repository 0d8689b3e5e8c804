"""A server of the standard library's, that serves in a thread until the end of a block; and where none is."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from socketserver import BaseServer


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


@cache
def _taken() -> socket.socket:
    """Bound for as long as tests run, so that no other gets the port; connections are refused."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken


def nobody() -> str:
    """A URL where nobody listens."""
    return f"http://127.0.0.1:{_taken().getsockname()[1]}"

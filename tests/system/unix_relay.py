"""A way from a machine without a network to a server of the test: connections through a socket on disk.

The machine's end is systemd-socket-proxyd(8), which stands on a port of the machine's loopback.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 16


@contextlib.contextmanager
def relay(path: Path, port: int) -> Iterator[None]:
    """Have what connects to the socket at `path` meet the server at a port of this host's loopback."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        threading.Thread(target=_accept, args=(listening, port), daemon=True).start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)  # ends accept(2), which close(2) does not
            path.unlink(missing_ok=True)


def _accept(listening: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_join, args=(client, port), daemon=True).start()


def _join(client: socket.socket, port: int) -> None:
    with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Hand on bytes until there are no more; then the other side hears of that."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)

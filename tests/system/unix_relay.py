"""Relay connections from a machine without a network to a server of the test, through a socket on disk.

In the machine, systemd-socket-proxyd(8) listens on a port of its loopback.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 16


@contextlib.contextmanager
def relay(path: Path, port: int) -> Iterator[None]:
    """Connect clients of the socket at `path` to the server at a port of this host's loopback."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=_accept_clients, args=(listener, port), daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # ends accept(2), which close(2) does not
            path.unlink(missing_ok=True)


def _accept_clients(listener: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_relay_client, args=(client, port), daemon=True).start()


def _relay_client(client: socket.socket, port: int) -> None:
    with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
        response_thread = threading.Thread(target=_copy, args=(server, client), daemon=True)
        response_thread.start()
        _copy(client, server)
        response_thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until the source ends, then shut the target down for writing."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)

"""A database with PostgreSQL's protocol but not all of its features, like CockroachDB.

It is a PostgreSQL server behind a proxy that refuses LISTEN, NOTIFY and advisory locks as "not supported".
All transactions are serializable, so conflicting ones fail.
"""

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url

from testing.postgresql import Cluster

_REFUSED: Final = re.compile(rb"\b(LISTEN|NOTIFY|UNLISTEN|pg_notify|pg_(try_)?advisory_\w+)\b", re.IGNORECASE)
_NEGOTIATIONS: Final = frozenset({80877103, 80877104})  # SSLRequest, GSSENCRequest
_ERROR: Final = b"SERROR\0VERROR\0C0A000\0Munimplemented: not supported here\0\0"


class RefusingProxy:
    """The proxy. `refused` has the keywords of the refused statements."""

    def __init__(self, target: Path) -> None:
        self.refused: list[str] = []
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError, EOFError), client, server:
            server.connect(str(self._target))
            _begin(client, server)
            threading.Thread(target=_pump, args=(server, client), daemon=True).start()
            while True:
                kind = _read(client, 1)
                (length,) = struct.unpack("!I", size := _read(client, 4))
                body = _read(client, length - 4)
                if kind in {b"Q", b"P"} and (found := _REFUSED.search(body)):
                    self.refused.append(found[1].decode().lower())
                    _refuse(client, is_simple=kind == b"Q")
                else:
                    server.sendall(kind + size + body)


def _begin(client: socket.socket, server: socket.socket) -> None:
    """Forward the start of a connection, whose messages have no type byte."""
    while True:
        length, code = struct.unpack("!II", head := _read(client, 8))
        server.sendall(head + _read(client, length - 8))
        if code not in _NEGOTIATIONS:
            return
        client.sendall(_read(server, 1))


def _refuse(client: socket.socket, *, is_simple: bool) -> None:
    client.sendall(b"E" + struct.pack("!I", len(_ERROR) + 4) + _ERROR)
    while not is_simple:  # skip the other messages up to Sync, after which the client waits for the answer
        kind = _read(client, 1)
        _read(client, struct.unpack("!I", _read(client, 4))[0] - 4)
        is_simple = kind == b"S"
    client.sendall(b"Z\0\0\0\x05I")


def _pump(server: socket.socket, client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := server.recv(65536):
            client.sendall(data)
        client.shutdown(socket.SHUT_RDWR)


def _read(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@contextlib.contextmanager
def create_plain_database(cluster: Cluster) -> Iterator[tuple[str, RefusingProxy]]:
    """Create such a database without tables. Yields its URL and its proxy."""
    with cluster.database() as url:
        name = make_url(url).database or ""
        cluster.ask("ALTER DATABASE {} SET default_transaction_isolation = 'serializable'", name)
        plain = RefusingProxy(cluster.folder / ".s.PGSQL.5432")
        try:
            at = make_url(url).set(host="127.0.0.1", port=plain.port, query={})
            yield at.render_as_string(hide_password=False), plain
        finally:
            plain.close()

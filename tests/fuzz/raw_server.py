"""A server on loopback that answers with any bytes, one connection after the other, and then hangs up."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

_HEAD_END: Final = b"\r\n\r\n"
_PATIENCE: Final = 10.0
"""Seconds for a client to send, or to read, on this very machine."""


class RawServer:
    """A context manager. `answers` are given in turn, the first again after the last."""

    def __init__(self, answers: Sequence[bytes] = (b"",)) -> None:
        self.answers = answers
        self.asked: list[bytes] = []
        """The first line of each request."""
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def says(self, *answers: bytes) -> None:
        """Begin anew, with these answers."""
        self.answers, self.asked = answers, []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_PATIENCE)
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        head = _request(connection)
        answer = self.answers[len(self.asked) % len(self.answers)]
        self.asked.append(head.partition(b"\r\n")[0])
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):  # until the client has read it all, or does not want to
            pass


def _request(connection: socket.socket) -> bytes:
    """The head of a request, once its body is here, too."""
    data = b""
    while _HEAD_END not in data:
        data += _more(connection)
    head, _, body = data.partition(_HEAD_END)
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        while not body.endswith(b"0" + _HEAD_END):
            body += _more(connection)
    elif b"content-length: " in lower:
        length = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += _more(connection)
    return head


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionError
    return data

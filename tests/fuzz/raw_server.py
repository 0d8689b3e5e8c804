"""A loopback server that answers with any bytes, one connection at a time, and then closes the connection."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

_HEAD_END: Final = b"\r\n\r\n"
_TIMEOUT_SECONDS: Final = 10.0
"""Time for a client on this machine to send or read."""


class RawServer:
    """A context manager. `answers` are sent in turn, starting again after the last."""

    def __init__(self, answers: Sequence[bytes] = (b"",)) -> None:
        self.answers = answers
        self.request_lines: list[bytes] = []
        """First line of each request."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def set_answers(self, *answers: bytes) -> None:
        """Forget all requests and use these answers."""
        self.answers, self.request_lines = answers, []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_TIMEOUT_SECONDS)
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        head = _read_request(connection)
        answer = self.answers[len(self.request_lines) % len(self.answers)]
        self.request_lines.append(head.partition(b"\r\n")[0])
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):  # until the client has read everything or closes the connection
            pass


def _read_request(connection: socket.socket) -> bytes:
    """Return the head of a request after its body has arrived."""
    data = b""
    while _HEAD_END not in data:
        data += _receive(connection)
    head, _, body = data.partition(_HEAD_END)
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        while not body.endswith(b"0" + _HEAD_END):
            body += _receive(connection)
    elif b"content-length: " in lower:
        length = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += _receive(connection)
    return head


def _receive(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionError
    return data

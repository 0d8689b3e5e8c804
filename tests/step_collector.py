"""Small HTTP servers: one accepts steps, one never responds, and one never stops responding."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.running_server import QuietHandler, serve


@dataclass
class ReceivedStep:
    """A received request."""

    method: str
    path: str
    authorization: str | None
    fields: dict[str, str]
    key: str | None = None
    """The header `Idempotency-Key`."""
    status: int = 201
    """The status of the answer."""


@dataclass
class StepCollector:
    url: str
    reported: list[ReceivedStep] = field(default_factory=list)


@contextlib.contextmanager
def serve_step_collector(
    status: int = 201, first: Sequence[int] = (), retry_after: int = 1
) -> Iterator[StepCollector]:
    """Run a collector that answers with the statuses `first`, and then always with `status`."""
    statuses = iter(first)

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.take(self.read_body().decode())

        def do_GET(self) -> None:
            self.take(urlsplit(self.path).query)

        def take(self, query: str) -> None:
            fields = {name: values[0] for name, values in parse_qs(query, strict_parsing=True).items()}
            path = urlsplit(self.path).path
            key, response_status = self.headers.get("Idempotency-Key"), next(statuses, status)
            authorization = self.headers.get("Authorization")
            step = ReceivedStep(self.command, path, authorization, fields, key, response_status)
            collector.reported.append(step)
            is_error = response_status >= 400
            self.respond(response_status, headers={"Retry-After": str(retry_after)} if is_error else {})

    with serve(Handler) as port:
        collector = StepCollector(f"http://127.0.0.1:{port}")
        yield collector


@contextlib.contextmanager
def serve_without_response() -> Iterator[str]:
    """Yield the URL of a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextlib.contextmanager
def serve_endless_body() -> Iterator[str]:
    """Yield the URL of a server that sends its answer byte by byte, without end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stopping = threading.Event()

        def accept() -> None:
            while not stopping.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = listening.accept()
                    threading.Thread(target=respond, args=(connection,)).start()

        def respond(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not stopping.wait(0.2):
                    connection.sendall(b".")

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stopping.set()
            with socket.create_connection(listening.getsockname()):
                pass
            thread.join()

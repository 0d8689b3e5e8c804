"""A server on loopback that receives the notices of a webhook."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.running_server import QuietHandler, serve


@dataclass(frozen=True, slots=True)
class ReceivedNotice:
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(self.body)["data"]
        return decoded


@dataclass(slots=True)
class Receiver:
    """The received requests, and the answers to the next ones."""

    url: str = ""
    notices: list[ReceivedNotice] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """The statuses of the next answers. Further answers have the status 204."""
    refused: str = ""
    """Requests whose body contains this text get the status 503."""
    is_held: threading.Event = field(default_factory=threading.Event)
    """Set while answers wait for `release`."""
    release: threading.Event = field(default_factory=threading.Event)
    _more: threading.Condition = field(default_factory=threading.Condition)

    def receive(self, received: ReceivedNotice) -> int:
        with self._more:
            self.notices.append(received)
            self._more.notify_all()
        if self.is_held.is_set():
            self.release.wait(30)
        if self.refused and self.refused.encode() in received.body:
            return 503
        return self.statuses.pop(0) if self.statuses else 204

    def wait_for(self, number: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.notices) >= number, 60)

    @property
    def ids(self) -> list[str]:
        return [received.id for received in self.notices]


@contextlib.contextmanager
def receive_notices() -> Iterator[Receiver]:
    """Run a receiver until the end of the block."""
    receiver = Receiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.read_body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = receiver.receive(ReceivedNotice(headers, body))
            with contextlib.suppress(OSError):  # the client may have disconnected
                self.respond(status)

    with serve(Handler) as port:
        receiver.url = f"http://127.0.0.1:{port}/news"
        try:
            yield receiver
        finally:
            receiver.release.set()

"""An HTTP proxy on loopback that forwards every request to one server, and lists the requests."""

import contextlib
import http.client
import selectors
import socket
from typing import ClassVar
from urllib.parse import urlsplit

from tests.running_server import QuietHandler, RunningServer, make_server


class ForwardProxy(RunningServer):
    """A context manager. `login` is the required value of `Proxy-Authorization`, if any."""

    def __init__(self, port: int, *, login: str | None = None) -> None:
        self.port_behind = port
        self.login = login
        self.seen: list[str] = []
        """The requests to the proxy, each as a method and a URL or `host:port`."""
        super().__init__(make_server(_Handler, self))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    front: ClassVar[ForwardProxy]

    def _check_login(self) -> bool:
        self.front.seen.append(f"{self.command} {self.path}")
        if self.front.login in {None, self.headers.get("Proxy-Authorization")}:
            return True
        self.send_error(407)
        self.close_connection = True
        return False

    def do_CONNECT(self) -> None:
        if not self._check_login():
            return
        with socket.create_connection(("127.0.0.1", self.front.port_behind)) as behind:
            self.send_response(200)
            self.end_headers()
            self._relay(behind)
        self.close_connection = True

    def _relay(self, behind: socket.socket) -> None:
        ends = (self.connection, behind)
        with selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
            for end, other in (ends, ends[::-1]):
                ready.register(end, selectors.EVENT_READ, (end, other))
            while True:
                for key, _ in ready.select():
                    end, other = key.data
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    other.sendall(data)

    def _forward(self) -> None:
        if not self._check_login():
            return
        parts = urlsplit(self.path)
        behind = http.client.HTTPConnection("127.0.0.1", self.front.port_behind)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {name: value for name, value in self.headers.items() if not name.startswith("Proxy-")}
        behind.request(self.command, target, self.read_body() or None, headers)
        answer = behind.getresponse()
        self.respond(answer.status, answer.read())
        behind.close()

    do_GET = do_PUT = do_POST = _forward

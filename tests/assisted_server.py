"""An assisted-service on loopback, with `tests.assisted_rules` behind it, a journal of what it was asked, and
faults.
"""

import contextlib
import itertools
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, TypeAlias

from service_record.reporter.settings import AssistedServiceSettings
from tests.assisted_installation import Host
from tests.assisted_rules import BASE_PATH, Asked, AssistedRules, HungUp, Told
from tests.running_server import Quiet, RunningServer

_ENDLESS = 1 << 30


@dataclass(frozen=True, slots=True)
class Says:
    """Any answer of anybody before the service. A status with `Retry-After` and the like in `headers`."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refuses(Says):
    """The same to a request with `Expect: 100-continue`, before its body is read."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The request is taken, and never answered."""


@dataclass(frozen=True, slots=True)
class Drips:
    """An answer a byte at a time: its head at once, or never whole; then without an end, or breaking off."""

    status: int = 200
    every: float = 0.02
    in_head: bool = False
    most: int | None = None
    """Of the bytes that drip; then the connection is closed."""


@dataclass(frozen=True, slots=True)
class Resets:
    """The connection is reset after so many bytes of the body were read."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class HangsUp:
    """The connection is closed without an answer."""


Fault: TypeAlias = Says | Silence | Drips | Resets | HangsUp


@dataclass(frozen=True, slots=True)
class Journaled:
    """A request, and the status it was answered with; 0 without an answer."""

    asked: Asked
    status: int


@dataclass(slots=True)
class _Planned:
    fault: Fault
    path: str
    times: int


class AssistedServer(RunningServer):
    """A context manager: serving from its beginning to its end. Its rules change while nobody asks."""

    def __init__(
        self,
        rules: AssistedRules | None = None,
        *,
        certificate: Path | None = None,
        address: str = "127.0.0.1",
        prefix: str = "",
        patience: float | None = None,
    ) -> None:
        """With patience, it waits for so many seconds for what is to come of a request, and hangs up then."""
        self.rules = rules or AssistedRules()
        self.journal: list[Journaled] = []
        self.prefix = prefix
        """A path that the service is behind; requests beside it are answered as by a router: 404 of HTML."""
        self.stopping = threading.Event()
        self.changed = threading.Condition()
        self._planned: list[_Planned] = []
        self.gives_leave = True
        """True when it answers `Expect: 100-continue`; servers before RFC 2616 do not."""
        context: ssl.SSLContext | None = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        self._begin = f"{'https' if context else 'http'}://{address}"
        handler = type("Handler", (_Handler,), {"front": self, "timeout": patience})
        super().__init__(_Server((address, 0), handler, context))

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        super().__exit__()

    @property
    def url(self) -> str:
        return f"{self._begin}:{self.port}{self.prefix}"

    def fail(self, fault: Fault, *, path: str = "", times: int = 1) -> None:
        """Have the next requests whose path ends so meet a fault, instead of the service."""
        self._planned.append(_Planned(fault, path, times))

    def forgive(self) -> None:
        """Forget the faults that nobody has met yet."""
        with self.changed:
            self._planned.clear()

    def due(self, path: str, kind: type[Fault] | None = None) -> Fault | None:
        with self.changed:
            for planned in self._planned:
                if kind is not None and not isinstance(planned.fault, kind):
                    continue
                if planned.times > 0 and path.endswith(planned.path):
                    planned.times -= 1
                    return planned.fault
        return None

    def answer(self, asked: Asked) -> Told | HungUp:
        """Yield the answers of the rules, one request at a time."""
        bare = Asked(asked.method, asked.target.removeprefix(self.prefix), asked.headers, asked.body)
        if self.prefix and bare.target == asked.target:
            return Told(404, b"<html><title>404 Not Found</title></html>", "text/html")
        with self.changed:
            return self.rules.answer(bare)

    def note(self, asked: Asked, status: int) -> None:
        with self.changed:
            self.journal.append(Journaled(asked, status))
            self.changed.notify_all()

    def calls(self) -> list[str]:
        """Return the requests in order: method and path below the base path, without ids."""
        return [f"{entry.asked.method} {_without_ids(entry.asked.path)}" for entry in self.journal]

    def wait_for(self, calls: int, seconds: float = 60) -> bool:
        """Return whether so many requests were answered, or met their fault, in time."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.journal) >= calls, seconds)


def local_server() -> AssistedServer:
    """One that knows its hosts by tokens of its own."""
    return AssistedServer(AssistedRules(auth_type="local"))


def _without_ids(path: str) -> str:
    parts = path.partition(BASE_PATH)[2].split("/")
    return "/".join(part for part in parts if len(part) != 36)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        address: tuple[str, int],
        handler: Callable[..., BaseHTTPRequestHandler],
        context: ssl.SSLContext | None,
    ) -> None:
        super().__init__(address, handler)
        self.context = context

    def finish_request(self, request: object, client_address: object) -> None:
        """Shake hands in the connection's own thread: a client that does not trust us disturbs nobody."""
        if self.context is None or not isinstance(request, socket.socket):
            super().finish_request(request, client_address)  # type: ignore[arg-type]
            return
        with contextlib.suppress(OSError), self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are what these tests are about."""


class _Handler(Quiet):
    front: ClassVar[AssistedServer]
    protocol_version = "HTTP/1.1"

    def handle_expect_100(self) -> bool:
        path = self.path.partition("?")[0]
        fault = self.front.due(path, Refuses)
        if isinstance(fault, Refuses):
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.front.note(Asked(self.command, self.path, headers), fault.status)
            self.close_connection = True
            self.say(fault.status, fault.body, fault.headers)
            return False
        return super().handle_expect_100() if self.front.gives_leave else True

    def serve(self) -> None:
        fault = self.front.due(self.path.partition("?")[0])
        headers = {name.lower(): value for name, value in self.headers.items()}
        if isinstance(fault, Resets):
            self.rfile.read(fault.after)
            self.front.note(Asked(self.command, self.path, headers), 0)
            self._reset()
            return
        asked = Asked(self.command, self.path, headers, self.body())
        if fault is None:
            self._tell(asked, self.front.answer(asked))
        elif isinstance(fault, Says):
            self.front.note(asked, fault.status)
            self.say(fault.status, fault.body, fault.headers)
        else:
            self.front.note(asked, 0)
            self.close_connection = True
            if isinstance(fault, Drips):
                self._drip(fault)
            elif isinstance(fault, Silence):
                self.front.stopping.wait()

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = serve

    def _tell(self, asked: Asked, reply: Told | HungUp) -> None:
        if isinstance(reply, HungUp):
            self.front.note(asked, 0)
            self.close_connection = True
            return
        self.front.note(asked, reply.status)
        headers = {"Content-Type": reply.content_type} if reply.body else {}
        self.say(reply.status, reply.body, headers)

    def _drip(self, fault: Drips) -> None:
        self.wfile.write(f"HTTP/1.1 {fault.status} Slow\r\nContent-Length: {_ENDLESS}\r\n".encode())
        if not fault.in_head:
            self.wfile.write(b"\r\n[")
        for count in itertools.count():
            if self.front.stopping.is_set() or count == fault.most:
                return
            self.wfile.write(b"X: y\r\n" if fault.in_head else b" ")
            time.sleep(fault.every)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def service_of(
    host: Host, url: str, token: str | None = None, ca_bundle: Path | None = None
) -> AssistedServiceSettings:
    """The settings by which a host finds a server."""
    return AssistedServiceSettings(
        url=url,
        cluster_id=host.cluster_id or "",
        infra_env_id=host.infra_env_id,
        host_id=host.id,
        token=token,
        ca_bundle=ca_bundle,
    )


class Authority:
    """A certificate authority for a test: `certificate` is what to trust."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.certificate = directory / "ca.pem"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2"),
            *("-subj", "/CN=an authority of the tests", "-keyout", "ca.key", "-out", "ca.pem"),
            directory=directory,
        )

    def issue(self, *names: str, days: int = 2) -> Path:
        """Key and certificate, in one file, of a server with these names and addresses. Negative days:
        expired.
        """
        request, pem = self.directory / "server.csr", self.directory / f"{names[0]}{days}.pem"
        alternatives = ",".join(f"{'IP' if name[0].isdigit() else 'DNS'}:{name}" for name in names)
        _openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", "/CN=a server of the tests", "-keyout", "server.key", "-out", str(request)),
            directory=self.directory,
        )
        (self.directory / "extensions").write_text(f"subjectAltName={alternatives}\n")
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", str(days), "-extfile", "extensions", "-out", "server.pem"),
            directory=self.directory,
        )
        pem.write_text(
            (self.directory / "server.pem").read_text() + (self.directory / "server.key").read_text()
        )
        return pem


def _openssl(*arguments: str, directory: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, capture_output=True, check=True)

"""An assisted-service on loopback: HTTP around `tests.assisted_rules`, with a journal of requests.

A test can make the next requests fail: see `AssistedServer.fail`.
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
from tests.assisted_rules import BASE_PATH, AssistedRules, HandlerCrash, ServiceRequest, ServiceResponse
from tests.running_server import QuietHandler, RunningServer

_ENDLESS_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class CannedResponse:
    """A fixed response, as from a proxy in front of the service."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EarlyResponse(CannedResponse):
    """A fixed response to `Expect: 100-continue`, sent before the request's body is read."""


@dataclass(frozen=True, slots=True)
class NoResponse:
    """The request is read and never answered."""


@dataclass(frozen=True, slots=True)
class SlowResponse:
    """A response without an end, written in very small pieces."""

    status: int = 200
    interval_seconds: float = 0.02
    in_head: bool = False
    """If true, the header section never ends. If false, it is sent at once, and the body never ends."""
    max_writes: int | None = None
    """The number of pieces after which the connection is closed."""


@dataclass(frozen=True, slots=True)
class ConnectionReset:
    """The connection is reset after `after_bytes` bytes of the body were read."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionClose:
    """The connection is closed without a response."""


Fault: TypeAlias = CannedResponse | NoResponse | SlowResponse | ConnectionReset | ConnectionClose


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A request and the status of its response, or 0 if there was none."""

    request: ServiceRequest
    status: int


@dataclass(slots=True)
class _PlannedFault:
    fault: Fault
    path: str
    times: int


class AssistedServer(RunningServer):
    """A context manager that serves `rules`. Change the rules only while no request is handled."""

    def __init__(
        self,
        rules: AssistedRules | None = None,
        *,
        certificate: Path | None = None,
        address: str = "127.0.0.1",
        prefix: str = "",
        timeout_seconds: float | None = None,
    ) -> None:
        """If `timeout_seconds` is given, the server closes a connection that sends nothing for that time."""
        self.rules = rules or AssistedRules()
        self.journal: list[JournalEntry] = []
        self.prefix = prefix
        """The path at which the service is mounted. Other paths get a 404 page in HTML, as from a router."""
        self.stopping = threading.Event()
        self.changed = threading.Condition()
        self._faults: list[_PlannedFault] = []
        self.sends_continue = True
        """If true, the server answers `Expect: 100-continue`. Servers older than RFC 2616 do not."""
        context: ssl.SSLContext | None = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        self._origin = f"{'https' if context else 'http'}://{address}"
        handler = type("Handler", (_Handler,), {"front": self, "timeout": timeout_seconds})
        super().__init__(_Server((address, 0), handler, context))

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        super().__exit__()

    @property
    def url(self) -> str:
        return f"{self._origin}:{self.port}{self.prefix}"

    def fail(self, fault: Fault, *, path: str = "", times: int = 1) -> None:
        """Inject a fault into the next `times` requests whose path ends with `path`."""
        self._faults.append(_PlannedFault(fault, path, times))

    def clear_faults(self) -> None:
        """Remove the faults that have not happened yet."""
        with self.changed:
            self._faults.clear()

    def take_fault(self, path: str, kind: type[Fault] | None = None) -> Fault | None:
        """Return the fault for a request and use it up, or None."""
        with self.changed:
            for planned in self._faults:
                if kind is not None and not isinstance(planned.fault, kind):
                    continue
                if planned.times > 0 and path.endswith(planned.path):
                    planned.times -= 1
                    return planned.fault
        return None

    def answer(self, request: ServiceRequest) -> ServiceResponse | HandlerCrash:
        """Return the response of the rules. Handles one request at a time."""
        bare = ServiceRequest(
            request.method, request.target.removeprefix(self.prefix), request.headers, request.body
        )
        if self.prefix and bare.target == request.target:
            return ServiceResponse(404, b"<html><title>404 Not Found</title></html>", "text/html")
        with self.changed:
            return self.rules.answer(bare)

    def log_request(self, request: ServiceRequest, status: int) -> None:
        with self.changed:
            self.journal.append(JournalEntry(request, status))
            self.changed.notify_all()

    def calls(self) -> list[str]:
        """Return each request, in order: its method, and its path below the base path, without ids."""
        return [f"{entry.request.method} {_without_ids(entry.request.path)}" for entry in self.journal]

    def wait_for(self, calls: int, seconds: float = 60) -> bool:
        """Wait until the journal has this number of requests; return False after `seconds`."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.journal) >= calls, seconds)


def create_server_with_tokens() -> AssistedServer:
    """Return a server with local authentication: each host has a token."""
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
        """Do the TLS handshake in the connection's thread, so a failing client does not block the others."""
        if self.context is None or not isinstance(request, socket.socket):
            super().finish_request(request, client_address)  # type: ignore[arg-type]
            return
        with contextlib.suppress(OSError), self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect: many tests do this on purpose."""


class _Handler(QuietHandler):
    front: ClassVar[AssistedServer]
    protocol_version = "HTTP/1.1"

    def handle_expect_100(self) -> bool:
        path = self.path.partition("?")[0]
        fault = self.front.take_fault(path, EarlyResponse)
        if isinstance(fault, EarlyResponse):
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.front.log_request(ServiceRequest(self.command, self.path, headers), fault.status)
            self.close_connection = True
            self.respond(fault.status, fault.body, fault.headers)
            return False
        return super().handle_expect_100() if self.front.sends_continue else True

    def serve(self) -> None:
        fault = self.front.take_fault(self.path.partition("?")[0])
        headers = {name.lower(): value for name, value in self.headers.items()}
        if isinstance(fault, ConnectionReset):
            self.rfile.read(fault.after_bytes)
            self.front.log_request(ServiceRequest(self.command, self.path, headers), 0)
            self._reset()
            return
        request = ServiceRequest(self.command, self.path, headers, self.read_body())
        if fault is None:
            self._send_reply(request, self.front.answer(request))
        elif isinstance(fault, CannedResponse):
            self.front.log_request(request, fault.status)
            self.respond(fault.status, fault.body, fault.headers)
        else:
            self.front.log_request(request, 0)
            self.close_connection = True
            if isinstance(fault, SlowResponse):
                self._send_slowly(fault)
            elif isinstance(fault, NoResponse):
                self.front.stopping.wait()

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = serve

    def _send_reply(self, request: ServiceRequest, reply: ServiceResponse | HandlerCrash) -> None:
        if isinstance(reply, HandlerCrash):
            self.front.log_request(request, 0)
            self.close_connection = True
            return
        self.front.log_request(request, reply.status)
        headers = {"Content-Type": reply.content_type} if reply.body else {}
        self.respond(reply.status, reply.body, headers)

    def _send_slowly(self, fault: SlowResponse) -> None:
        self.wfile.write(f"HTTP/1.1 {fault.status} Slow\r\nContent-Length: {_ENDLESS_BYTES}\r\n".encode())
        if not fault.in_head:
            self.wfile.write(b"\r\n[")
        for count in itertools.count():
            if self.front.stopping.is_set() or count == fault.max_writes:
                return
            self.wfile.write(b"X: y\r\n" if fault.in_head else b" ")
            time.sleep(fault.interval_seconds)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def make_service_settings(
    host: Host, url: str, token: str | None = None, ca_bundle: Path | None = None
) -> AssistedServiceSettings:
    """Return the boot reporter's settings for a host and the service at `url`."""
    return AssistedServiceSettings(
        url=url,
        cluster_id=host.cluster_id or "",
        infra_env_id=host.infra_env_id,
        host_id=host.id,
        token=token,
        ca_bundle=ca_bundle,
    )


class Authority:
    """A certificate authority for a test. `certificate` is the file for clients to trust."""

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
        """Issue a certificate for these host names and addresses; return a file with it and its key.

        With a negative number of days, the certificate has expired.
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

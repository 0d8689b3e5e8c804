"""An OpenTelemetry backend on loopback, which receives traces by OTLP over HTTP.

A test can give the replies for the next requests, such as errors.
"""

import gzip
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.running_server import QuietHandler, RunningServer, make_server


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply to a request. If `body` is None, it is the protocol's empty response."""

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/x-protobuf"
    seconds: float = 0.0
    """The delay before the reply."""


def partial_success(rejected: int, message: str) -> Reply:
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    return Reply(body=ExportTraceServiceResponse(partial_success=partial).SerializeToString())


class OtlpBackend(RunningServer):
    """A context manager. The first requests get `replies`, in order; the others succeed.

    The server uses TLS if `certificate` is given: a file with a certificate and its key.
    """

    def __init__(self, *replies: Reply, port: int = 0, certificate: Path | None = None) -> None:
        self.replies = list(replies)
        self.is_closed = False
        """True at the end: then open connections are closed, like those of a stopped process."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        """The path and the headers of each request, with lower-case names."""
        self.statuses: list[int] = []
        self.traces: list[ExportTraceServiceRequest] = []
        super().__init__(make_server(_Handler, self, port))
        self._scheme = "otlp+http" if certificate is None else "otlp+https"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._httpd.socket = context.wrap_socket(self._httpd.socket, server_side=True)

    def __exit__(self, *_: object) -> None:
        self.is_closed = True
        super().__exit__()

    @property
    def place(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def resources(self) -> Iterator[tuple[Resource, list[Span]]]:
        for request in self.traces:
            for each in request.resource_spans:
                yield each.resource, [span for scope in each.scope_spans for span in scope.spans]

    def spans(self) -> list[Span]:
        return [span for _, spans in self.resources() for span in spans]


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    front: ClassVar[OtlpBackend]

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.read_body()
        if self.front.is_closed:
            self.close_connection = True
            return
        self.front.requests.append((self.path, headers))
        reply = self.front.replies.pop(0) if self.front.replies else Reply()
        time.sleep(reply.seconds)
        if reply.status == 200:
            assert headers["content-encoding"] == "gzip"
            self.front.traces.append(ExportTraceServiceRequest.FromString(gzip.decompress(body)))
        self.front.statuses.append(reply.status)
        text = ExportTraceServiceResponse().SerializeToString() if reply.body is None else reply.body
        self.respond(reply.status, text, {"Content-Type": reply.kind, **reply.headers})

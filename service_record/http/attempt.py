"""One try of one request, with one deadline for all of it: name lookup, handshake, upload and answer."""

import contextlib
import errno
import io
import math
import socket
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import httpcore2
import httpx2

from service_record.http.answers import ASK_AGAIN, MAX_BODY_BYTES
from service_record.http.deadline import TryState
from service_record.http.long_strings import StringShortener

_TIMER_SLACK_SECONDS: Final = 0.01
"""A time limit that ends with the deadline may end this much before it."""

_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (httpcore2.ConnectTimeout, "no connection within the time limit"),
    (httpcore2.ReadTimeout, "no answer within the time limit"),
    (httpcore2.WriteTimeout, "the server stopped taking data"),
    (httpcore2.ProxyError, "the proxy refused"),
    (httpcore2.ConnectError, "no connection"),
    (httpcore2.RemoteProtocolError, "the connection was closed without an answer"),
    (httpcore2.ReadError, "the connection broke"),
    (httpcore2.WriteError, "the connection broke"),
    (httpcore2.LocalProtocolError, "the request could not be sent as it is"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. A file, or bytes in its place, is the part `part` of a form, named `name`; without a part,
    the body.
    """

    method: str
    url: str = field(repr=False)
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    json: object = None
    file: Path | bytes | None = None
    part: str | None = None
    name: str = ""
    into: BinaryIO | None = None
    """The file to write the body of a good answer to."""
    again: Collection[int] = ASK_AGAIN
    """The statuses after which the request is tried again."""
    most_body: int | None = None
    """Limit, in bytes, of the body of a good answer. None if the status is enough and the body is ignored."""
    longest_string: int | None = None
    """Longer strings in the JSON of a good answer are emptied while it is read, and not counted."""
    most_refusal: int = MAX_BODY_BYTES
    """Limit, in bytes, of the body of any other answer."""
    asks_first: bool = True
    """Send `Expect: 100-continue`, and the file only if the server does not refuse the headers."""

    @property
    def expects_leave(self) -> bool:
        return self.asks_first and isinstance(self.file, Path)


class Attempt:
    """One try of a request. `broken` says why there is no whole answer; nothing is raised for it."""

    def __init__(self, request: Request) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()
        self.sent = 0
        """Bytes of the file that were sent."""
        self.broken = ""
        self.is_tls = False
        self.has_no_network = False
        self.is_premature = False
        """True if the server accepted a file that it had not asked for yet."""
        self._request = request

    @property
    def wants_body(self) -> bool:
        """Return whether the answer is useless without its body."""
        return (
            self._request.most_body is not None
            and self.status is not None
            and httpx2.codes.is_success(self.status)
        )

    def run(
        self,
        pool: httpcore2.ConnectionPool,
        state: TryState,
        timeouts: Mapping[str, float],
        seconds: float,
        answer_seconds: float = math.inf,
    ) -> None:
        """Make the request within `seconds`, and read its answer within `answer_seconds` of the end of the
        request. `timeouts` are those of the library, for single operations.
        """
        limit = seconds
        is_tunnel = False
        state.begin(time.monotonic() + seconds)

        def note_event(name: str, info: Mapping[str, Any]) -> None:
            nonlocal limit, is_tunnel
            if name.endswith(".send_request_headers.started"):
                is_tunnel = info["request"].method == b"CONNECT"  # a proxy's, ahead of ours
            elif name.endswith(".send_request_headers.complete"):
                state.awaits_leave = self._request.expects_leave and not is_tunnel
            elif name.endswith(".send_request_body.complete") and not is_tunnel:
                until = time.monotonic() + answer_seconds
                if until < state.deadline:
                    state.deadline, limit = until, answer_seconds

        try:
            with contextlib.ExitStack() as opened:
                request = self._encode(opened)
                request.extensions = {"timeout": dict(timeouts), "trace": note_event}
                response = pool.handle_request(request)
                opened.callback(response.close)
                self.status, self.headers = response.status, httpx2.Headers(response.headers)
                self._read(response, state)
        except Exception as fault:  # noqa: BLE001 - a request has many ways to fail, all of them reported
            self.is_tls = _is_about_trust(fault)
            self.has_no_network = _has_no_network(fault)
            self.broken = _describe(fault)
            if time.monotonic() > state.deadline - _TIMER_SLACK_SECONDS:
                self.broken = f"no whole answer within {limit:g} s"
        if state.was_declined:
            self.sent = 0  # the library has read a piece of the file by then, but sent none
        self.is_premature = (
            state.was_declined and self.status is not None and self.status < httpx2.codes.BAD_REQUEST
        )

    def _encode(self, opened: contextlib.ExitStack) -> httpcore2.Request:
        request = self._request
        arguments: dict[str, Any] = {}
        if request.params:  # an empty mapping would remove the query that a URL has
            arguments["params"] = request.params
        if request.json is not None:
            arguments["json"] = request.json
        if request.file is not None:
            file = request.file
            stream: BinaryIO = io.BytesIO(file) if isinstance(file, bytes) else file.open("rb")
            content = _CountingFile(opened.enter_context(stream), self)
            if request.part:
                arguments["files"] = {request.part: (request.name, content, "application/gzip")}
            else:
                arguments["content"] = content
        headers = {"Accept": "*/*", **request.headers}
        if request.expects_leave:
            headers["Expect"] = "100-continue"
        encoded = httpx2.Request(request.method, request.url, headers=headers, **arguments)
        url = encoded.url
        return httpcore2.Request(
            encoded.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=encoded.headers.raw,
            content=encoded.stream,
        )

    def _read(self, response: httpcore2.Response, state: TryState) -> None:
        request = self._request
        most = request.most_body if self.wants_body and request.most_body else request.most_refusal
        shortener = None
        if request.longest_string is not None and self.wants_body:
            shortener = StringShortener(request.longest_string)
        size = 0
        for piece in response.iter_stream():
            state.limit(None)  # the library may have further pieces without reading from the network
            chunk = piece if shortener is None else shortener.feed(piece)
            size += len(chunk)
            if size > most:
                self.broken = f"the answer is longer than {most:,} bytes"
                return
            if request.into is not None and self.wants_body:
                request.into.write(chunk)
            else:
                self.body += chunk
        if shortener is not None:
            self.body += shortener.finish()


class _CountingFile:
    """A file that counts the bytes that were read from it."""

    def __init__(self, stream: BinaryIO, attempt: Attempt) -> None:
        self._stream = stream
        self._attempt = attempt

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self._attempt.sent += len(chunk)
        return chunk

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def __iter__(self) -> Iterator[bytes]:  # httpx2 takes only iterables as content, but then calls `read`
        return iter(self._stream)


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    while fault is not None:
        yield fault
        fault = fault.__cause__ or fault.__context__


def _is_about_trust(fault: Exception) -> bool:
    """Return whether the handshake failed because of its contents, not because a peer closed the
    connection.
    """
    return isinstance(fault, httpcore2.ConnectError) and any(
        isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        for cause in _causes(fault)
    )


def _has_no_network(fault: Exception) -> bool:
    """Return whether this host has no route or no name server. Such a fault is not the server's."""
    return any(
        cause.errno == socket.EAI_AGAIN
        if isinstance(cause, socket.gaierror)
        else isinstance(cause, OSError) and cause.errno == errno.ENETUNREACH
        for cause in _causes(fault)
    )


def _describe(fault: Exception) -> str:
    """Describe a fault in our words and the system's. The library's words may contain a header's value."""
    words = next((words for kind, words in _WORDS if isinstance(fault, kind)), "the request failed")
    for cause in _causes(fault):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the server's certificate is not trusted: {cause.verify_message}; "
                "check the CA bundle, the name in the URL, and this host's clock"
            )
    if isinstance(fault, httpcore2.ProxyError):
        return f"{words}: {fault}"
    detail = next((c.strerror for c in _causes(fault) if isinstance(c, OSError) and c.strerror), None)
    return f"{words}: {detail}" if detail else words

"""One try of one request, ended by a clock whatever it hangs in: a name server, a handshake, an upload."""

import contextlib
import errno
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import httpx2

from service_record.http.answers import ASK_AGAIN, MOST_BODY
from service_record.http.long_strings import StringShortener

_LEAVE_SECONDS: Final = 1.0
"""The time in which a server may say `100 Continue`; one that says nothing is sent the file all the same."""
_GRACE: Final = 1.0
"""Seconds for a try to notice that it was ended."""

_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (httpx2.ConnectTimeout, "no connection within the time limit"),
    (httpx2.ReadTimeout, "no answer within the time limit"),
    (httpx2.WriteTimeout, "the server stopped taking data"),
    (httpx2.ProxyError, "the proxy refused"),
    (httpx2.ConnectError, "no connection"),
    (httpx2.RemoteProtocolError, "the connection was closed without an answer"),
    (httpx2.ReadError, "the connection broke"),
    (httpx2.WriteError, "the connection broke"),
    (httpx2.LocalProtocolError, "the request could not be sent as it is"),
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
    """Takes the body of a good answer as it comes, instead of memory."""
    again: Collection[int] = ASK_AGAIN
    """The statuses after which it is made once more."""
    most_body: int | None = None
    """Bytes of a good answer that are wanted; an answer without them is no answer. None where its status says
    all.
    """
    longest_string: int | None = None
    """Longer strings in the JSON of a good answer are emptied as they come, and do not count as its bytes."""
    most_refusal: int = MOST_BODY
    """Bytes that are read of any other answer."""
    asks_first: bool = True
    """Send a file only when the server has not refused its headers: `Expect: 100-continue`."""

    @property
    def expects_leave(self) -> bool:
        return self.asks_first and isinstance(self.file, Path)


class _EndedError(Exception):
    """The try's signal to itself that its time is up."""


class Attempt:
    """Makes the request in a thread, because the system's name lookup knows no time limit."""

    def __init__(
        self, client: httpx2.Client, request: Request, seconds: float, answer_seconds: float | None
    ) -> None:
        """Take the time of the whole try, and of an answer after its request was sent."""
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()
        self.sent = 0
        self.broken = ""
        """The reason why it went no further; empty when the answer was read to its end, or as far as
        wanted.
        """
        self.is_tls = False
        self.has_no_network = False
        self._client = client
        self._request = request
        self._seconds = seconds
        self._answer_seconds = answer_seconds
        self._ended = threading.Event()
        self._is_sent = threading.Event()
        self._stream: Any = None
        self._socket: socket.socket | None = None
        self._is_tunnel = False
        self._is_declined = False

    @property
    def is_premature(self) -> bool:
        """Return whether the server accepted a file that it has not asked for yet."""
        return self._is_declined and self.status is not None and self.status < httpx2.codes.BAD_REQUEST

    @property
    def wants_body(self) -> bool:
        """Return whether the answer is none without its body."""
        return (
            self._request.most_body is not None
            and self.status is not None
            and httpx2.codes.is_success(self.status)
        )

    def run(self) -> None:
        """Make the request, within its time whatever happens. A thread that hangs is left behind, and sends
        nothing.
        """
        thread = threading.Thread(target=self._make, name="request", daemon=True)
        thread.start()
        seconds = self._seconds
        try:
            if self._answer_seconds is not None:
                begin = time.monotonic()
                self._is_sent.wait(seconds)
                remaining = begin + seconds - time.monotonic()
                seconds = min(seconds, self._answer_seconds)
                thread.join(max(min(remaining, seconds), 0.0))
            else:
                thread.join(seconds)
        finally:
            was_late = thread.is_alive()
            self._end()
        if was_late:
            thread.join(_GRACE)
            self.broken = f"no whole answer within {seconds:g} s"

    def _end(self) -> None:
        self._ended.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # Not the method of a TLS socket: that one would pull the session from under the thread.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _make(self) -> None:
        try:
            with contextlib.ExitStack() as opened:
                content = self._content(opened)
                response = opened.enter_context(self._client.stream(**self._arguments(content)))
                self._socket = _socket_of(response)
                self.status, self.headers = response.status_code, response.headers
                self._read(response)
        except Exception as fault:  # noqa: BLE001 - nobody else is told of a thread's exceptions
            self.is_tls = _is_about_trust(fault)
            self.has_no_network = _has_no_network(fault)
            self.broken = _described(fault)
        finally:
            self._is_sent.set()

    def _content(self, opened: contextlib.ExitStack) -> "_Counted | None":
        file = self._request.file
        if file is None:
            return None
        stream: BinaryIO = io.BytesIO(file) if isinstance(file, bytes) else file.open("rb")
        return _Counted(opened.enter_context(stream), self)

    def _arguments(self, content: "_Counted | None") -> dict[str, Any]:
        request = self._request
        arguments: dict[str, Any] = {
            "method": request.method,
            "url": request.url,
            "headers": {**request.headers, **({"Expect": "100-continue"} if request.expects_leave else {})},
            "extensions": {"trace": self._traced},
        }
        if request.params:  # an empty mapping would take away the query that a URL has
            arguments["params"] = request.params
        if request.json is not None:
            arguments["json"] = request.json
        if content is not None and request.part:
            arguments["files"] = {request.part: (request.name, content, "application/gzip")}
        elif content is not None:
            arguments["content"] = content
        return arguments

    def _read(self, response: httpx2.Response) -> None:
        request = self._request
        most = request.most_body if self.wants_body and request.most_body else request.most_refusal
        shortener = None
        if request.longest_string is not None and self.wants_body:
            shortener = StringShortener(request.longest_string)
        size = 0
        for chunk in response.iter_raw():
            self.check_time()
            if shortener is not None:
                chunk = shortener.feed(chunk)  # noqa: PLW2901
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

    def _traced(self, name: str, info: Mapping[str, Any]) -> None:
        """Note what the library does next, or has done: nothing more once the time is up."""
        if name.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._stream = info["return_value"]
            self._socket = self._stream.get_extra_info("socket")
        self.check_time()
        if name.endswith(".send_request_body.complete"):
            self._is_sent.set()
        if name.endswith(".send_request_headers.started"):
            self._is_tunnel = info["request"].method == b"CONNECT"
        if name.endswith(".send_request_headers.complete") and not self._is_tunnel:
            self._wait_for_leave()

    def _wait_for_leave(self) -> None:
        """Wait between headers and file for the server's leave, or its answer, for a second at most.

        The library knows nothing of `Expect`, but calls us between the two, and reads the answer when writing
        fails: so that is what we tell it when there is an answer already. What was read here is put back.
        """
        if not self._request.expects_leave:
            return
        import httpcore2  # what httpx2 stands on

        stream = self._stream
        try:
            data = stream.read(1 << 16, timeout=_LEAVE_SECONDS)
        except httpcore2.ReadTimeout:
            return
        except httpcore2.ReadError:
            data = b""
        stream.read = _read_back(stream, data)
        if not data.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")):
            self._is_declined = True
            raise httpcore2.WriteError

    def check_time(self) -> None:
        if self._ended.is_set():
            raise _EndedError


def _socket_of(response: httpx2.Response) -> socket.socket | None:
    """Return the socket of an answer, also where the connection was there before."""
    stream = response.extensions.get("network_stream")
    sock: socket.socket | None = stream.get_extra_info("socket") if stream is not None else None
    return sock


def _read_back(stream: Any, data: bytes) -> Callable[..., bytes]:
    """Return a `read` for a stream of the library that gives these bytes first, once."""
    read: Callable[..., bytes] = stream.read

    def first(_most: int, timeout: float | None = None) -> bytes:  # noqa: ARG001 - the library's signature
        stream.read = read
        return data

    return first


class _Counted:
    """A file that counts what was read of it, and is read no further once the try's time is up."""

    def __init__(self, stream: BinaryIO, attempt: Attempt) -> None:
        self._stream = stream
        self._attempt = attempt

    def read(self, size: int = -1) -> bytes:
        self._attempt.check_time()
        chunk = self._stream.read(size)
        self._attempt.sent += len(chunk)
        return chunk

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def __iter__(self) -> Iterator[bytes]:  # what makes it content for the library, which then reads
        return iter(self._stream)


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    while fault is not None:
        yield fault
        fault = fault.__cause__ or fault.__context__


def _is_about_trust(fault: Exception) -> bool:
    """Return whether the handshake failed because of its contents, not because a peer closed the
    connection.
    """
    return isinstance(fault, httpx2.ConnectError) and any(
        isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        for cause in _causes(fault)
    )


def _has_no_network(fault: Exception) -> bool:
    """Return whether this host reaches nobody, or no name server: that says nothing of the server."""
    return any(
        cause.errno == socket.EAI_AGAIN
        if isinstance(cause, socket.gaierror)
        else isinstance(cause, OSError) and cause.errno == errno.ENETUNREACH
        for cause in _causes(fault)
    )


def _described(fault: Exception) -> str:
    """Say what happened in our words and the system's; the library's own may repeat a header's value."""
    words = next((words for kind, words in _WORDS if isinstance(fault, kind)), "the request failed")
    for cause in _causes(fault):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the server's certificate is not trusted: {cause.verify_message}; "
                "check the CA bundle, the name in the URL, and this host's clock"
            )
    if isinstance(fault, httpx2.ProxyError):
        return f"{words}: {fault}"
    detail = next((c.strerror for c in _causes(fault) if isinstance(c, OSError) and c.strerror), None)
    return f"{words}: {detail}" if detail else words

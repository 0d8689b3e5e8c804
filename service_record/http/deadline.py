"""A network backend that ends every operation of a try at one deadline.

The library's own time limits hold for single operations, and a server that sends one byte a minute keeps
within each of them. `NetworkBackend` and `NetworkStream` are httpcore2's public interface for this.
"""

import math
import socket
import threading
import time
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final

import httpcore2

LEAVE_SECONDS: Final = 1.0
"""How long to wait for `100 Continue`. A server that sends none in this time is sent the file anyway."""
_WRITE_BYTES: Final = 16384
"""The deadline is checked again after this many bytes; one record of TLS holds no more."""


class TryState(threading.local):
    """The state of the try that runs in this thread. The collector's notices share connections."""

    deadline: float = math.inf
    awaits_leave: bool = False
    """Set between the headers and the body of a request with `Expect: 100-continue`."""
    was_declined: bool = False
    """True if the server answered instead of asking for the body."""

    def begin(self, deadline: float) -> None:
        """Reset the state for a new try."""
        self.deadline, self.awaits_leave, self.was_declined = deadline, False, False

    def limit(self, timeout: float | None) -> float:
        """Return the time limit of the next operation. Raises ReadTimeout after the deadline."""
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise httpcore2.ReadTimeout
        return remaining if timeout is None else min(timeout, remaining)


class DeadlineBackend(httpcore2.NetworkBackend):
    """Opens connections whose operations end at the deadline in `state`."""

    def __init__(self) -> None:
        self.state = TryState()
        self._backend = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first address of the host that takes a connection."""
        fault: Exception = httpcore2.ConnectError("the name has no address")
        for address in _look_up(host, port, self.state.limit(timeout)):
            limit = self.state.limit(timeout)
            try:
                stream = self._backend.connect_tcp(address, port, limit, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                fault = error
            else:
                return _DeadlineStream(stream, self.state)
        raise fault


class _DeadlineStream(httpcore2.NetworkStream):
    """A connection whose operations end at the deadline."""

    def __init__(self, stream: httpcore2.NetworkStream, state: TryState) -> None:
        self._stream = stream
        self._state = state
        self._early: bytes | None = None
        """The beginning of an answer that came before the body was sent."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._early is not None:
            early, self._early = self._early, None
            return early
        return self._stream.read(max_bytes, self._state.limit(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._state.awaits_leave:
            self._state.awaits_leave = False
            self._wait_for_leave()
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._stream.write(buffer[start : start + _WRITE_BYTES], self._state.limit(timeout))

    def _wait_for_leave(self) -> None:
        """Wait for `100 Continue` or for another answer, at most `LEAVE_SECONDS`.

        httpcore2 does not support `Expect`, but it reads the answer when writing fails with a WriteError.
        """
        try:
            self._early = self._stream.read(1 << 16, self._state.limit(LEAVE_SECONDS))
        except httpcore2.ReadTimeout:
            return
        except httpcore2.ReadError:
            self._early = b""
        if not self._early.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")):
            self._state.was_declined = True
            raise httpcore2.WriteError

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._state.limit(timeout))
        return _DeadlineStream(secured, self._state)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _look_up(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses of a host. Raises ConnectError and ConnectTimeout.

    getaddrinfo(3) takes no time limit, so the lookup runs in a thread. One that hangs is left behind.
    """
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    found: list[list[str] | Exception] = []

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            found.append(error)
        else:
            found.append(list(dict.fromkeys(_with_scope(*answer[4]) for answer in answers)))

    thread = threading.Thread(target=look_up, name="name lookup", daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise httpcore2.ConnectTimeout
    if isinstance(found[0], Exception):
        raise httpcore2.ConnectError(str(found[0])) from found[0]
    return found[0]


def _with_scope(address: Any, _port: Any, _flow: Any = 0, scope: Any = 0) -> str:
    """Return an address with its scope: a link-local IPv6 address is useless without it."""
    return f"{address}%{scope}" if scope else str(address)

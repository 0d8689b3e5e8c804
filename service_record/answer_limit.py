"""Ends an answer that does not come to its end in time: while a byte of it always comes, no time-out does."""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

_IS_CONNECTED: Final = (".connect_tcp.complete", ".start_tls.complete")
_IS_SENT: Final = ".send_request_body.complete"


class AnswerLimit:
    """A context manager for one request at a time, which is told by httpx2's trace how far it is.

    How long the request may take to be sent is not its matter: a slow line may take long for it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        """Whether the answer was ended."""
        self._is_meant = False
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        self.is_over, self._is_meant = False, True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_meant = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def traced(self, name: str, info: Mapping[str, Any]) -> None:
        """What the library has done; for its extension `trace`."""
        if name.endswith(_IS_CONNECTED):
            self._socket = info["return_value"].get_extra_info("socket")
        elif name.endswith(_IS_SENT) and self._is_meant:
            self._timer = threading.Timer(self.seconds, self._end)
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):
                # Not the method of a TLS socket: that one would pull the session from under the reader.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

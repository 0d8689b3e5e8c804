"""Nobody is reached but this machine, and nothing is looked up, while settings name whatever they like."""

import errno
import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_is_up = False


def _see(event: str, arguments: tuple[object, ...]) -> None:
    if not _is_up:
        return
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        _refuse_unless_loopback(arguments[1][0])
    elif event == "socket.getaddrinfo":
        _refuse_unless_loopback(arguments[0])


def _refuse_unless_loopback(host: object) -> None:
    name = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
    try:
        is_near = ipaddress.ip_address(name).is_loopback
    except ValueError:
        is_near = False
    if not is_near:
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))


sys.addaudithook(_see)


@contextmanager
def walled() -> Iterator[None]:
    """As on a host without a network, but for its own addresses."""
    global _is_up  # noqa: PLW0603  # a hook stays for ever, and is told so when to look
    _is_up = True
    try:
        yield
    finally:
        _is_up = False

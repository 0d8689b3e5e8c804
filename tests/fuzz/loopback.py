"""Block connections and look-ups beyond loopback, because drawn settings name any host."""

import errno
import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_is_blocked = False


def _check_event(event: str, arguments: tuple[object, ...]) -> None:
    if not _is_blocked:
        return
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        _refuse_unless_loopback(arguments[1][0])
    elif event == "socket.getaddrinfo":
        _refuse_unless_loopback(arguments[0])


def _refuse_unless_loopback(host: object) -> None:
    name = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
    try:
        is_loopback = ipaddress.ip_address(name).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))


sys.addaudithook(_check_event)


@contextmanager
def block_network() -> Iterator[None]:
    """Refuse all addresses except loopback during the block."""
    global _is_blocked  # noqa: PLW0603  # an audit hook cannot be removed, so a global switches it on and off
    _is_blocked = True
    try:
        yield
    finally:
        _is_blocked = False

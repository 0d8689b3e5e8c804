"""Tests of the fork server, which imports modules ahead to start commands faster."""

import asyncio
import socket

from tests.fork_server import report_imported_modules


def test_private_modules_are_not_imported_by_name() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        report_imported_modules(theirs, frozenset())
        names = ours.recv(1 << 20).decode().split()

    assert asyncio.__name__ in names
    assert "_asyncio" not in names

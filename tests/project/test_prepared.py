"""Tests of the process that imports modules ahead, so that tests start the command line faster."""

import asyncio
import socket

from tests.prepared import report_imports


def test_private_modules_are_not_imported_by_name() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        report_imports(theirs, frozenset())
        names = ours.recv(1 << 20).decode().split()

    assert asyncio.__name__ in names
    assert "_asyncio" not in names

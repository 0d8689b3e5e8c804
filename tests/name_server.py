"""A DNS server on loopback, and a way to run commands that use only this server."""

import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

_MOUNT = 'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/nsswitch.conf && shift 2 && exec "$@"'
_A = 1


class NameServer:
    """`answers` maps each known name to its IPv4 address, or to `SILENT`: then the server does not reply."""

    SILENT = "silent"

    def __init__(self, directory: Path, answers: Mapping[str, str]) -> None:
        self.questions: list[str] = []
        """The name in each question for an IPv4 address."""
        self._answers = answers
        self._resolv, self._nsswitch = directory / "resolv.conf", directory / "nsswitch.conf"
        self.address = f"127.53.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        """An address that differs for each process, because test processes run in parallel."""
        self._resolv.write_text(f"nameserver {self.address}\noptions timeout:5 attempts:1\n")
        self._nsswitch.write_text("hosts: dns\n")

    def prefix(self) -> list[str]:
        """Return the words to put before a command that shall use this server."""
        return ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", str(self._resolv), str(self._nsswitch)]

    def answer(self, question: bytes) -> bytes | None:
        name, kind, end = _parse_question(question)
        if kind == _A:
            self.questions.append(name)
        address = self._answers.get(name)
        if address == self.SILENT:
            return None
        has_answer = address is not None and kind == _A
        flags = 0x8180 if address is not None else 0x8183  # NXDOMAIN
        head = question[:2] + struct.pack(">HHHHH", flags, 1, has_answer, 0, 0)
        record = struct.pack(">HHHIH", 0xC00C, _A, 1, 60, 4) + socket.inet_aton(address or "0.0.0.0")
        return head + question[12:end] + (record if has_answer else b"")


def _parse_question(question: bytes) -> tuple[str, int, int]:
    labels, place = [], 12
    while length := question[place]:
        labels.append(question[place + 1 : place + 1 + length].decode())
        place += 1 + length
    (kind,) = struct.unpack_from(">H", question, place + 1)
    return ".".join(labels).lower(), kind, place + 5


@contextmanager
def serve_names(directory: Path, answers: Mapping[str, str]) -> Iterator[NameServer]:
    """Serve these names until the end of the block. Skips the test without root rights."""
    if os.geteuid() != 0:
        pytest.skip("not root, so no name server of its own")
    server = NameServer(directory, answers)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind((server.address, 53))
        listening.settimeout(0.1)
        is_over = threading.Event()
        thread = threading.Thread(target=_serve, args=(listening, server, is_over))
        thread.start()
        try:
            yield server
        finally:
            is_over.set()
            thread.join()


def _serve(listening: socket.socket, server: NameServer, is_over: threading.Event) -> None:
    while not is_over.is_set():
        try:
            question, sender = listening.recvfrom(4096)
        except TimeoutError:
            continue
        answer = server.answer(question)
        if answer is not None:
            listening.sendto(answer, sender)

"""A record file as a stream that only grows, and what tells one such stream from another."""

import hashlib
import os
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Final

from service_record.entry import Entry
from service_record.layout import BYTE_ORDER_MARK, read_entries
from service_record.records import open_record

HEAD: Final = 4096
"""Bytes of the beginning of a stream that tell it from others, at most."""
_MOST_ARRAY: Final = 64 << 20
"""Bytes of a file in an array layout that is sent; it is read as a whole."""


class Stream:
    """The stream of a record file, as it is now. Close it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_record(path)
        self._lines: bytes | None = None
        head = os.pread(self._descriptor, HEAD, 0).removeprefix(BYTE_ORDER_MARK).lstrip()
        if head.startswith(b"["):
            self._lines = _as_lines(os.pread(self._descriptor, _MOST_ARRAY, 0))

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from there on; fewer where it ends."""
        if self._lines is not None:
            return self._lines[offset : offset + size]
        return os.pread(self._descriptor, size, offset)

    def has(self, offset: int) -> bool:
        """Whether it is at least so long."""
        return offset == 0 or len(self.read(offset - 1, 1)) == 1

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def _as_lines(array: bytes) -> bytes:
    """The entries of an array, each on a line, and what is damaged between them.

    What is damaged at the end may still be written.
    """
    pieces = list(read_entries(BytesIO(array)))
    while pieces and not isinstance(pieces[-1], Entry):
        pieces.pop()
    return b"".join(
        piece.to_line() if isinstance(piece, Entry) else piece.text.encode() + b"\n" for piece in pieces
    )


def begins_as(stream: Stream, file: str) -> bool:
    """Whether a stream has the beginning that its name, `LENGTH-DIGEST`, tells of."""
    length, _, digest = file.partition("-")
    if not length.isdecimal() or int(length) > HEAD:
        return False
    head = stream.read(0, int(length))
    return len(head) == int(length) and digest_of(head) == digest.partition("-")[0]


def digest_of(head: bytes) -> str:
    """Tells beginnings apart, and tells nobody without the host's own id what is in them."""
    return hashlib.blake2b(head, digest_size=16, key=_machine_id()).hexdigest()


@cache
def _machine_id() -> bytes:
    """Which machine-id(5) asks to keep to oneself."""
    try:
        return Path("/etc/machine-id").read_bytes().strip()[:64]
    except OSError:
        return b""


def signature_of(path: Path) -> tuple[int, ...]:
    """What changes with a file, or with what takes its place."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

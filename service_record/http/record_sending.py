"""Send new entries of the records in a directory to a collector, in batches.

A file is sent as a stream of bytes that only grows. A record of lines is sent as it is, with secrets masked
at the same length. Files in an array layout are rewritten, so their entries are sent as lines. The collector
stores the offset of each stream; nothing is stored on the host.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from io import BytesIO
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from service_record.http.address import CollectorError, NotTaken
from service_record.http.collector_answers import (
    Batch,
    OffsetsProblem,
    Piece,
    StoredBatch,
    StoredFile,
    StoredRecords,
)
from service_record.http.collector_client import CollectorClient, host_path
from service_record.record.directory import Records, open_record
from service_record.record.entry import BYTE_ORDER_MARK, Entry
from service_record.record.layout import read_entries

HEAD: Final = 4096
"""At most this many bytes at the beginning of a stream identify it."""
_MOST_ARRAY: Final = 64 << 20
"""Limit, in bytes, of a file in an array layout: it is read as a whole."""


class Stream:
    """The stream of a record file, as it is now. Close it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_record(path)
        self._lines: bytes | None = None
        head = os.pread(self._descriptor, HEAD, 0).removeprefix(BYTE_ORDER_MARK).lstrip()
        if head.startswith(b"["):
            self._lines = _as_lines(os.pread(self._descriptor, _MOST_ARRAY, 0))

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset`, or fewer at the end."""
        if self._lines is not None:
            return self._lines[offset : offset + size]
        return os.pread(self._descriptor, size, offset)

    def tail(self, size: int) -> bytes:
        """Return the whole lines among the last `size` bytes."""
        end = len(self._lines) if self._lines is not None else os.fstat(self._descriptor).st_size
        begin = max(0, end - size)
        data = self.read(begin, end - begin)
        return data if begin == 0 else data.partition(b"\n")[2]

    def has(self, offset: int) -> bool:
        """Return whether the stream has at least `offset` bytes."""
        return offset == 0 or len(self.read(offset - 1, 1)) == 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _as_lines(array: bytes) -> bytes:
    """Return the entries of an array, one a line, with the damaged pieces between them.

    Damaged pieces at the end are left out, because a writer may still complete them.
    """
    pieces = list(read_entries(BytesIO(array)))
    while pieces and not isinstance(pieces[-1], Entry):
        pieces.pop()
    return b"".join(
        piece.to_line() if isinstance(piece, Entry) else piece.text.encode() + b"\n" for piece in pieces
    )


def begins_as(stream: Stream, file: str) -> bool:
    """Return whether a stream has the beginning that its name, `LENGTH-DIGEST`, describes."""
    length, _, digest = file.partition("-")
    if not length.isdecimal() or int(length) > HEAD:
        return False
    head = stream.read(0, int(length))
    return len(head) == int(length) and digest_head(head) == digest.partition("-")[0]


def digest_head(head: bytes) -> str:
    """Return a digest of the beginning of a stream. It is keyed with the machine id, so nobody else can guess
    the content from it.
    """
    return hashlib.blake2b(head, digest_size=16, key=_machine_id()).hexdigest()


@cache
def _machine_id() -> bytes:
    """Return the machine id, which machine-id(5) asks to keep private."""
    try:
        return Path("/etc/machine-id").read_bytes().strip()[:64]
    except OSError:
        return b""


def read_signature(path: Path) -> tuple[int, ...]:
    """Return a value that changes with a file, or with the file that takes its place."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_BATCH: Final = 768 << 10
"""Bytes of records in one request."""
_MOST_PIECES: Final = 200
_PIECE: Final = 256 << 10
_HIDDEN: Final = b"*"
_LONGEST_NAME: Final = 250
"""Characters of the name of a service; a longer one, or one that cannot be printed, is not sent."""
_MOST_TURNS: Final = 8
"""Answers in a row without progress, after which sending is given up."""


@dataclass(slots=True)
class _StreamPosition:
    """The position up to which the stream of a service was sent."""

    file: str = ""
    """The name of this stream: the length and the digest of its beginning. Empty before anything was sent."""
    offset: int = 0
    seen: tuple[int, ...] = ()
    """The file as it was when nothing of it was left to send."""


@dataclass(slots=True)
class Sender:
    """Sends the records of one directory, of all services or of some."""

    client: CollectorClient
    host: str
    records: Records
    services: frozenset[str] = frozenset()
    mask: Callable[[bytes], bytes] = bytes
    """Masks the secrets in whole lines, and keeps their lengths."""
    sent_bytes: int = 0
    _sent: dict[str, _StreamPosition] = field(default_factory=dict)
    _offsets: dict[tuple[str, str], int] | None = None

    def send(self, seconds: float = inf) -> None:
        """Send all new entries, or as many as can be sent in about `seconds`.

        Raises NotTaken, and OSError where the records cannot be read.
        """
        turns, until = 0, monotonic() + seconds
        while monotonic() < until and (batch := list(self._batch())):
            before = self.sent_bytes
            self._deliver(batch)
            turns = 0 if self.sent_bytes > before else turns + 1
            if turns == _MOST_TURNS:
                raise NotTaken("the collector keeps returning inconsistent offsets", is_final=False)

    def _batch(self) -> Iterator[Piece]:
        """Yield the pieces to send next."""
        if self._offsets is None:
            self._offsets = self._ask()
        room, pieces = _BATCH, 0
        for service in self._services():
            if room <= 0 or pieces == _MOST_PIECES:
                return
            sent = self._sent.setdefault(service, _StreamPosition())
            with suppress(FileNotFoundError):  # removed at this moment
                piece = self._next(service, sent, min(room, _PIECE))
                if piece is not None:
                    room, pieces = room - len(piece.data), pieces + 1
                    yield piece

    def _services(self) -> list[str]:
        """Return the services that may have something new, in turn, so that the first do not delay the
        others.
        """
        try:
            there = self.records.services()
        except FileNotFoundError:
            return []
        services = [
            service
            for service in there
            if (not self.services or service in self.services)
            and service.isprintable()
            and len(service) <= _LONGEST_NAME
        ]
        return [service for service in services if self._is_new(service)]

    def _is_new(self, service: str) -> bool:
        sent = self._sent.get(service)
        return sent is None or not sent.seen or sent.seen != read_signature(self._path(service))

    def _path(self, service: str) -> Path:
        return self.records.directory / f"{service}.json"

    def _next(self, service: str, sent: _StreamPosition, size: int) -> Piece | None:
        signature = read_signature(self._path(service))
        with closing(Stream(self._path(service))) as stream:
            if not sent.file or not begins_as(stream, sent.file) or not stream.has(sent.offset):
                self._begin(service, sent, stream)
            data = self._whole_lines(stream, sent.offset, size) if sent.file else b""
        if not data:
            sent.seen = signature
            return None
        return Piece(service, sent.file, sent.offset, data)

    def _whole_lines(self, stream: Stream, offset: int, size: int) -> bytes:
        """Return the next whole lines, with secrets masked. A line without its end is sent later.

        A line that is longer than a piece is masked as a whole: a secret may be cut at any place.
        """
        data = stream.read(offset, size)
        is_within = offset > 0 and stream.read(offset - 1, 1) != b"\n"
        end = data.rfind(b"\n") + 1
        if not end:
            return _HIDDEN * len(data) if is_within or len(data) == size else b""
        begin = data.find(b"\n") if is_within else 0
        return _HIDDEN * begin + self.mask(data[begin:end])

    def _begin(self, service: str, sent: _StreamPosition, stream: Stream) -> None:
        """Find the stream among the collector's streams, or begin a new one."""
        offsets = self._offsets or {}
        for (name, file), offset in reversed(offsets.items()):
            if name == service and begins_as(stream, file) and stream.has(offset):
                sent.file, sent.offset = file, offset
                return
        head = stream.read(0, HEAD)
        sent.file = f"{len(head)}-{digest_head(head)}" if head else ""
        sent.offset = 0
        if (service, sent.file) in offsets:  # an earlier stream with the same beginning that was longer
            sent.file += (
                f"-{sum(file.startswith(sent.file) for name, file in offsets if name == service) + 1}"
            )

    def _ask(self) -> dict[tuple[str, str], int]:
        """Ask the collector for the offset of each stream."""
        try:
            return _offsets_of(self.client.get(host_path(self.host, "records"), StoredRecords).files)
        except CollectorError as fault:
            # The token of an administrator makes a host by sending: the answer to that decides.
            if fault.status == HTTPStatus.NOT_FOUND and self._services():
                return {}
            raise _not_taken(fault) from None

    def _deliver(self, batch: list[Piece]) -> None:
        """Send a batch, and continue where the collector says."""
        try:
            stored = self.client.post(host_path(self.host, "records"), Batch(batch), StoredBatch)
        except CollectorError as fault:
            if fault.status != HTTPStatus.CONFLICT:
                raise _not_taken(fault) from None
            self._go_on(_read_offsets(fault.body))
            return
        offsets = self._go_on(stored.files)
        self.sent_bytes += sum(
            len(piece.data) for piece in batch if offsets.get((piece.service, piece.file)) == piece.end
        )

    def _go_on(self, files: Sequence[StoredFile]) -> dict[tuple[str, str], int]:
        """Continue from the offsets in an answer. Return the offset of each service and file."""
        offsets = _offsets_of(files)
        self._offsets = {**(self._offsets or {}), **offsets}
        for (service, file), offset in offsets.items():
            sent = self._sent.get(service)
            if sent is not None and sent.file == file:
                sent.offset = offset
        return offsets


def _offsets_of(files: Sequence[StoredFile]) -> dict[tuple[str, str], int]:
    return {(one.service, one.file): one.offset for one in files}


def _read_offsets(body: bytes) -> Sequence[StoredFile]:
    """Return the offsets in the refusal of a batch. Raises NotTaken."""
    try:
        return msgspec.json.decode(body, type=OffsetsProblem).files
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotTaken("the server is not a service-record collector", is_final=False) from None


def _not_taken(fault: CollectorError) -> NotTaken:
    """Return whether a refusal is final: the same request would be refused again."""
    later = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
    status = fault.status
    is_final = (
        status is not None
        and HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        and status not in later
    )
    return NotTaken(str(fault), is_final=is_final or status == HTTPStatus.INSUFFICIENT_STORAGE)

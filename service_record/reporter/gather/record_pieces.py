"""The service records of the host, in the form that `pack` gives them."""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.bundle.packing import as_text, free_name, unambiguous
from service_record.export import FORMS
from service_record.record.appending import DAMAGED_SUFFIX, SUFFIX
from service_record.record.directory import Records
from service_record.record.entry import Entry, Malformed
from service_record.reporter.gather import files
from service_record.reporter.gather.model import Begin, Context, GatherError, GatherStatus, Pieces, Task

_DIRECTORY: Final = "/var/log/openshift"
_BLOCK_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class ServiceRecords:
    """`<service>.json`, an array, of each record; what is damaged in `<service>.json.damaged` beside it."""

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError, absent where nothing was recorded, failed where one could not be read."""
        records = Records(records_directory(task.context))
        try:
            services = records.services(with_inbox=True)
        except OSError as error:
            raise GatherError(GatherStatus.FAILED, f"{records.directory}: {error.strerror}") from error
        if not services:
            raise GatherError(GatherStatus.ABSENT, f"no *{SUFFIX} in {records.directory}")
        trouble: list[str] = []
        used_names: set[str] = set()
        for service in services:
            try:
                yield from _record(records, service, task, used_names)
            except OSError as error:
                trouble.append(f"{service}: {error.strerror or error}")
            if task.deadline.seconds_left() == 0:
                raise GatherError(
                    GatherStatus.TIMED_OUT, f"{service} and what comes after it was not read in time"
                )
        if trouble:
            raise GatherError(GatherStatus.FAILED, trouble[0])


def records_directory(context: Context) -> Path:
    """Return where this host's records are: $SERVICE_RECORDS_DIR, else /var/log/openshift, below its root."""
    return files.below(context.root, context.environ.get("SERVICE_RECORDS_DIR") or _DIRECTORY)


def _record(records: Records, service: str, task: Task, used_names: set[str]) -> Pieces:
    member = f"{task.collector.member}{free_name(service, used_names)}{SUFFIX}"
    path = records.directory / f"{service}{SUFFIX}"
    damage = _DamagedPieces(task.collector.bytes)
    entries = damage.sorted_out(in_time(records.read(service), task))
    written = path.stat().st_mtime if path.exists() else time.time()
    yield Begin(member, written, opening=_array_begins)
    yield from _in_blocks(FORMS["array"](entries))
    copy = path.with_name(path.name + DAMAGED_SUFFIX)
    if damage.pieces or copy.exists():
        yield Begin(f"{member}{DAMAGED_SUFFIX}", written, damage.skipped)
        yield from _copy(copy, task.collector.bytes)
        yield as_text(damage.pieces)


def _in_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    block = bytearray()
    for chunk in chunks:
        block += chunk
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def in_time(pieces: Iterable[Entry | Malformed], task: Task) -> Iterator[Entry | Malformed]:
    """Yield the pieces of a record; those for which there is no time are missing, and the array is closed
    still.
    """
    for piece in pieces:
        if task.deadline.seconds_left() == 0:
            return
        yield piece


def _array_begins(_dropped: int) -> bytes:
    """Return what makes the rest of an array one again: an entry stands on a line of its own."""
    return b"[\n"


def _copy(path: Path, most: int) -> Iterator[bytes]:
    if path.exists():
        with os.fdopen(files.opened(path), "rb") as stream:
            _, chunks = files.tail(stream.fileno(), most)
            yield from chunks
        yield b"\n"


class _DamagedPieces:
    """The damaged pieces of a record; the latest of them when there are many."""

    def __init__(self, most: int) -> None:
        self.pieces: deque[Malformed] = deque()
        self.skipped = 0
        self._most = most
        self._bytes = 0

    def sorted_out(self, pieces: Iterable[Entry | Malformed]) -> Iterator[Entry]:
        for piece in pieces:
            if isinstance(piece, Entry):
                yield unambiguous(piece)
            else:
                self._add(piece)

    def _add(self, piece: Malformed) -> None:
        self.pieces.append(piece)
        self._bytes += len(piece.text)
        while self._bytes > self._most:
            dropped = len(self.pieces.popleft().text)
            self._bytes -= dropped
            self.skipped += dropped

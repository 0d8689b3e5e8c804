"""Gather the service records of the host, in the format of `service-record pack`."""

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
from service_record.record.file_end import read_tail
from service_record.reporter.gather import files
from service_record.reporter.gather.model import Begin, Context, GatherError, GatherStatus, Pieces, Task

_DIRECTORY: Final = "/var/log/openshift"
_BLOCK_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class ServiceRecords:
    """Each record as a JSON array, `<service>.json`; its damaged parts are in `<service>.json.damaged`."""

    def __call__(self, task: Task) -> Pieces:
        """Yield the files. Raises GatherError: absent if there is no record, failed if one cannot be read."""
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
                yield from _read_record(records, service, task, used_names)
            except OSError as error:
                trouble.append(f"{service}: {error.strerror or error}")
            except GatherError as error:
                trouble.append(str(error))
            if task.deadline.seconds_left() == 0:
                raise GatherError(
                    GatherStatus.TIMED_OUT, f"{service} and the services after it were not read in time"
                )
        if trouble:
            raise GatherError(GatherStatus.FAILED, trouble[0])


def records_directory(context: Context) -> Path:
    """Return the directory of records below the root: $SERVICE_RECORDS_DIR, or /var/log/openshift."""
    return files.resolve_in_root(context.root, context.environ.get("SERVICE_RECORDS_DIR") or _DIRECTORY)


def _read_record(records: Records, service: str, task: Task, used_names: set[str]) -> Pieces:
    member = f"{task.collector.member}{free_name(service, used_names)}{SUFFIX}"
    path = records.directory / f"{service}{SUFFIX}"
    damage = _DamagedPieces(task.collector.bytes)
    entries = damage.sorted_out(until_deadline(records.read(service), task))
    written = path.stat().st_mtime if path.exists() else time.time()
    yield Begin(member, written, opening=_reopen_array)
    yield from _join_into_blocks(FORMS["array"](entries))
    copy = path.with_name(path.name + DAMAGED_SUFFIX)
    if damage.pieces or copy.exists():
        yield Begin(f"{member}{DAMAGED_SUFFIX}", written, damage.skipped)
        try:
            yield from _read_damaged_file(copy, task.collector.bytes)
        except (GatherError, OSError):
            yield as_text(damage.pieces)
            raise
        yield as_text(damage.pieces)


def _join_into_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    block = bytearray()
    for chunk in chunks:
        block += chunk
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def until_deadline(pieces: Iterable[Entry | Malformed], task: Task) -> Iterator[Entry | Malformed]:
    """Yield the pieces of a record until the deadline expires.

    It ends without an error then, so that the caller can still close the JSON array.
    """
    for piece in pieces:
        if task.deadline.seconds_left() == 0:
            return
        yield piece


def _reopen_array(_dropped: int) -> bytes:
    """Return the new beginning of a cut array. Each entry is one line, and cuts are between lines."""
    return b"[\n"


def _read_damaged_file(path: Path, most: int) -> Iterator[bytes]:
    if path.exists():
        with os.fdopen(files.open_file(path), "rb") as stream:
            _, chunks = read_tail(stream.fileno(), most)
            yield from chunks
        yield b"\n"


class _DamagedPieces:
    """Collects the damaged pieces of a record: the latest `most` bytes of them."""

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

"""Compressed blocks of a member whose size is not known yet, of which the newest are kept.

Several threads compress them, each to a whole gzip member. gzip members one after another are one gzip file
(RFC 1952, section 2.2), which GNU tar, Go's gzip.Reader and Python read as such. So blocks are compressed
independently of one another, and the oldest can be dropped.
"""

import os
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Final, TypeAlias

from service_record.bundle.segment_queue import Backlog, DiskReserve, is_full

Compress: TypeAlias = Callable[[bytes], bytes]

_GZIP: Final = 16 + zlib.MAX_WBITS
"""Has zlib write gzip's header and trailer, without a name and a time: the same data are the same bytes."""
_ISAL_LEVEL: Final = 3
_ZLIB_LEVEL: Final = 6
_MAX_WORKERS: Final = 4
SPARE_BYTES: Final = 1 << 10
"""More than compression adds to a block that cannot be compressed: 5 bytes for 16 KiB, and 18."""


def best_compress() -> Compress:
    """Return one block to one gzip member: by ISA-L where it is installed, else by zlib.

    ISA-L takes a seventh of the processor time of `gzip -6` on logs, and its output is 3 % longer
    (docs/bundle.md). Its wheels are for x86-64 and arm64 only; a host of another kind has zlib.
    """
    try:
        from isal import isal_zlib  # noqa: PLC0415  # an extra, and only for hosts that pack
    except ImportError:
        return lambda data: zlib.compress(data, _ZLIB_LEVEL, _GZIP)
    return lambda data: isal_zlib.compress(data, _ISAL_LEVEL, _GZIP)


class Pool:
    """Threads that compress; the libraries release Python's lock meanwhile."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or min(len(os.sched_getaffinity(0)), _MAX_WORKERS)
        self.compress = best_compress()
        self._threads = ThreadPoolExecutor(self.workers, "compression")

    def submit(self, data: bytes) -> Future[bytes]:
        return self._threads.submit(self.compress, data)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


BLOCK_BYTES: Final = 1 << 20
"""Of content in a block. Smaller ones compress worse: by a tenth at 64 KiB."""
MIN_BLOCK_BYTES: Final = 1 << 13
"""Twice the longest line that our own recorders write, so that records are cut between lines."""
_HELD_BYTES: Final = 1 << 20
"""A member with no higher limit is held in memory: nothing of it is compressed only to be dropped."""
_BLOCKS_IN_LIMIT: Final = 16
"""Others are cut by whole blocks: at most a sixteenth of what might be kept is not."""


class Cut(StrEnum):
    """Why the beginning of a member is missing."""

    LIMIT = "limit"
    """Its own was reached."""
    ROOM = "room"
    """The bundle as a whole would have become too large."""
    DISK = "disk full"


class Blocks:
    """What is written to it, or the end of that: at most `limit` bytes, and compressed at most `room`.

    The same content makes the same blocks, however it was divided among calls of write().
    """

    def __init__(
        self,
        pool: Pool,
        backlog: Backlog,
        *,
        block_bytes: int,
        limit: int | None,
        room: int,
        disk_reserve: DiskReserve | None,
    ) -> None:
        """Reserve disk space, which is freed when the disk is full."""
        self._pool = pool
        self._backlog = backlog
        self._limit = limit
        self._room = room
        self._disk_reserve = disk_reserve
        block_bytes = min(block_bytes, max(room // _BLOCKS_IN_LIMIT, MIN_BLOCK_BYTES))
        self._block_bytes = min(block_bytes, limit // _BLOCKS_IN_LIMIT) if limit else block_bytes
        self._held_bytes = 0
        if limit is not None and limit <= _HELD_BYTES:
            self._limit, self._held_bytes, self._block_bytes = None, limit, block_bytes
        self._ahead = bytearray()
        self._packing: deque[tuple[int, Future[bytes]]] = deque()
        self._kept: deque[int] = deque()
        """How much content is in each block that is kept."""
        self.size = 0
        """Bytes of content in what is kept."""
        self.dropped = 0
        """Bytes of content in what was dropped."""
        self.cut: Cut | None = None
        """Why the latest of it was dropped."""

    def write(self, data: bytes) -> None:
        self._ahead += data
        if not self._held_bytes:
            self._submit_blocks()
        elif len(self._ahead) > 2 * self._held_bytes:
            self._forget(len(self._ahead) - self._held_bytes - 1)

    def finish(self) -> None:
        """Compress the rest, and wait for it."""
        if self._held_bytes:
            self._cut_held()
            self._submit_blocks()
        if self._ahead:
            self._submit(bytes(self._ahead))
            self._ahead.clear()
        while self._packing:
            self._keep_next()

    def first(self) -> bytes | None:
        """Return the oldest block of those kept, compressed; None when there is none left."""
        return self._backlog.first() if self._kept else None

    def take(self) -> None:
        """Forget the oldest block, which is somewhere else now."""
        self._backlog.drop()
        self.size -= self._kept.popleft()

    def drop(self, cut: Cut) -> None:
        """Leave out the oldest block."""
        self.lose(self._kept[0], cut)
        self.take()

    def lose(self, size: int, cut: Cut) -> None:
        """Say that so much content, which is not kept any more, is nowhere else either."""
        self.dropped += size
        self.cut = cut

    def close(self) -> None:
        """Forget all of it."""
        for _, packing in self._packing:
            packing.cancel()
        self._packing.clear()
        self._kept.clear()
        self._backlog.close()

    def _submit_blocks(self) -> None:
        while len(self._ahead) >= self._block_bytes:
            end = self._ahead.rfind(b"\n", 0, self._block_bytes) + 1 or self._block_bytes
            self._submit(bytes(self._ahead[:end]))
            del self._ahead[:end]

    def _cut_held(self) -> None:
        """Forget what is held beyond the limit, up to a line's end if one is near."""
        start = len(self._ahead) - self._held_bytes
        if start > 0:
            line_end = self._ahead.find(b"\n", start - 1, start + self._held_bytes // 2)
            self._forget(line_end + 1 if line_end >= 0 else start)

    def _forget(self, size: int) -> None:
        """Leave out so much of what is held: it was never compressed."""
        self.lose(size, Cut.LIMIT)
        del self._ahead[:size]

    def _submit(self, content: bytes) -> None:
        """Never more in work than there are threads, and one: that bounds the memory."""
        self._packing.append((len(content), self._pool.submit(content)))
        if len(self._packing) > self._pool.workers:
            self._keep_next()

    def _keep_next(self) -> None:
        size, packing = self._packing.popleft()
        self._keep(size, packing.result())

    def _keep(self, size: int, packed: bytes) -> None:
        if self._limit is not None:
            while self._kept and self.size + size > self._limit:
                self.drop(Cut.LIMIT)
        while self._kept and self._backlog.bytes + len(packed) > self._room:
            self.drop(Cut.ROOM)
        if len(packed) > self._room:
            self.lose(size, Cut.ROOM)
        elif self._is_waiting(packed):
            self._kept.append(size)
            self.size += size
        else:
            self.lose(size, Cut.DISK)

    def _is_waiting(self, packed: bytes) -> bool:
        """Return whether there was disk for it, at last without any block before it."""
        while True:
            try:
                self._backlog.append(packed)
            except OSError as error:
                if not is_full(error):
                    raise
            else:
                return True
            if self._kept:
                self.drop(Cut.DISK)
            elif not (self._disk_reserve and self._disk_reserve.release()):
                return False

"""The file of a bundle: gzip members that make a tar archive, written in one pass into one file.

gzip members one after another are one gzip file (RFC 1952, section 2.2), which GNU tar, Go's gzip.Reader and
Python read as such. So several threads compress blocks of content, each to a whole gzip member, and these are
appended as they come, behind some room for the header: that has the size of the content, which is known last.
Beyond a limit the oldest blocks go, and those behind them are moved to where they were.
"""

import errno
import os
import tarfile
import tempfile
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from io import FileIO

Compress: TypeAlias = Callable[[bytes], bytes]
Opening: TypeAlias = Callable[[int], bytes]
"""The beginning to write before a member's content, given the number of bytes that were cut off."""

BLOCK_BYTES: Final = 1 << 20
"""Content of one block. Smaller ones compress worse: by a tenth at 64 KiB."""
MIN_BLOCK_BYTES: Final = 1 << 13
"""Twice the longest line that our own recorders write, so that records are cut between lines."""
SPARE_BYTES: Final = 1 << 12
"""Room for more than a header takes, and for what compression adds to a block that it cannot make smaller."""
_HELD_BYTES: Final = 1 << 20
"""A member with no higher limit is held in memory: nothing of it is compressed only to be dropped."""
_BLOCKS_IN_LIMIT: Final = 16
"""Others are cut by whole blocks: at most a sixteenth of what might be kept is not."""
_CUT_SHARE: Final = 6
"""The part (one in so many) of the room that is freed at once when it is used up: so each block moves only
a few times.
"""
_HEAD_SPARE_BYTES: Final = 1 << 10
_LONGEST: Final = 1 << 62
_FILE_MODE: Final = 0o640
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_END: Final = bytes(2 * tarfile.BLOCKSIZE)
_GZIP: Final = 16 + zlib.MAX_WBITS
"""Has zlib write gzip's header and trailer, without a name and a time: the same data are the same bytes."""
_ISAL_LEVEL: Final = 3
_ZLIB_LEVEL: Final = 6
_MAX_WORKERS: Final = 4
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a file that cannot grow: no space, beyond a quota, beyond ulimit -f."""
_NOT_GIVEN: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})
"""Errors of file systems that cannot reserve disk for a file."""


class Cut(StrEnum):
    """The reason why the beginning of a member is missing."""

    LIMIT = "limit"
    """The member's own limit was reached."""
    ROOM = "room"
    """The bundle as a whole would have become too large."""
    DISK = "disk full"


class DiskReserve:
    """Disk that is held until it is needed for what must not be missing, in a file without a name."""

    def __init__(self, directory: Path, size: int) -> None:
        """Hold so many bytes, or none where the file system does not give them."""
        self.bytes = size
        """The size of the reserve that was asked for."""
        self._file: FileIO | None = None
        try:
            self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115  # held
            os.posix_fallocate(self._file.fileno(), 0, size)
        except OSError as error:
            self.release()
            if error.errno not in _FULL | _NOT_GIVEN:
                raise

    @property
    def size(self) -> int:
        return 0 if self._file is None else self.bytes

    def release(self) -> bool:
        """Free it; False when that was done before."""
        if self._file is None:
            return False
        self._file.close()
        self._file = None
        return True


class Archive:
    """A new file of mode 0600. Raises FileExistsError when there is one already."""

    def __init__(self, path: Path, workers: int | None = None) -> None:
        """`workers` are threads that compress; the libraries release Python's lock meanwhile."""
        self._file = os.open(path, _NEW, 0o600)
        self.workers = workers or min(len(os.sched_getaffinity(0)), _MAX_WORKERS)
        self._threads = ThreadPoolExecutor(self.workers, "compression")
        self._compress = best_compress()
        self._ends = [(0, 0)]
        """The end of the file before each member and now: its size, and the zeros still owed."""

    @property
    def size(self) -> int:
        """Return its bytes so far, without a member that is being written."""
        return self._ends[-1][0]

    @property
    def owed(self) -> bytes:
        """Return the zeros with which the next member has to begin."""
        return bytes(self._ends[-1][1])

    def free_bytes(self) -> int:
        """Return the bytes that an ordinary user could still write to the file system, beside this
        archive.
        """
        status = os.fstatvfs(self._file)
        return status.f_bavail * status.f_frsize

    def compressed(self, data: bytes) -> Future[bytes]:
        return self._threads.submit(self._compress, data)

    def read(self, size: int, place: int) -> bytes:
        return os.pread(self._file, size, place)

    def write(self, data: bytes, place: int, end: int) -> bool:
        """Write everything at a place; where that does not fit, return False, and the file ends at `end`."""
        view = memoryview(data)
        try:
            while view:
                done = os.pwrite(self._file, view, place)
                view, place = view[done:], place + done
        except OSError as error:
            self.truncate(end)
            if error.errno not in _FULL:
                raise
            return False
        return True

    def truncate(self, size: int) -> None:
        os.ftruncate(self._file, size)

    def end_member(self, end: int, content: int) -> None:
        """Add a member of so much content, which the file now ends with."""
        self._ends.append((end, -content % tarfile.BLOCKSIZE))

    def finish(self) -> int:
        """Write the end, and return how many members at the end had to go to make room for that."""
        members = len(self._ends)
        while not self.write(self._compress(self.owed + _END), self.size, self.size):
            if len(self._ends) == 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._ends.pop()
            self.truncate(self.size)
        return members - len(self._ends)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


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


class MemberLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on how much of a member is kept; the newest part is."""

    content: int | None
    """Bytes of content."""
    room: int
    """Bytes in the archive."""
    block_bytes: int
    disk_reserve: DiskReserve | None
    """Disk that is freed for it when the disk is full."""


class ArchiveMember:
    """One file as it is written; the newest part of it is kept.

    The same content makes the same blocks, however it was divided among calls of write().
    """

    def __init__(
        self, archive: Archive, path: str, mtime: float, opening: Opening | None, limits: MemberLimits
    ) -> None:
        """Prepare to write behind the other members. `opening` makes the beginning for content that was
        cut.
        """
        self._archive = archive
        self._path = path
        self._mtime = mtime
        self._opening = opening
        self._limits = limits
        self._held_bytes = limits.content if limits.content and limits.content <= _HELD_BYTES else 0
        self._block_bytes = min(limits.block_bytes, max(limits.room // _BLOCKS_IN_LIMIT, MIN_BLOCK_BYTES))
        if limits.content and not self._held_bytes:
            self._block_bytes = min(limits.block_bytes, limits.content // _BLOCKS_IN_LIMIT)
        self._ahead = bytearray()
        self._packing: deque[tuple[int, Future[bytes]]] = deque()
        self._blocks: deque[tuple[int, int]] = deque()
        """Bytes of content, and bytes in the file, of each block that is kept."""
        longest = opening(_LONGEST) if opening else b""
        self._first = archive.size + len(archive.owed + self._header(0) + longest) + _HEAD_SPARE_BYTES
        """The offset of the first block while the header is still to come."""
        self._begin = self._end = archive.size
        """The offsets of the first block and of the end of the last."""
        self.size = 0
        """Bytes of content in what is kept."""
        self.dropped = 0
        """Bytes of content in what was dropped."""
        self.cut: Cut | None = None
        """The reason why the latest of the dropped content was dropped."""

    def write(self, data: bytes) -> None:
        """Append. Raises OSError where the disk fails; when it is only full, the oldest makes room."""
        self._ahead += data
        if not self._held_bytes:
            self._submit_blocks()
        elif len(self._ahead) > 2 * self._held_bytes:
            self._forget(len(self._ahead) - self._held_bytes - 1)

    def finish(self) -> int | None:
        """Put it in place, and return its size; None when it is not there.

        One of which something is missing is not there when nothing is left, or there is no `opening`.
        """
        if self._held_bytes:
            self._cut_held()
            self._submit_blocks()
        if self._ahead:
            self._submit(bytes(self._ahead))
            self._ahead.clear()
        while self._packing:
            self._keep_next()
        while not self.dropped or (self.size and self._opening):
            before = self._opening(self.dropped) if self._opening and self.dropped else b""
            size = len(before) + self.size
            head = self._archive.compressed(self._archive.owed + self._header(size) + before).result()
            if self._archive.write(head, self._archive.size, self._end):
                self._move(self._archive.size + len(head))
                self._archive.end_member(self._end, size)
                return size
            if not self._has_freed():
                self._lose(0, Cut.DISK)
                break
        self._archive.truncate(self._archive.size)
        return None

    def close(self) -> None:
        """Discard what is not written yet."""
        for _, packing in self._packing:
            packing.cancel()
        self._packing.clear()

    def _header(self, size: int) -> bytes:
        header = tarfile.TarInfo(self._path)
        header.size, header.mtime, header.mode = size, max(int(self._mtime), 0), _FILE_MODE
        return header.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")

    def _submit_blocks(self) -> None:
        while len(self._ahead) >= self._block_bytes:
            end = self._ahead.rfind(b"\n", 0, self._block_bytes) + 1 or self._block_bytes
            self._submit(bytes(self._ahead[:end]))
            del self._ahead[:end]

    def _cut_held(self) -> None:
        """Discard what is held beyond the limit, up to a line's end if one is near."""
        start = len(self._ahead) - self._held_bytes
        if start > 0:
            line_end = self._ahead.find(b"\n", start - 1, start + self._held_bytes // 2)
            self._forget(line_end + 1 if line_end >= 0 else start)

    def _forget(self, size: int) -> None:
        """Leave out so many of the held bytes: they were never compressed."""
        self._lose(size, Cut.LIMIT)
        del self._ahead[:size]

    def _submit(self, content: bytes) -> None:
        """Submit a block. Never more are in work than there are threads, and one: that bounds the memory."""
        self._packing.append((len(content), self._archive.compressed(content)))
        if len(self._packing) > self._archive.workers:
            self._keep_next()

    def _keep_next(self) -> None:
        """Append a block, and drop older ones if there is not enough room."""
        size, packing = self._packing.popleft()
        packed, limits = packing.result(), self._limits
        while self._blocks and limits.content and self.size + size > limits.content:
            self._drop(Cut.LIMIT)
        if self._end + len(packed) > self._first + limits.room:
            most = limits.room - limits.room // _CUT_SHARE
            while self._blocks and self._end - self._begin + len(packed) > most:
                self._drop(Cut.ROOM)
            self._move(self._first)
        if len(packed) > limits.room:
            self._lose(size, Cut.ROOM)
            return
        while not self._is_appended(packed):
            if not self._has_freed():
                self._lose(size, Cut.DISK)
                return
        self._blocks.append((size, len(packed)))
        self.size += size

    def _is_appended(self, packed: bytes) -> bool:
        """Write a block, the first behind room for the header; return False where it does not fit."""
        begin = self._end if self._blocks else self._archive.size
        data = packed if self._blocks else bytes(self._first - begin) + packed
        if not self._archive.write(data, begin, begin):
            return False
        if not self._blocks:
            self._begin = self._first
        self._end = begin + len(data)
        return True

    def _has_freed(self) -> bool:
        """Return whether room could be made: by dropping the oldest block, or at last by releasing the
        reserve.
        """
        if self._blocks:
            self._drop(Cut.DISK)
            self._move(self._first)
            return True
        return bool(self._limits.disk_reserve and self._limits.disk_reserve.release())

    def _drop(self, cut: Cut) -> None:
        """Leave out the oldest block."""
        size, packed = self._blocks.popleft()
        self.size -= size
        self._begin += packed
        self._lose(size, cut)

    def _lose(self, size: int, cut: Cut) -> None:
        """Count so much content as lost: it is neither kept nor stored elsewhere."""
        self.dropped += size
        self.cut = cut

    def _move(self, to: int) -> None:
        """Move the blocks to where dropped ones were, or room for the header; the file ends behind them."""
        begin, blocks = self._begin, self._blocks if to != self._begin else ()
        self._begin, self._end = to, to + sum(packed for _, packed in self._blocks)
        for _, packed in blocks:
            self._archive.write(self._archive.read(packed, begin), to, self._end)
            begin, to = begin + packed, to + packed
        self._archive.truncate(self._end)

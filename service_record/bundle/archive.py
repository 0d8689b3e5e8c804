"""The file of a bundle: a tar archive in gzip members, written in one pass into one file.

Several gzip members after one another are one gzip file (RFC 1952, section 2.2), and GNU tar, Go's
gzip.Reader and Python read them so. Each block of content is a gzip member of its own. A tar header has the
size of the content, which is known last. So the blocks are written after room for the header, and moved to
the end of the header when it is written. Beyond a limit the oldest blocks are dropped, and the later ones
move into their place.
"""

import errno
import os
import tarfile
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from service_record.bundle.layers import HEAD_BYTES

Compress: TypeAlias = Callable[[bytes], bytes]
Opening: TypeAlias = Callable[[int], bytes]
"""Returns the text that replaces the dropped beginning of a member, given the number of dropped bytes."""

DISK_BYTES: Final = 64 << 20
"""Default limit of a bundle on disk, also while it is written; and the most that is reserved in advance."""
MIN_BYTES: Final = 64 << 10
"""Lowest limit of a bundle, even on a full disk: enough for verdict, manifest and the end of each log."""
_FREE_SHARE: Final = 4
"""A bundle takes at most a quarter of the free space."""
BLOCK_BYTES: Final = 1 << 20
"""Largest content of a block. Smaller blocks compress worse: by a tenth at 64 KiB."""
MIN_BLOCK_BYTES: Final = 1 << 13
"""Twice the longest line that the recorders of this project write, so records are cut between lines."""
_HELD_BYTES: Final = 1 << 20
"""A member with at most this limit is held in memory, so nothing is compressed and then dropped."""
_BLOCKS_IN_LIMIT: Final = 16
"""Larger members are cut by whole blocks, so at most 1/16 of the allowed content is dropped needlessly."""
_CUT_SHARE: Final = 6
"""If the room is full, 1/6 of it is freed at once, so that each block moves only a few times."""
_HEAD_SPARE_BYTES: Final = 1 << 10
_MOST_DROPPED_BYTES: Final = 1 << 62
_NEW_FILE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_END: Final = bytes(2 * tarfile.BLOCKSIZE)
_GZIP: Final = 16 + zlib.MAX_WBITS
"""zlib writes a gzip header and trailer, without name and time: the same data give the same bytes."""
_ISAL_LEVEL: Final = 2  # level 3 takes twice the time, and makes 1.4 % less
_ZLIB_LEVEL: Final = 6
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors for a file that is too large: no space, beyond a quota, beyond `ulimit -f`."""
_CANNOT_RESERVE: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})
"""Errors of file systems that cannot reserve disk for a file."""


class Cut(StrEnum):
    """Why the beginning of a member was dropped."""

    LIMIT = "limit"
    """The member's own limit was reached."""
    ROOM = "room"
    """The bundle's limit was reached."""


class Archive:
    """The file of a bundle, of mode 0600. It reserves its disk first, if the file system can do that."""

    def __init__(self, path: Path, most: int) -> None:
        """Create the file. Its limit is `most` bytes, or less if little is free.

        Raises FileExistsError if the file exists, and OSError if there is no disk for MIN_BYTES.
        """
        self._file = os.open(path, _NEW_FILE_FLAGS, 0o600)
        try:
            self.limit = self._allocate(most)
            """The largest size of the file, in bytes."""
        except BaseException:
            self.close()
            path.unlink(missing_ok=True)
            raise
        self.compress: Final = best_compress()
        self.size = 0
        """The size of the finished members, in bytes."""
        self.padding = b""
        """Zeros that complete the last tar block; the next gzip member begins with them."""

    def _allocate(self, most: int) -> int:
        status = os.fstatvfs(self._file)
        limit = min(most, max(status.f_bavail * status.f_frsize // _FREE_SHARE, MIN_BYTES))
        while True:
            try:
                os.posix_fallocate(self._file, 0, min(limit, DISK_BYTES))
            except OSError as error:
                if error.errno in _CANNOT_RESERVE:
                    return limit
                if error.errno not in _DISK_FULL or limit < 2 * MIN_BYTES:
                    raise
                limit //= 2
            else:
                return limit

    def read(self, size: int, place: int) -> bytes:
        return os.pread(self._file, size, place)

    def write(self, data: bytes, place: int) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file, view, place)
            view, place = view[done:], place + done

    def end_member(self, end: int, content: int) -> None:
        """Finish a member of `content` uncompressed bytes that ends at the offset `end` in the file."""
        self.size, self.padding = end, bytes(-content % tarfile.BLOCKSIZE)

    def finish(self) -> None:
        """Write the end of the archive, and free the rest of the reserved disk."""
        end = self.compress(self.padding + _END)
        self.write(end, self.size)
        os.ftruncate(self._file, self.size + len(end))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def best_compress() -> Compress:
    """Return a function that compresses a block to a gzip member, by ISA-L if it is installed, else by zlib.

    ISA-L takes a tenth of the processor time of `gzip -6` on logs, and its output is 4 % larger
    (docs/project/bundle.md). It has wheels for x86-64 and arm64 only.
    """
    try:
        from isal import isal_zlib  # an optional dependency
    except ImportError:
        return lambda data: zlib.compress(data, _ZLIB_LEVEL, _GZIP)
    return lambda data: isal_zlib.compress(data, _ISAL_LEVEL, _GZIP)


class MemberRedactor(Protocol):
    """Masks the secrets in one member. The result does not depend on how the data is divided into calls."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind of secret and number of masked ones."""

    @property
    def leak(self) -> tuple[str, int] | None:
        """Kind and line of the first secret that is left after masking, or None."""

    def feed(self, data: bytes, /) -> bytes: ...
    def finish(self) -> bytes: ...


class MemberLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a member. Beyond them the oldest content is dropped."""

    content: int | None
    """Most bytes of content, or None."""
    room: int
    """Most compressed bytes in the archive."""
    block_bytes: int


class MemberWriter:
    """Writes one member; beyond its limits, the oldest content is dropped. Made by BundleWriter.member().

    The same content gives the same blocks, however it is divided into calls of write().
    """

    def __init__(
        self,
        archive: Archive,
        header: tarfile.TarInfo,
        opening: Opening | None,
        redactor: MemberRedactor | None,
        limits: MemberLimits,
    ) -> None:
        """Prepare to write after the finished members. `opening` replaces a dropped beginning."""
        self._archive = archive
        self._header = header
        self._opening = opening
        self._redactor = redactor
        self._limits = limits
        self._held_bytes = limits.content if limits.content and limits.content <= _HELD_BYTES else 0
        self._block_bytes = min(limits.block_bytes, max(limits.room // _BLOCKS_IN_LIMIT, MIN_BLOCK_BYTES))
        if limits.content and not self._held_bytes:
            self._block_bytes = min(limits.block_bytes, limits.content // _BLOCKS_IN_LIMIT)
        self._buffer = bytearray()
        self._blocks: deque[tuple[int, int]] = deque()
        """Uncompressed and compressed size of each block that is kept, oldest first."""
        self._size = 0
        """Uncompressed bytes in the kept blocks."""
        longest = opening(_MOST_DROPPED_BYTES) if opening else b""
        self._first_offset = archive.size + len(archive.padding + self._head(longest)) + _HEAD_SPARE_BYTES
        """The offset of the first block until the header is written."""
        self._begin = self._end = self._first_offset
        """The offsets of the oldest kept block, and of the end of the last."""
        self.written_bytes = 0
        """The number of bytes passed to write(), before redaction."""
        self.cut = 0
        """The number of dropped bytes, counted after redaction."""
        self.reason: Cut | None = None
        """Why the latest of them were dropped."""
        self.head = b""
        """The first bytes after redaction, by which `is_packed` recognises an archive."""

    def write(self, data: bytes, /) -> None:
        """Append `data`. Raises OSError if the disk fails."""
        self.written_bytes += len(data)
        self._add(self._redactor.feed(data) if self._redactor else data)

    def _add(self, data: bytes) -> None:
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]
        self._buffer += data
        if not self._held_bytes:
            self._pack_blocks()
        elif len(self._buffer) > 2 * self._held_bytes:
            self._drop_buffered(len(self._buffer) - self._held_bytes - 1)

    def finish(self) -> int | None:
        """Write the header, move the blocks after it, and return the member's size.

        Returns None if the member is left out: if content was dropped, and nothing is left or there is no
        `opening`.
        """
        if self._redactor:
            self._add(self._redactor.finish())
        if self._held_bytes:
            self._cut_held()
            self._pack_blocks()
        if self._buffer:
            self._pack(bytes(self._buffer))
        before = b""
        if self.cut:
            if not self._size or not self._opening:
                return None
            before = self._opening(self.cut)
        size, archive = len(before) + self._size, self._archive
        head = archive.compress(archive.padding + self._head(before))
        archive.write(head, archive.size)
        self._move(archive.size + len(head))
        archive.end_member(self._end, size)
        return size

    def _head(self, before: bytes) -> bytes:
        """Return the tar header and `before`, the text that replaces a dropped beginning."""
        self._header.size = len(before) + self._size
        return self._header.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape") + before

    def _pack_blocks(self) -> None:
        while len(self._buffer) >= self._block_bytes:
            end = self._buffer.rfind(b"\n", 0, self._block_bytes) + 1 or self._block_bytes
            with memoryview(self._buffer) as buffer:
                content = bytes(buffer[:end])
            del self._buffer[:end]
            self._pack(content)

    def _cut_held(self) -> None:
        """Drop buffered bytes beyond the limit, up to the end of a line if one is near."""
        start = len(self._buffer) - self._held_bytes
        if start > 0:
            line_end = self._buffer.find(b"\n", start - 1, start + self._held_bytes // 2)
            self._drop_buffered(line_end + 1 if line_end >= 0 else start)

    def _drop_buffered(self, size: int) -> None:
        """Drop the oldest `size` bytes of the buffer. They were never compressed."""
        self._count_dropped(size, Cut.LIMIT)
        del self._buffer[:size]

    def _pack(self, content: bytes) -> None:
        """Compress and append a block, and drop older blocks if there is not enough room."""
        packed, limits = self._archive.compress(content), self._limits
        while self._blocks and limits.content and self._size + len(content) > limits.content:
            self._drop_block(Cut.LIMIT)
        if self._end + len(packed) > self._first_offset + limits.room:
            most = limits.room - limits.room // _CUT_SHARE
            while self._blocks and self._end - self._begin + len(packed) > most:
                self._drop_block(Cut.ROOM)
            self._move(self._first_offset)
        if len(packed) > limits.room:
            self._count_dropped(len(content), Cut.ROOM)
            return
        self._archive.write(packed, self._end)
        self._end += len(packed)
        self._size += len(content)
        self._blocks.append((len(content), len(packed)))

    def _drop_block(self, reason: Cut) -> None:
        """Drop the oldest block."""
        size, packed = self._blocks.popleft()
        self._size -= size
        self._begin += packed
        self._count_dropped(size, reason)

    def _count_dropped(self, size: int, reason: Cut) -> None:
        self.cut += size
        self.reason = reason

    def _move(self, to: int) -> None:
        """Move the kept blocks to the offset `to`."""
        begin, self._begin = self._begin, to
        for _, packed in self._blocks if begin != to else ():
            self._archive.write(self._archive.read(packed, begin), to)
            begin, to = begin + packed, to + packed
        self._end = self._begin + sum(packed for _, packed in self._blocks)

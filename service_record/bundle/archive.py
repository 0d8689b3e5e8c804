"""The file of a bundle: gzip members that make a tar archive, written in one pass into one file.

gzip members one after another are one gzip file (RFC 1952, section 2.2), which GNU tar, Go's gzip.Reader and
Python read as such. So each block of content becomes a whole gzip member, and is appended behind some room
for the header: that has the size of the content, which is known last. Beyond a limit the oldest blocks go,
and those behind them are moved to where they were.
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

Compress: TypeAlias = Callable[[bytes], bytes]
Opening: TypeAlias = Callable[[int], bytes]
"""The beginning to write before a member's content, given the number of bytes that were cut off."""

DISK_BYTES: Final = 64 << 20
"""Default limit of a bundle on disk, also while it is made. So much of the disk is taken at once, at most."""
MIN_BYTES: Final = 64 << 10
"""The least limit of a bundle, however full the disk is: a verdict, a manifest and the end of each log."""
_FREE_SHARE: Final = 4
"""A bundle leaves the others on the host three quarters of what is free."""
BLOCK_BYTES: Final = 1 << 20
"""Content of one block. Smaller ones compress worse: by a tenth at 64 KiB."""
MIN_BLOCK_BYTES: Final = 1 << 13
"""Twice the longest line that our own recorders write, so that records are cut between lines."""
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
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_END: Final = bytes(2 * tarfile.BLOCKSIZE)
_GZIP: Final = 16 + zlib.MAX_WBITS
"""Has zlib write gzip's header and trailer, without a name and a time: the same data are the same bytes."""
_ISAL_LEVEL: Final = 2  # level 3 takes twice the time, and makes 1.4 % less
_ZLIB_LEVEL: Final = 6
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a file that cannot be so large: no space, beyond a quota, beyond ulimit -f."""
_NOT_GIVEN: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})
"""Errors of file systems that cannot reserve disk for a file."""


class Cut(StrEnum):
    """The reason why the beginning of a member is missing."""

    LIMIT = "limit"
    """The member's own limit was reached."""
    ROOM = "room"
    """The bundle as a whole would have become too large."""


class Archive:
    """A new file of mode 0600, which takes its disk at once: nothing fails when that is full later."""

    def __init__(self, path: Path, most: int) -> None:
        """Take `most` bytes, less where little is free. Raises FileExistsError, OSError without any disk."""
        self._file = os.open(path, _NEW, 0o600)
        try:
            self.limit = self._allocated(most)
            """Bytes that the file may have."""
        except BaseException:
            self.close()
            path.unlink(missing_ok=True)
            raise
        self.packed: Final = best_compress()
        self.size = 0
        """Bytes so far, without a member that is being written."""
        self.owed = b""
        """The zeros with which the next member has to begin."""

    def _allocated(self, most: int) -> int:
        status = os.fstatvfs(self._file)
        limit = min(most, max(status.f_bavail * status.f_frsize // _FREE_SHARE, MIN_BYTES))
        while True:
            try:
                os.posix_fallocate(self._file, 0, min(limit, DISK_BYTES))
            except OSError as error:
                if error.errno in _NOT_GIVEN:
                    return limit
                if error.errno not in _FULL or limit < 2 * MIN_BYTES:
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
        """Add a member of so much content, which ends there in the file."""
        self.size, self.owed = end, bytes(-content % tarfile.BLOCKSIZE)

    def finish(self) -> None:
        """Write the end, and give back the disk behind it."""
        end = self.packed(self.owed + _END)
        self.write(end, self.size)
        os.ftruncate(self._file, self.size + len(end))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def best_compress() -> Compress:
    """Return one block to one gzip member: by ISA-L where it is installed, else by zlib.

    ISA-L takes a tenth of the processor time of `gzip -6` on logs, and its output is 4 % longer
    (docs/project/bundle.md). Its wheels are for x86-64 and arm64 only; a host of another kind has zlib.
    """
    try:
        from isal import isal_zlib  # an extra, and only for hosts that pack
    except ImportError:
        return lambda data: zlib.compress(data, _ZLIB_LEVEL, _GZIP)
    return lambda data: isal_zlib.compress(data, _ISAL_LEVEL, _GZIP)


class MemberRedactor(Protocol):
    """Masks the secrets in one member, however that is divided."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind of secret and how many were masked."""

    def feed(self, data: bytes, /) -> bytes: ...
    def finish(self) -> bytes: ...


class MemberLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on how much of a member is kept; the newest part is."""

    content: int | None
    """Bytes of content."""
    room: int
    """Bytes in the archive."""
    block_bytes: int


class MemberWriter:
    """One file as it is written; the newest part of it is kept. BundleWriter.member() makes it.

    The same content makes the same blocks, however it was divided among calls of write().
    """

    def __init__(
        self,
        archive: Archive,
        header: tarfile.TarInfo,
        opening: Opening | None,
        redactor: MemberRedactor | None,
        limits: MemberLimits,
    ) -> None:
        """Prepare to write behind the other members. `opening` makes the beginning for content that was
        cut.
        """
        self._archive = archive
        self._header = header
        self._opening = opening
        self._redactor = redactor
        self._limits = limits
        self._held_bytes = limits.content if limits.content and limits.content <= _HELD_BYTES else 0
        self._block_bytes = min(limits.block_bytes, max(limits.room // _BLOCKS_IN_LIMIT, MIN_BLOCK_BYTES))
        if limits.content and not self._held_bytes:
            self._block_bytes = min(limits.block_bytes, limits.content // _BLOCKS_IN_LIMIT)
        self._ahead = bytearray()
        self._blocks: deque[tuple[int, int]] = deque()
        """Bytes of content, and bytes in the file, of each block that is kept."""
        self._size = 0
        """Bytes of content in what is kept."""
        longest = opening(_LONGEST) if opening else b""
        self._first = archive.size + len(archive.owed + self._head(longest)) + _HEAD_SPARE_BYTES
        """The offset of the first block while the header is still to come."""
        self._begin = self._end = self._first
        """The offsets of the first block and of the end of the last."""
        self.written_bytes = 0
        """The number of bytes written to it, before redaction."""
        self.cut = 0
        """The number of bytes that were dropped again, the oldest ones, counted after redaction."""
        self.reason: Cut | None = None
        """The reason why the latest of them were dropped."""

    def write(self, data: bytes, /) -> None:
        """Append. Raises OSError where the disk fails."""
        self.written_bytes += len(data)
        self._add(self._redactor.feed(data) if self._redactor else data)

    def _add(self, data: bytes) -> None:
        self._ahead += data
        if not self._held_bytes:
            self._pack_blocks()
        elif len(self._ahead) > 2 * self._held_bytes:
            self._forget(len(self._ahead) - self._held_bytes - 1)

    def finish(self) -> int | None:
        """Put it in place, and return its size; None when it is not there.

        One of which something is missing is not there when nothing is left, or there is no `opening`.
        """
        if self._redactor:
            self._add(self._redactor.finish())
        if self._held_bytes:
            self._cut_held()
            self._pack_blocks()
        if self._ahead:
            self._pack(bytes(self._ahead))
        before = b""
        if self.cut:
            if not self._size or not self._opening:
                return None
            before = self._opening(self.cut)
        size, archive = len(before) + self._size, self._archive
        head = archive.packed(archive.owed + self._head(before))
        archive.write(head, archive.size)
        self._move(archive.size + len(head))
        archive.end_member(self._end, size)
        return size

    def _head(self, before: bytes) -> bytes:
        """Return the header and the beginning of the content."""
        self._header.size = len(before) + self._size
        return self._header.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape") + before

    def _pack_blocks(self) -> None:
        while len(self._ahead) >= self._block_bytes:
            end = self._ahead.rfind(b"\n", 0, self._block_bytes) + 1 or self._block_bytes
            self._pack(bytes(self._ahead[:end]))
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

    def _pack(self, content: bytes) -> None:
        """Append a block, and drop older ones if there is not enough room."""
        packed, limits = self._archive.packed(content), self._limits
        while self._blocks and limits.content and self._size + len(content) > limits.content:
            self._drop(Cut.LIMIT)
        if self._end + len(packed) > self._first + limits.room:
            most = limits.room - limits.room // _CUT_SHARE
            while self._blocks and self._end - self._begin + len(packed) > most:
                self._drop(Cut.ROOM)
            self._move(self._first)
        if len(packed) > limits.room:
            self._lose(len(content), Cut.ROOM)
            return
        self._archive.write(packed, self._end)
        self._end += len(packed)
        self._size += len(content)
        self._blocks.append((len(content), len(packed)))

    def _drop(self, reason: Cut) -> None:
        """Leave out the oldest block."""
        size, packed = self._blocks.popleft()
        self._size -= size
        self._begin += packed
        self._lose(size, reason)

    def _lose(self, size: int, reason: Cut) -> None:
        self.cut += size
        self.reason = reason

    def _move(self, to: int) -> None:
        """Move the blocks to where dropped ones were, or room for the header."""
        begin, self._begin = self._begin, to
        for _, packed in self._blocks if begin != to else ():
            self._archive.write(self._archive.read(packed, begin), to)
            begin, to = begin + packed, to + packed
        self._end = self._begin + sum(packed for _, packed in self._blocks)

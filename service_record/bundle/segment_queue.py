"""Blocks on disk, first in, first out, in files without a name, freed as soon as their blocks are gone."""

import errno
import os
import tempfile
from collections import deque
from io import FileIO
from pathlib import Path
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when a file cannot grow: no space, beyond a quota, beyond ulimit -f."""


def is_full(error: OSError) -> bool:
    """Return whether it was for want of space, and not for a fault."""
    return error.errno in FULL


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, or raise OSError; a disk that fills up takes a part first."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


_NOT_GIVEN: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})
"""What file systems say that cannot hold disk for a file."""


class Backlog:
    """The blocks that are kept. A file has about `segment_bytes` of them: disk is freed piece by piece.

    A file is unlinked as soon as it is made: nothing is left of it whatever becomes of the process.
    """

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segments: deque[_Segment] = deque()
        self.bytes = 0
        """Of the blocks in it."""

    def append(self, block: bytes) -> None:
        """Keep a block behind the others. Raises OSError, and has changed nothing then."""
        last = self._segments[-1] if self._segments else None
        if last is None or last.size >= self._segment_bytes:
            last = _Segment(self._directory)
            try:
                last.append(block)
            except OSError:
                last.close()
                raise
            self._segments.append(last)
        else:
            last.append(block)
        self.bytes += len(block)

    def first(self) -> bytes:
        """Return the oldest block. Raises IndexError when there is none."""
        return self._segments[0].first()

    def drop(self) -> None:
        """Forget the oldest block. Raises IndexError when there is none."""
        segment = self._segments[0]
        self.bytes -= segment.drop()
        if segment.is_empty:
            segment.close()
            self._segments.popleft()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self.bytes = 0


class _Segment:
    """One file without a name."""

    def __init__(self, directory: Path) -> None:
        self._file = _without_name(directory)
        self._lengths: deque[int] = deque()
        self._begin = 0
        self.size = 0

    @property
    def is_empty(self) -> bool:
        return not self._lengths

    def append(self, block: bytes) -> None:
        try:
            write_all(self._file.fileno(), block)
        except OSError:
            self._file.truncate(self.size)
            self._file.seek(self.size)
            raise
        self.size += len(block)
        self._lengths.append(len(block))

    def first(self) -> bytes:
        return os.pread(self._file.fileno(), self._lengths[0], self._begin)

    def drop(self) -> int:
        length = self._lengths.popleft()
        self._begin += length
        return length

    def close(self) -> None:
        self._file.close()


class DiskReserve:
    """Disk that is held until it is needed for what must not be missing."""

    def __init__(self, directory: Path, size: int) -> None:
        """Hold so many bytes, or none where the file system does not give them."""
        self.bytes = size
        """How much was to be held."""
        self._file: FileIO | None = None
        try:
            self._file = _without_name(directory)
            os.posix_fallocate(self._file.fileno(), 0, size)
        except OSError as error:
            self.release()
            if not is_full(error) and error.errno not in _NOT_GIVEN:
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


def _without_name(directory: Path) -> FileIO:
    return tempfile.TemporaryFile(dir=directory, buffering=0)

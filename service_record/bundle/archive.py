"""The file of a bundle: gzip members that make a tar archive, with nothing half done in it on a full disk."""

import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from service_record.bundle.blocks import Blocks, Compress, Cut
from service_record.bundle.segment_queue import DiskReserve, is_full, write_all

_FILE_MODE: Final = 0o640
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_END: Final = bytes(2 * tarfile.BLOCKSIZE)

Opening = Callable[[int], bytes]
"""What stands before the content of a member of which so many bytes were cut off."""


class Archive:
    """A new file of mode 0600. Raises FileExistsError when there is one already."""

    def __init__(self, path: Path, compress: Compress) -> None:
        self._file = os.open(path, _NEW, 0o600)
        self._compress = compress
        self._ends = [(0, 0)]
        """Where the file ended before each member and where it ends now: its size, and zeros still owed."""
        self.size = 0
        """In bytes, so far."""

    def free_bytes(self) -> int:
        """Return how much is free on its file system for who is not root, beside itself."""
        status = os.fstatvfs(self._file)
        return status.f_bavail * status.f_frsize

    def append(
        self,
        path: str,
        mtime: float,
        blocks: Blocks,
        opening: Opening | None,
        disk_reserve: DiskReserve | None,
    ) -> int | None:
        """Put a member behind the others, and return its size; None when it is not there.

        Where the disk gets full meanwhile it goes without its oldest blocks, after what the ballast frees.
        One of which something is missing is not there when nothing is left, or there is no `opening`.
        """
        while not blocks.dropped or (blocks.size and opening):
            content = blocks.size
            before = opening(blocks.dropped) if opening and blocks.dropped else b""
            size = len(before) + content
            try:
                header = bytes(self._ends[-1][1]) + _header(path, size, mtime) + before
                self._write(self._compress(header), disk_reserve)
                while (block := blocks.first()) is not None:
                    self._write(block, disk_reserve)
                    blocks.take()
            except OSError as error:
                self._truncate(self._ends[-1][0])
                if not is_full(error):
                    raise
            else:
                self._ends.append((self.size, -size % tarfile.BLOCKSIZE))
                return size
            if blocks.size < content:
                blocks.lose(content - blocks.size, Cut.DISK)
            elif content:
                blocks.drop(Cut.DISK)
            else:
                return None
        return None

    def finish(self) -> int:
        """Write the end, and return how many members at the end had to go to make room for that."""
        members = len(self._ends)
        while True:
            try:
                self._write(self._compress(bytes(self._ends[-1][1]) + _END), None)
                return members - len(self._ends)
            except OSError as error:
                if not is_full(error) or len(self._ends) == 1:
                    raise
            self._ends.pop()
            self._truncate(self._ends[-1][0])

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, packed: bytes, disk_reserve: DiskReserve | None) -> None:
        """Append, wholly or not at all. Raises OSError."""
        while True:
            try:
                write_all(self._file, packed)
            except OSError as error:
                self._truncate(self.size)
                if not (disk_reserve and is_full(error) and disk_reserve.release()):
                    raise
            else:
                self.size += len(packed)
                return

    def _truncate(self, size: int) -> None:
        os.ftruncate(self._file, size)
        os.lseek(self._file, size, os.SEEK_SET)
        self.size = size


def _header(path: str, size: int, mtime: float) -> bytes:
    member = tarfile.TarInfo(path)
    member.size = size
    member.mtime = max(int(mtime), 0)
    member.mode = _FILE_MODE
    return member.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")

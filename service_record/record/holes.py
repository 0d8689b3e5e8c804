"""Read a sparse file without its holes: a record of a few bytes may have the size of a disk."""

import os
from io import BufferedReader, RawIOBase
from typing import Final

_SPARSE_BYTES: Final = 1 << 20
_SHOWN_BYTES: Final = 1 << 16
"""The number of NULs that replace a larger hole, so that readers see and report the gap."""
_BLOCK_BYTES: Final = 512  # of st_blocks, see stat(2)


def without_holes(descriptor: int) -> BufferedReader:
    """Return a stream with at most 64 KiB of NULs for each hole. It closes the descriptor."""
    status = os.fstat(descriptor)
    if status.st_size - status.st_blocks * _BLOCK_BYTES < _SPARSE_BYTES:
        return os.fdopen(descriptor, "rb")
    return BufferedReader(_WithoutHoles(descriptor))


class _WithoutHoles(RawIOBase):
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self._shown = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._next_data()
        if data > self._position and self._shown < _SHOWN_BYTES:
            size = min(len(buffer), data - self._position, _SHOWN_BYTES - self._shown)
            buffer[:size] = bytes(size)
            self._shown += size
            self._position += size
            return size
        if data > self._position:
            self._position, self._shown = data, 0
        size = os.preadv(self._descriptor, [buffer], self._position)
        hole = self._next_hole() if size else self._position
        size = min(size, hole - self._position) or size
        self._position += size
        return size

    def _next_data(self) -> int:
        try:
            return os.lseek(self._descriptor, self._position, os.SEEK_DATA)
        except OSError:  # ENXIO: a hole up to the end
            return max(os.fstat(self._descriptor).st_size, self._position)

    def _next_hole(self) -> int:
        try:
            return os.lseek(self._descriptor, self._position, os.SEEK_HOLE)
        except OSError:  # the file was cut short meanwhile
            return self._position

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()

"""Read the end of any file of the host, even if it grows."""

import os
from collections.abc import Iterator
from typing import Final

_CHUNK_BYTES: Final = 256 << 10


def read_tail(descriptor: int, most: int) -> tuple[int, Iterator[bytes]]:
    """Return the number of skipped bytes, and chunks of the rest of an open file.

    At most `most` bytes are read, even if the file grows. A file of /proc has the size 0, and is read from
    its beginning.
    """
    skipped = max(os.fstat(descriptor).st_size - most, 0)
    return skipped, _chunks(descriptor, skipped, most)


def _chunks(descriptor: int, offset: int, most: int) -> Iterator[bytes]:
    os.lseek(descriptor, offset, os.SEEK_SET)
    remaining = most
    while remaining > 0:
        chunk = os.read(descriptor, min(remaining, _CHUNK_BYTES))
        if not chunk:
            return
        remaining -= len(chunk)
        yield chunk

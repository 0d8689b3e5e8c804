"""The compression of bundles: gzip members, each of them whole, made by several threads at once.

gzip members one after another are one gzip file (RFC 1952, section 2.2), which GNU tar, Go's gzip.Reader and
Python read as such. So blocks are compressed independently of one another, and the oldest can be dropped.
"""

import os
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeAlias

Compress: TypeAlias = Callable[[bytes], bytes]

_GZIP: Final = 16 + zlib.MAX_WBITS
"""Has zlib write gzip's header and trailer, without a name and a time: the same data are the same bytes."""
_ISAL_LEVEL: Final = 3
_ZLIB_LEVEL: Final = 6
_MAX_WORKERS: Final = 4
SPARE_BYTES: Final = 1 << 10
"""More than compression adds to a block that cannot be compressed: 5 bytes for 16 KiB, and 18."""


def best_compress() -> Compress:
    """One block to one gzip member: by ISA-L where it is installed, else by zlib.

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

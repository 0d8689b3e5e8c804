"""Simulate a full disk by a limit on the size of files."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Until the end of the block, writes after the first `size` bytes of any file fail with EFBIG.

    The limit also applies to child processes.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

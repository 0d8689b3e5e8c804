"""A disk that is full, as a process meets it: no file may grow beyond some bytes."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def full_beyond(size: int) -> Iterator[None]:
    """While it lasts, a write beyond `size` bytes of a file fails with EFBIG, whoever writes it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

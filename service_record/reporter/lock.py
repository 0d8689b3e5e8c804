"""One round at a time, on one host."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.1


class HeldError(Exception):
    """Another round is running."""


@contextmanager
def only_one(directory: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a directory, which is made when missing; nothing of a lock is left in it.

    Raises HeldError when another process holds it for longer than `wait` seconds, OSError when the directory
    cannot be had. A process that dies gives it back.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _take(descriptor, time.monotonic() + wait)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise HeldError from None
            time.sleep(_LOOK_SECONDS)
        else:
            return

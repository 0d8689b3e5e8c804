"""Files that are there whole or not at all, also after a loss of power."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put `data` in the place of a file; its directory is made when missing.

    Raises OSError, and then nothing has changed. It has one writer at a time: what a killed one left of it,
    `.NAME.new`, the next one takes over.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    try:
        with os.fdopen(os.open(new, _NEW, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have what was renamed or removed in a directory outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

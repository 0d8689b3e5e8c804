"""Files that are at their place whole, and stay there when the power goes, or are not there at all."""

import contextlib
import errno
import os
import shutil
from pathlib import Path
from typing import Final

from service_record.reporter.files import sync_directory

_TORN: Final = ".part"


def place_copy(source: Path, target: Path) -> None:
    """Copy the file to a place of any file system, for root's eyes only. OSError: as copying it says; nothing
    is left.
    """
    torn = target.with_name(f".{target.name}{_TORN}")
    try:
        with source.open("rb") as old, open(torn, "wb", opener=_for_root) as new:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())
        torn.replace(target)
        sync_names(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            torn.unlink(missing_ok=True)
        raise


def place_by_moving(source: Path, target: Path) -> None:
    """Move the file to a place; to another file system by a copy. OSError: as moving says; the source is
    still there.
    """
    with source.open("rb") as file:
        os.fsync(file.fileno())
    try:
        source.replace(target)
    except OSError as fault:
        if fault.errno != errno.EXDEV:
            raise
        place_copy(source, target)
        source.unlink()
    sync_names(target.parent)


def remove_torn(directory: Path, beginning: str = "") -> None:
    """Remove what a copy that was cut short left of files whose names begin so. OSError: as removing says."""
    for torn in directory.glob(f".*{_TORN}"):
        if torn.name.startswith(f".{beginning}"):
            torn.unlink(missing_ok=True)


def sync_names(directory: Path) -> None:
    """Have the names in the directory outlive a loss of power, where its file system can do that."""
    with contextlib.suppress(OSError):
        sync_directory(directory)


def _for_root(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)

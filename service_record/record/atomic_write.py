"""Files that are at their place whole, and stay there when the power goes, or are not there at all."""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from service_record.record.appending import DAMAGED_SUFFIX

_TORN: Final = ".part"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


_MOST_DAMAGED: Final = 16


def clear_the_way(path: Path, *, is_directory: bool = False) -> Path | None:
    """Move aside what stands in the place of a file or a directory of ours; return where it is now.

    That is whatever is of another kind or owner. A link is never followed: what it leads to is not ours.
    Raises OSError where it cannot be moved.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    is_kind = stat.S_ISDIR(status.st_mode) if is_directory else stat.S_ISREG(status.st_mode)
    if is_kind and status.st_uid == os.geteuid():
        return None
    return set_aside(path)


def clear_the_way_of_all(directory: Path) -> Path | None:
    """Move aside what stands in the place of the directory of everything; return where it is now.

    A link to a directory is taken for one: an administrator may keep it on another disk. Raises OSError.
    """
    try:
        is_good = stat.S_ISDIR(directory.stat().st_mode)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ELOOP}:
            raise
        is_good = not directory.is_symlink()  # nothing is there
    return None if is_good else set_aside(directory)


def set_aside(path: Path) -> Path:
    """Rename a file, a link or a directory to `NAME.damaged`, or that with a number; return the new path."""
    names = (path.name + DAMAGED_SUFFIX + (f"-{n}" if n else "") for n in range(_MOST_DAMAGED))
    targets = [path.with_name(name) for name in names]
    free = next((target for target in targets if not os.path.lexists(target)), None)
    if free is None:
        free = targets[0]
        if not free.is_dir() or free.is_symlink():
            free.unlink()
    path.rename(free)
    return free


@contextlib.contextmanager
def put_in_place(new: Path, path: Path) -> Iterator[None]:
    """Have the file `new`, which the block makes, at `path` once it is whole on the disk; else nowhere."""
    try:
        yield
        with new.open("rb") as stream:
            os.fsync(stream.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put `data` in the place of a file; its directory is made when missing.

    Raises OSError, and then nothing has changed. It has one writer at a time: what a killed one left of it,
    `.NAME.new`, the next one takes over.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    clear_the_way(new)
    with put_in_place(new, path), os.fdopen(os.open(new, _NEW, 0o600), "wb") as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode)
    sync_directory(path.parent)


def place_copy(source: Path, target: Path) -> None:
    """Copy the file to a place of any file system, for root's eyes only. OSError: as copying it says; nothing
    is left.
    """
    torn = target.with_name(f".{target.name}{_TORN}")
    with put_in_place(torn, target), source.open("rb") as old, open(torn, "wb", opener=_for_root) as new:
        shutil.copyfileobj(old, new)
    sync_names(target.parent)


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
        if torn.name.startswith(f".{beginning}") and (torn.is_symlink() or not torn.is_dir()):
            torn.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Have what was renamed or removed in a directory outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(directory: Path) -> None:
    """Have the names in the directory outlive a loss of power, where its file system can do that."""
    with contextlib.suppress(OSError):
        sync_directory(directory)


def _for_root(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)

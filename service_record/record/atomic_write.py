"""Write files atomically: after a crash or a loss of power, a file is complete or does not exist."""

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
    """Move aside anything that has the name of our file or directory; return its new path.

    Returns None if nothing is there, or if it has the right kind and belongs to this user. A link is moved,
    not followed, because its target is not ours. Raises OSError.
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
    """Move aside anything but a directory that has the name of our top directory; return its new path.

    Unlike in `clear_the_way`, a link to a directory is accepted, because an administrator may keep the
    directory on another disk. Raises OSError.
    """
    try:
        is_good = stat.S_ISDIR(directory.stat().st_mode)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ELOOP}:
            raise
        is_good = not directory.is_symlink()  # nothing is there
    return None if is_good else set_aside(directory)


def set_aside(path: Path) -> Path:
    """Rename a file, link or directory to `NAME.damaged`, `NAME.damaged-1` and so on; return the new path."""
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
    """Rename the file `new`, which the block writes, to `path` when it is on the disk.

    After an exception, `new` is removed and `path` is unchanged.
    """
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
    """Replace the content of a file. A missing directory is made.

    Raises OSError; then the file is unchanged. A file must have one writer at a time: the next one overwrites
    the unfinished file `.NAME.new` of a killed writer.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    clear_the_way(new)
    with put_in_place(new, path), os.fdopen(os.open(new, _NEW, 0o600), "wb") as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode)
    sync_directory(path.parent)


def place_copy(source: Path, target: Path) -> None:
    """Copy a file, also to another file system, readable only for its owner. Raises OSError."""
    torn = target.with_name(f".{target.name}{_TORN}")
    with (
        put_in_place(torn, target),
        source.open("rb") as old,
        os.fdopen(os.open(torn, _NEW, 0o600), "wb") as new,
    ):
        shutil.copyfileobj(old, new)
    sync_names(target.parent)


def place_by_moving(source: Path, target: Path) -> None:
    """Move a file; to another file system by a copy. Raises OSError; then the source is still there."""
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
    """Remove the unfinished copies of files whose names have this beginning. Raises OSError."""
    for torn in directory.glob(f".*{_TORN}"):
        if torn.name.startswith(f".{beginning}") and (torn.is_symlink() or not torn.is_dir()):
            torn.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Write renames and removals in a directory to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(directory: Path) -> None:
    """Do the same as `sync_directory` if the file system can."""
    with contextlib.suppress(OSError):
        sync_directory(directory)

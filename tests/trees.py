"""Directory trees that tests make, and look at."""

import os
import stat
from pathlib import Path
from typing import TypeAlias

Picture: TypeAlias = dict[str, tuple[object, ...]]


def picture(root: Path, *, with_times: bool = True) -> Picture:
    """All that is in a tree, and the tree itself: kind, mode, owner, content, and when it was modified."""
    found = {".": _told(root, with_times=with_times)}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(directory, name)
            found[str(path.relative_to(root))] = _told(path, with_times=with_times)
    return found


def remains(root: Path) -> Picture:
    """The same without the times of directories, which change when something in them comes or goes."""
    found = picture(root)
    return {path: told[:-1] if stat.S_ISDIR(int(str(told[0]))) else told for path, told in found.items()}


def _told(path: Path, *, with_times: bool) -> tuple[object, ...]:
    status = path.lstat()
    content: object = None
    if stat.S_ISLNK(status.st_mode):
        content = path.readlink()
    elif stat.S_ISREG(status.st_mode):
        content = path.read_bytes()
    modified = status.st_mtime_ns if with_times else None
    return status.st_mode, status.st_uid, status.st_gid, status.st_nlink, content, modified


def place(root: Path, path: str, content: str = "somebody's", mode: int = 0o644) -> Path:
    """A file of somebody, with the directories that it needs."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)
    return file


def grow_old(root: Path) -> None:
    """Have everything in a tree be of long ago, so that whatever is written now shows."""
    for number, name in enumerate(sorted(picture(root))):
        when = 1_000_000_000_123_456_789 + number * 1_000_000_007
        os.utime(root / name, ns=(when, when), follow_symlinks=False)

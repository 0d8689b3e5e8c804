"""Write directory trees, and compare their state before and after."""

import os
import stat
from pathlib import Path
from typing import TypeAlias

Tree: TypeAlias = dict[str, tuple[object, ...]]


def read_tree(root: Path, *, with_times: bool = True) -> Tree:
    """Return path -> mode, owner, links, content and modification time, for everything in a tree."""
    tree = {".": _read_state(root, with_times=with_times)}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(directory, name)
            tree[str(path.relative_to(root))] = _read_state(path, with_times=with_times)
    return tree


def read_tree_without_directory_times(root: Path) -> Tree:
    """Return the tree without the times of directories, which change when files in them change."""
    tree = read_tree(root)
    return {path: state[:-1] if stat.S_ISDIR(int(str(state[0]))) else state for path, state in tree.items()}


def _read_state(path: Path, *, with_times: bool) -> tuple[object, ...]:
    status = path.lstat()
    content: object = None
    if stat.S_ISLNK(status.st_mode):
        content = path.readlink()
    elif stat.S_ISREG(status.st_mode):
        content = path.read_bytes()
    modified = status.st_mtime_ns if with_times else None
    return status.st_mode, status.st_uid, status.st_gid, status.st_nlink, content, modified


def write_file(root: Path, path: str, content: str = "somebody's", mode: int = 0o644) -> Path:
    """Write a file and create its parent directories."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)
    return file


def set_old_times(root: Path) -> None:
    """Set all times in a tree to 2001, each to a different one, so that every write is visible."""
    for number, name in enumerate(sorted(read_tree(root))):
        when = 1_000_000_000_123_456_789 + number * 1_000_000_007
        os.utime(root / name, ns=(when, when), follow_symlinks=False)

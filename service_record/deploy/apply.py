"""Steps of a plan, done to a host: what is about to be there is written down before it is."""

import errno
import os
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from service_record.deploy.installed import FILE, Installed, write
from service_record.deploy.planning import Action, DeployStep
from service_record.deploy.root import Root


def apply(root: Root, steps: Sequence[DeployStep], before: Installed, after: Installed) -> bool:
    """Do the steps and store what is installed; return whether anything changed.

    Nothing is changed when the rights for one of them are missing. When it is cut short later, the next
    `install` goes on, and `uninstall` knows all that was done. Raises OSError.
    """
    changing = [step for step in steps if step.changes]
    if not changing and after == before:
        return False
    missing = _missing(root, [FILE, *(step.writes for step in changing if step.writes)])
    touched = existing_parents(root, [FILE, *missing, *(step.path for step in changing)])
    check_rights(root, touched)
    home = parent(root, FILE)
    ours = [directory for directory in missing if f"{home}/".startswith(f"{directory}/")]
    _note(root, replace(after, directories=before.directories | set(missing)), ours)
    for directory in missing:
        if directory not in ours:
            root.make_directory(directory)
    for step in changing:
        do(root, step)
    for directory in {*touched, *missing}:
        root.sync(directory)
    return True


def do(root: Root, step: DeployStep) -> None:
    """Do one step. Raises OSError."""
    if step.action is Action.REPLACE:
        root.keep_as(step.path, step.other)
    if step.writes and step.item is not None:
        if step.item.target is not None:
            root.link(step.writes, step.item.target)
        else:
            root.write(step.writes, step.item.data, step.mode)
    elif step.action is Action.REMOVE:
        root.remove(step.path)
    elif step.action is Action.RESTORE:
        root.put_back(step.other, step.path)


def parent(root: Root, path: str) -> str:
    """Return the real directory of a path."""
    return root.real(path).rpartition("/")[0] or "/"


def existing_parents(root: Root, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the real directories of these paths, of those that are there."""
    parents = {parent(root, path) for path in paths}
    return tuple(sorted(path for path in parents if root.see(path).kind == "directory"))


def check_rights(root: Root, directories: Iterable[str]) -> None:
    """Raise PermissionError, or OSError of a read-only file system, unless each of these is writable."""
    for directory in directories:
        place = root.at(directory)
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), place)
        if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)


def _missing(root: Root, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the real directories that these paths need and that are missing, outer ones first."""
    missing: set[str] = set()
    for path in paths:
        parts = root.real(path).split("/")[1:-1]
        for depth in range(1, len(parts) + 1):
            directory = "/" + "/".join(parts[:depth])
            kind = root.see(directory).kind
            if kind not in {"nothing", "directory"}:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root.at(directory))
            if kind == "nothing":
                missing.add(directory)
    return tuple(sorted(missing))


def _note(root: Root, noted: Installed, directories: Sequence[str]) -> None:
    """Store what is about to be installed, making the directories for that; or leave nothing."""
    try:
        for directory in directories:
            root.make_directory(directory)
        write(root, noted)
    except BaseException:
        for directory in reversed(directories):
            root.remove_directory(directory)
        raise

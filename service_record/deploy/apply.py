"""Applies a plan to a host. The list of files is saved first, so an interrupted run can be undone."""

import errno
import os
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from service_record.deploy.installed import FILE, Installed, write
from service_record.deploy.planning import Action, DeployStep
from service_record.deploy.root import Root


def apply(root: Root, steps: Sequence[DeployStep], before: Installed, after: Installed) -> bool:
    """Apply the steps and save the list of installed files. Return whether anything changed.

    Changes nothing if a directory is not writable. After an interruption, the next `install` completes the
    plan, and `uninstall` undoes it. Raises OSError.
    """
    changing = [step for step in steps if step.changes]
    if not changing and after == before:
        return False
    missing = _find_missing_directories(root, [FILE, *(step.writes for step in changing if step.writes)])
    touched = existing_parents(root, [FILE, *missing, *(step.path for step in changing)])
    check_rights(root, touched)
    home = real_parent(root, FILE)
    ours = [directory for directory in missing if f"{home}/".startswith(f"{directory}/")]
    # Before the first change: without the list, an interrupted installation could not be undone.
    _save_installed(root, replace(after, directories=before.directories | set(missing)), ours)
    for directory in missing:
        if directory not in ours:
            root.make_directory(directory)
    for step in changing:
        apply_step(root, step)
    for directory in {*touched, *missing}:
        root.sync(directory)
    return True


def apply_step(root: Root, step: DeployStep) -> None:
    """Apply one step. Raises OSError."""
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


def real_parent(root: Root, path: str) -> str:
    """Return the directory of a path, without links."""
    return root.real(path).rpartition("/")[0] or "/"


def existing_parents(root: Root, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the directories of these paths that exist, without links."""
    parents = {real_parent(root, path) for path in paths}
    return tuple(sorted(path for path in parents if root.see(path).kind == "directory"))


def check_rights(root: Root, directories: Iterable[str]) -> None:
    """Raise OSError if a directory is not writable: PermissionError, or EROFS of a read-only file system."""
    for directory in directories:
        place = root.at(directory)
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), place)
        if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)


def _find_missing_directories(root: Root, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the missing directories of these paths, outer ones first."""
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


def _save_installed(root: Root, installed: Installed, directories: Sequence[str]) -> None:
    """Save the list of files to install, and make its directories. After an error nothing is left."""
    try:
        for directory in directories:
            root.make_directory(directory)
        write(root, installed)
    except BaseException:
        for directory in reversed(directories):
            root.remove_directory(directory)
        raise

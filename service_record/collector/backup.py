"""Back up and restore a collector with SQLite: a tar file of its database and its objects.

The database is copied with SQLite's backup API while the collector runs, so it is a consistent snapshot.
Objects are copied afterwards. New objects since the snapshot have no row and are deleted after a restore.
Objects that were deleted since the snapshot leave a row whose bundle is missing.
"""

import contextlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from service_record.collector.store.database import FILE
from service_record.collector.store.objects import FOLDER
from service_record.record.atomic_write import put_in_place, sync_directory
from service_record.version import __version__

_MANIFEST: Final = "backup.json"
_BUSY: Final = 30.0


class BackupError(Exception):
    """A backup cannot be made or restored. The message is the reason in one line."""


class Manifest(msgspec.Struct):
    """The manifest in a backup."""

    version: str
    made_at: float


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """The contents of a backup."""

    objects: int
    size: int
    """The size of the file, in bytes."""


def back_up(data: Path, file: Path) -> BackupSummary:
    """Back up the collector in a folder; it may be running. Raises BackupError or OSError.

    The file must not exist. It has mode 0600 and appears only when it is complete and on disk.
    """
    if not (data / FILE).exists():
        raise BackupError(f"{data / FILE}: no such database; with PostgreSQL use pg_dump")
    if os.path.lexists(file):
        raise BackupError(f"{file} exists, and nothing is overwritten; name another place")
    part = file.with_name(f".{file.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with put_in_place(part, file), os.fdopen(descriptor, "wb") as stream:
        count = _write(data, stream)
    sync_directory(file.parent)
    return BackupSummary(count, file.stat().st_size)


def restore(file: Path, data: Path) -> BackupSummary:
    """Create the folder of a collector from a backup. Raises BackupError or OSError.

    The folder must be missing or empty, so that no collector is overwritten. It appears only when it is
    complete.
    """
    if data.exists() and any(data.iterdir()):
        raise BackupError(f"{data} is not empty, and no collector is overwritten; move it away first")
    data.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{data.name}.", dir=data.parent))  # of mode 0700
    try:
        count = _extract(file, part)
        _check(part / FILE)
        _sync_all(part)
        if data.exists():
            data.rmdir()
        part.rename(data)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_directory(data.parent)
    return BackupSummary(count, file.stat().st_size)


def _write(data: Path, stream: io.BufferedWriter) -> int:
    count = 0
    with tempfile.TemporaryDirectory(dir=data) as folder, tarfile.open(fileobj=stream, mode="w|") as tar:
        copy = Path(folder) / FILE
        _copy_database(data / FILE, copy)
        manifest, member = msgspec.json.encode(Manifest(__version__, time.time())), tarfile.TarInfo(_MANIFEST)
        member.size, member.mode, member.mtime = len(manifest), 0o600, int(time.time())
        tar.addfile(member, io.BytesIO(manifest))
        tar.add(copy, FILE, recursive=False)
        for path in sorted((data / FOLDER).rglob("*")):
            if not path.is_file() or path.is_symlink():
                continue
            with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                tar.add(path, str(path.relative_to(data)), recursive=False)
                count += 1
    return count


def _copy_database(source: Path, target: Path) -> None:
    """Copy the database with SQLite's backup API."""
    with (
        contextlib.closing(sqlite3.connect(source, timeout=_BUSY)) as live,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        try:
            live.backup(copy)
        except sqlite3.Error as error:
            raise BackupError(f"{source}: {error}") from None


def _extract(file: Path, folder: Path) -> int:
    """Extract a backup. Only the manifest, the database and regular files below `objects` are allowed."""
    count = 0
    try:
        with tarfile.open(file, mode="r|") as tar:
            first = tar.next()
            if first is None or first.name != _MANIFEST:
                raise BackupError(
                    f"{file}: not a backup of a collector; name a file that collector backup made"
                )
            while (member := tar.next()) is not None:
                path = folder / _checked(file, member)
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                source = tar.extractfile(member)
                assert source is not None  # noqa: S101  # it is a plain file
                with source, path.open("xb") as target:
                    path.chmod(0o600)
                    shutil.copyfileobj(source, target)
                count += path.name != FILE
    except tarfile.TarError as error:
        raise BackupError(f"{file}: {error}") from None
    return count


def _checked(file: Path, member: tarfile.TarInfo) -> PurePosixPath:
    """Return the path of a member. Raises BackupError if it could be outside of the folder."""
    path = PurePosixPath(member.name)
    is_below = not path.is_absolute() and ".." not in path.parts and "\x00" not in member.name
    is_ours = member.name == FILE or (path.parts[:1] == (FOLDER,) and len(path.parts) > 1)
    if not (member.isreg() and is_below and is_ours):
        raise BackupError(
            f"{file}: {member.name!r} is in no backup of a collector; name a file that collector backup made"
        )
    return path


def _check(database: Path) -> None:
    if not database.exists():
        raise BackupError("the backup has no database: it is incomplete; use another one")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        try:
            (result,) = connection.execute("PRAGMA quick_check").fetchone()
        except sqlite3.Error as error:
            result = str(error)
    if result != "ok":
        raise BackupError(f"the database in the backup is damaged; use another backup: {result}")


def _sync_all(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The file system of a host below a directory: `/` for this host. No link leads out of it.

A mounted host's `/usr/local -> /var/usrlocal` means its own `/var`, not ours. So this module resolves links
as that host would. The kernel must follow none: each directory is opened from the root on with O_NOFOLLOW,
and each change is made relative to its descriptor.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40
"""The limit of the kernel; see path_resolution(7)."""
UNIT_DIRECTORIES: Final = (
    *("/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator"),
    *("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"),
)
"""The directories of units and drop-ins; see systemd.unit(5)."""


@dataclass(frozen=True, slots=True)
class PathSeen:
    """The state of a path. Links are not followed."""

    kind: str
    """`file`, `link`, `directory`, `other`, or `nothing`."""
    content: str = ""
    """The SHA-256 of a file, or the target of a link."""
    mode: int = 0


NOTHING: Final = PathSeen("nothing")


class Root:
    """A host's file system. Paths are absolute, as the host sees them. Every method may raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve(strict=True)
        self.is_this_host = self.path == Path("/")

    @contextmanager
    def locked(self) -> Iterator[Self]:
        """Hold the lock of installations. Raises BlockingIOError if another process holds it."""
        with self.opened("/") as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy = "somebody else installs or uninstalls here; try again"
                raise BlockingIOError(errno.EAGAIN, busy, str(self.path)) from None
            yield self

    def real(self, path: str) -> str:
        """Return the path without links in its directories. The last part, and missing parts, are kept."""
        remaining = [part for part in path.split("/") if part][::-1]
        done: list[str] = []
        links = 0
        while remaining:
            part = remaining.pop()
            if part == "..":
                del done[-1:]  # "/.." is "/", as in a chroot
            if part in {".", ".."}:
                continue
            target = self._link(done, part) if remaining else None
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.at(path))
            if target.startswith("/"):
                done.clear()
            remaining.extend([piece for piece in target.split("/") if piece][::-1])
        return "/" + "/".join(done)

    def at(self, path: str) -> str:
        """Return the path as this process sees it, for messages."""
        return str(self.path / path.lstrip("/"))

    def see(self, path: str) -> PathSeen:
        try:
            with self._parent(path) as (directory, name):
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                mode = stat.S_IMODE(status.st_mode)
                if stat.S_ISLNK(status.st_mode):
                    return PathSeen("link", os.readlink(name, dir_fd=directory))
                if stat.S_ISREG(status.st_mode):
                    return PathSeen("file", digest(_read(name, directory)), mode)
                return PathSeen("directory" if stat.S_ISDIR(status.st_mode) else "other", mode=mode)
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING

    def read(self, path: str) -> bytes:
        with self._parent(path) as (directory, name):
            return _read(name, directory)

    def write(self, path: str, data: bytes, mode: int) -> None:
        """Replace a path atomically by a file. If we are root, it belongs to root."""
        with self._parent(path) as (directory, name):
            new = _partial_name(name)
            _unlink(new, directory)
            try:
                with os.fdopen(os.open(new, _NEW, 0o600, dir_fd=directory), "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    if os.geteuid() == 0:
                        os.fchown(stream.fileno(), 0, 0)
                    os.fchmod(stream.fileno(), mode)
                    os.fsync(stream.fileno())
                os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException as error:
                _unlink(new, directory)
                if isinstance(error, OSError):  # ENOSPC has no file name
                    error.filename = self.at(path)
                raise

    def link(self, path: str, target: str) -> None:
        """Replace a path atomically by a symbolic link."""
        with self._parent(path) as (directory, name):
            new = _partial_name(name)
            _unlink(new, directory)
            os.symlink(target, new, dir_fd=directory)
            os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)

    def keep_as(self, path: str, other: str) -> None:
        """Hard-link a file to another name in its directory, which an interrupted call may have made."""
        with self._parent(path) as (directory, name):
            beside = other.rpartition("/")[2]
            if not _is_same(directory, name, beside):
                os.link(name, beside, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)

    def put_back(self, other: str, path: str) -> None:
        """Undo `keep_as`. The file at `path` is replaced."""
        with self._parent(path) as (directory, name):
            beside = other.rpartition("/")[2]
            if _is_same(directory, name, beside):
                os.unlink(beside, dir_fd=directory)
            else:
                os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, path: str) -> None:
        """Remove a file or link, if it exists."""
        with suppress(FileNotFoundError, NotADirectoryError), self._parent(path) as (directory, name):
            _unlink(name, directory)

    def tidy(self, path: str) -> None:
        """Remove the leftovers of an interrupted write to this path."""
        with suppress(FileNotFoundError, NotADirectoryError), self._parent(path) as (directory, name):
            _unlink(_partial_name(name), directory)

    def make_directory(self, path: str) -> None:
        with self._parent(path) as (directory, name):
            os.mkdir(name, 0o755, dir_fd=directory)
            descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
            try:
                if os.geteuid() == 0:
                    os.fchown(descriptor, 0, 0)
                os.fchmod(descriptor, 0o755)
            finally:
                os.close(descriptor)

    def remove_directory(self, path: str) -> bool:
        """Remove an empty directory. Return False if it is not empty."""
        try:
            with self._parent(path) as (directory, name):
                os.rmdir(name, dir_fd=directory)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                return False
            raise
        return True

    def sync(self, directory: str) -> None:
        """Sync a directory, so that its changes survive power loss."""
        with self.opened(directory) as descriptor:
            os.fsync(descriptor)

    @contextmanager
    def opened(self, directory: str) -> Iterator[int]:
        """Yield a descriptor of a directory. A link in its path is an error."""
        descriptor = os.open(self.path, _DIRECTORY)
        try:
            for part in directory.split("/"):
                if part:
                    inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
                    os.close(descriptor)
                    descriptor = inner
            yield descriptor
        except OSError as error:
            if isinstance(error.filename, str) and "/" not in error.filename:
                error.filename = self.at(f"{directory}/{error.filename}")
            raise
        finally:
            os.close(descriptor)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        directory, _, name = self.real(path).rpartition("/")
        with self.opened(directory) as descriptor:
            yield descriptor, name or "."

    def _link(self, directory: list[str], name: str) -> str | None:
        """Return the target of a name in a real directory, if it is a link."""
        try:
            return str(self.path.joinpath(*directory, name).readlink())
        except OSError:
            return None


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _partial_name(name: str) -> str:
    return f".{name}.part"


def _unlink(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _read(name: str, directory: int) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=directory), "rb") as stream:
        return stream.read()


def _is_same(directory: int, one: str, other: str) -> bool:
    """Return whether two names belong to one file."""
    try:
        first, second = (os.stat(name, dir_fd=directory, follow_symlinks=False) for name in (one, other))
    except FileNotFoundError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)

"""A directory of records, with one file for each service."""

import errno
import os
from collections.abc import Iterable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service_record.record.appending import (
    DEFAULT_DIRECTORY,
    SUFFIX,
    AnyPath,
    Writer,
    default_directory,
    open_regular,
    record_path,
)

if TYPE_CHECKING:
    from service_record.record.entry import Piece
    from service_record.record.inbox import Inbox

VERDICT_FILE: Final = "verdict.txt"
"""The file in a bundle with the output of `analyze`."""
OWN_REPORTS: Final = (
    r"(?:^|/)(?:verdict\.txt|service-record_[^/]*|service-record/[^/]+/(?:analysis|errors)\.txt)$"
)
"""Files with our own output: in bundles, and as sos and the must-gather image name them."""
RECORD_DIRECTORIES: Final = ("bootstrap/services", "var/log/openshift")
"""The directories of records in log bundles and in the output of agent-gather, below any directory."""

UNFINISHED_SUFFIX: Final = ".tmp"
"""The suffix of the new file with which upstream's shim replaces a record."""

LISTINGS: Final = ("failed-units.txt", "systemctl_list-units_--failed")
"""Files with the output of `systemctl list-units --failed`, in bundles and in sos reports."""

_DEFAULT_INBOX: Final = "/dev/shm/service-record"  # noqa: S108  # as the drop-in has it; root owns it, and it is sticky
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Records:
    """The records of one directory, by default this host's. The first append makes a missing directory."""

    def __init__(self, directory: AnyPath | None = None) -> None:
        self.directory = Path(directory or default_directory())

    def services(self, *, with_inbox: bool = False) -> list[str]:
        """Return the sorted names of the services with a record; empty if the directory does not exist.

        They include files with names that our writers do not use and, with `with_inbox`, running services
        that have no file yet. Links are left out. Raises OSError if the directory cannot be read.
        """
        services = {path.stem for path in self._files() if _is_record(path)}
        inbox = self.inbox() if with_inbox else None
        return sorted(services | inbox.services() if inbox is not None else services)

    def links(self) -> list[Path]:
        """Return the symbolic links. They are never read, because they may point to any file of the host."""
        return sorted(path for path in self._files() if is_record_name(path.name) and path.is_symlink())

    def path(self, service: str) -> Path:
        """Return the path of a service's record."""
        return Path(record_path(service, self.directory))

    def read(self, service: str) -> Iterator["Piece"]:
        """Yield all pieces of a service's record, in the order of the file.

        Raises OSError, at the first piece, if there is no such file or it cannot be read.
        """
        from service_record.record.layout import read_entries  # recorders do not need it

        path = self._file(service)
        live = [] if path.exists() else self._live(service)
        if not live:
            with open_inside(self.directory, path) as stream:
                yield from read_entries(stream)
            live = self._live(service)  # after the record: entries may have moved there meanwhile
        for data in live:
            yield from read_entries(BytesIO(data))

    def writer(self, service: str) -> Writer:
        """Return a writer that appends to the record of a service."""
        return Writer(self.path(service))

    def inbox(self) -> "Inbox | None":
        """Return the inbox of this host; None for another directory, or if this user may not list it."""
        if self.directory != Path(DEFAULT_DIRECTORY):
            return None
        from service_record.record.inbox import Inbox  # recorders do not need it

        try:
            return Inbox(Path(os.environ.get("SERVICE_RECORDS_INBOX") or _DEFAULT_INBOX))
        except OSError:  # only root may list it
            return None

    def _live(self, service: str) -> list[bytes]:
        inbox = self.inbox()
        return list(inbox.read(service)) if inbox is not None else []

    def _file(self, service: str) -> Path:
        """Return the file with exactly that name, or else the file that a writer makes for that service.

        Neither path leaves the directory.
        """
        listed = self.directory / (service + SUFFIX)
        # Do not use `_files`: listing a directory of 4,000 records for each of them takes seconds.
        return listed if "/" not in service and _is_record(listed) else self.path(service)

    def _files(self) -> Iterable[Path]:
        return self.directory.iterdir() if self.directory.exists() else ()


def open_record(path: AnyPath) -> int:
    """Open a record for reading. Raises OSError for a link, and for anything but a plain file."""
    return open_regular(path, _READ)


def open_inside(directory: Path, path: Path) -> BufferedReader:
    """Open a file below a directory, for every reader of records and evidence.

    The directory may come from an attacker: a link in it could lead to any file that the reader may read.
    Raises OSError for a link, at the end of the path or on its way, and for anything but a plain file.
    """
    if not is_inside(directory, path.parent):
        raise OSError(errno.ELOOP, "behind a symbolic link", str(path))
    from service_record.record.holes import without_holes  # recorders do not need it

    return without_holes(open_record(path))


def is_inside(directory: Path, path: Path) -> bool:
    """Return True if no part of the path below the directory is a link. The directory itself may be one."""
    return Path(os.path.realpath(path)) == Path(os.path.realpath(directory), path.relative_to(directory))


def is_record_name(name: str) -> bool:
    """Return True if a file in a directory of records has the name of a record."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def _is_record(path: Path) -> bool:
    return is_record_name(path.name) and path.is_file() and not path.is_symlink()

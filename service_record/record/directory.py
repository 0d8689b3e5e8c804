"""The records of this host: a directory with one file for each service."""

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
"""The directories of records in a log bundle, and in agent-gather's output, below whatever directory."""

UNFINISHED_SUFFIX: Final = ".tmp"
"""The suffix of the file that upstream's shim was about to put in the place of a record."""

LISTINGS: Final = ("failed-units.txt", "systemctl_list-units_--failed")
"""Lists of failed units, as `systemctl list-units` shows them: below the top of a bundle, or in what sos
prints.
"""

_DEFAULT_INBOX: Final = "/dev/shm/service-record"  # noqa: S108  # of the drop-in; root's, and sticky
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Records:
    """The records of one directory, by default this host's; made by the first append when it is missing."""

    def __init__(self, directory: AnyPath | None = None) -> None:
        self.directory = Path(directory or default_directory())

    def services(self, *, with_inbox: bool = False) -> list[str]:
        """Return the names of the services recorded here, sorted; none where there is no directory.

        Includes files that our writers would have named otherwise, and with the inbox also services that run
        and have no file yet. Links are left out. Raises OSError when the directory cannot be read.
        """
        services = {path.stem for path in self._files() if _is_record(path)}
        inbox = self.inbox() if with_inbox else None
        return sorted(services | inbox.services() if inbox is not None else services)

    def links(self) -> list[Path]:
        """Return the links among the records. They are never read: one may lead to any file of the host."""
        return sorted(path for path in self._files() if is_record_name(path.name) and path.is_symlink())

    def path(self, service: str) -> Path:
        """Return the file that a service is recorded in."""
        return Path(record_path(service, self.directory))

    def read(self, service: str) -> Iterator["Piece"]:
        """Yield all pieces of a service's record, in the order of the file.

        Raises OSError, at the first piece, when there is no such file or it cannot be read.
        """
        from service_record.record.layout import read_entries  # not loaded by who records

        path = self._file(service)
        live = [] if path.exists() else self._live(service)
        if not live:
            with open_inside(self.directory, path) as stream:
                yield from read_entries(stream)
            live = self._live(service)  # only now: what has just gone to the record is not to be read twice
        for data in live:
            yield from read_entries(BytesIO(data))

    def writer(self, service: str) -> Writer:
        """Return a writer that appends to the record of a service."""
        return Writer(self.path(service))

    def inbox(self) -> "Inbox | None":
        """Return the inbox of services that may not write here; None for other directories and users."""
        if self.directory != Path(DEFAULT_DIRECTORY):
            return None
        from service_record.record.inbox import Inbox  # not loaded by who records

        try:
            return Inbox(Path(os.environ.get("SERVICE_RECORDS_INBOX") or _DEFAULT_INBOX))
        except OSError:  # only root may list it
            return None

    def _live(self, service: str) -> list[bytes]:
        inbox = self.inbox()
        return list(inbox.read(service)) if inbox is not None else []

    def _file(self, service: str) -> Path:
        """Return the file listed under exactly that name, else the one that a writer makes: neither is
        outside.
        """
        listed = self.directory / (service + SUFFIX)
        # Looked at by itself: a directory of thousands of records is not listed for each of them.
        return listed if "/" not in service and _is_record(listed) else self.path(service)

    def _files(self) -> Iterable[Path]:
        return self.directory.iterdir() if self.directory.exists() else ()


def open_record(path: AnyPath) -> int:
    """Return a descriptor to read a record with. Raises OSError for a link and for anything but a file."""
    return open_regular(path, _READ)


def open_inside(directory: Path, path: Path) -> BufferedReader:
    """Open a file below a directory, for every reader of records and evidence.

    The directory may come from an attacker: a link in it could lead to any file that the reader may read.
    Raises OSError for a link, at the end of the path or on its way, and for anything but a plain file.
    """
    if not is_inside(directory, path.parent):
        raise OSError(errno.ELOOP, "behind a symbolic link", str(path))
    from service_record.record.holes import without_holes  # not loaded by who records

    return without_holes(open_record(path))


def is_inside(directory: Path, path: Path) -> bool:
    """Return whether no step from a directory to a path below it is a link. The directory may be one."""
    return Path(os.path.realpath(path)) == Path(os.path.realpath(directory), path.relative_to(directory))


def is_record_name(name: str) -> bool:
    """Return whether a file of that name in a directory of records is one of them."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def _is_record(path: Path) -> bool:
    return is_record_name(path.name) and path.is_file() and not path.is_symlink()

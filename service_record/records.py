"""The records of this host: a directory with one file for each service."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service_record.entry import Entry, Malformed
from service_record.writer import SUFFIX, AnyPath, Writer, default_directory, open_regular, record_path

if TYPE_CHECKING:  # reading needs what recording does without
    from service_record.plain import Stretch

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Records:
    """The records of one directory, by default this host's; made by the first append when it is missing."""

    def __init__(self, directory: AnyPath | None = None) -> None:
        self.directory = Path(directory or default_directory())

    def services(self) -> list[str]:
        """The names of the services recorded here, sorted; none where there is no directory.

        They are those of all files, also of one that our writers would have named otherwise. Raises OSError
        when the directory cannot be read.
        """
        if not self.directory.exists():
            return []
        return sorted(path.stem for path in self.directory.iterdir() if _is_record(path))

    def path(self, service: str) -> Path:
        """The file that a service is recorded in."""
        return Path(record_path(service, self.directory))

    def read(self, service: str) -> Iterator[Entry | Malformed]:
        """All pieces of a service's record, in the order of the file.

        Raises OSError, at the first piece, when there is no such file or it cannot be read.
        """
        from service_record.plain import pieces_of  # noqa: PLC0415  # as above

        yield from pieces_of(self.stretches(service))

    def stretches(self, service: str) -> Iterator["Stretch"]:
        """The same in blocks where that is possible, which is faster."""
        from service_record.layout import read_stretches  # noqa: PLC0415  # as above
        from service_record.rereading import rereadable  # noqa: PLC0415  # as above

        path = self._file(service)
        with os.fdopen(open_record(path), "rb") as stream:
            yield from read_stretches(stream, source=rereadable(stream, path))

    def writer(self, service: str) -> Writer:
        """What appends to the record of a service."""
        return Writer(self.path(service))

    def _file(self, service: str) -> Path:
        """The file listed under just that name, else the one that a writer makes: neither is outside."""
        listed = (path for path in self.directory.iterdir() if path.name == service + SUFFIX)
        return next(filter(_is_record, listed), self.path(service))


def open_record(path: AnyPath) -> int:
    """A descriptor to read a record with. Raises OSError when there is none or it is no regular file."""
    return open_regular(path, _READ)


def is_record_name(name: str) -> bool:
    """Whether a file of that name in a directory of records is one of them."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def _is_record(path: Path) -> bool:
    return is_record_name(path.name) and path.is_file()

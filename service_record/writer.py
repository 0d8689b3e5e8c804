"""Appending to a record: one file for each service, made by the first entry of it.

It needs the standard library only, and little of that: it is loaded by every service that is recorded.
"""

import os
import stat
from contextlib import suppress
from dataclasses import replace
from threading import RLock
from typing import Final, TypeAlias

from service_record.entry import MAX_LINE_BYTES, Entry

_DEFAULT_DIRECTORY: Final = "/var/log/openshift"
_DIRECTORY_MODE: Final = 0o750
_FILE_MODE: Final = 0o640
SUFFIX: Final = ".json"

AnyPath: TypeAlias = str | os.PathLike[str]

_MAX_NAME_BYTES: Final = 200
_SEPARATE: Final = b"\n"
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def default_directory() -> str:
    """Where records are: $SERVICE_RECORDS_DIR, else /var/log/openshift."""
    return os.environ.get("SERVICE_RECORDS_DIR") or _DEFAULT_DIRECTORY


def record_path(service: str, directory: AnyPath | None = None) -> str:
    """The file that a service is recorded in, by default in this host's directory."""
    return os.path.join(directory or default_directory(), record_name(service) + SUFFIX)


def record_name(name: str) -> str:
    """The name under which a service is recorded, whatever its unit or program is called.

    It is a file name of at most 200 bytes without a dot, so that no name leaves the directory and upstream's
    log analyzer, which takes no dots, finds the file.
    """
    base = name.rpartition("/")[2].removesuffix(".service")
    plain = "".join("_" if character == "." or _is_control(character) else character for character in base)
    if plain.startswith("-"):
        plain = "_" + plain[1:]
    short = plain.encode(errors="replace")[:_MAX_NAME_BYTES].decode(errors="ignore")
    return short or "unknown"


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"


class Writer:
    """Appends entries to one file in the lines layout; never raises, never blocks on what is not a file.

    Threads may share a writer, a forked child may go on with its copy, and any number of processes may
    append to one file: each entry is one write on a descriptor opened for appending, and kept only for it.
    """

    def __init__(self, path: AnyPath) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = RLock()  # reentrant: a signal handler may append while its own thread does
        self._dropped = 0
        self._tail_is_ours = False

    def append(self, entry: Entry) -> bool:
        """Whether the entry is in the file, whole. One that is not is counted in the next that is.

        An entry gets a line of its own even behind a torn tail: the first of this writer, and the first after
        a failure, begin with a newline when the file is not empty.
        """
        if self._process != os.getpid():
            self._begin()  # the parent's lock may be held for ever here, and its count is the parent's
        with self._lock:
            try:
                self._write(replace(entry, dropped=self._dropped) if self._dropped else entry)
            except Exception:  # noqa: BLE001  # whatever it is, it is not the service's
                self._dropped += 1
                self._tail_is_ours = False
                return False
            self._dropped = 0
            self._tail_is_ours = True
            return True

    def _write(self, entry: Entry) -> None:
        descriptor = self._open()
        try:
            if self._tail_is_ours or os.fstat(descriptor).st_size == 0:
                line = entry.to_line()
            else:
                line = _SEPARATE + entry.to_line(MAX_LINE_BYTES - len(_SEPARATE))
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self._path}: only part of an entry could be written")
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return open_regular(self._path, _APPEND)
        except FileNotFoundError:
            return _create(self._path)


def _create(path: AnyPath) -> int:
    """A descriptor of a new file, in a new directory if need be; their modes are ours whatever the umask."""
    directory = os.path.dirname(path)
    if not os.path.exists(directory):
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, _DIRECTORY_MODE)
    descriptor = open_regular(path, _APPEND | os.O_CREAT)
    with suppress(OSError):  # another user's writer may just have made it
        os.fchmod(descriptor, _FILE_MODE)
    return descriptor


def open_regular(path: AnyPath, flags: int) -> int:
    """A descriptor of a regular file; O_NONBLOCK among the flags keeps anything else from blocking."""
    descriptor = os.open(path, flags, _FILE_MODE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(f"{os.fspath(path)}: not a regular file")

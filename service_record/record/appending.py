"""Appending to a record: one file for each service, made by the first entry of it.

A file keeps the layout it has; $SERVICE_RECORDS_LAYOUT, `lines` or `array`, chooses that of a new one. Where
$SERVICE_RECORDS_SYNC is `ends`, the end of a run, and a failure, is on the disk when it has been appended.

It needs the standard library only, and little of that: it is loaded by every service that is recorded.
"""

from __future__ import annotations

import os
import stat
from _thread import RLock  # `threading`, which costs more, has the same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final, TypeAlias

    from service_record.record.entry import Entry

DEFAULT_DIRECTORY: Final = "/var/log/openshift"
_FILE_MODE: Final = 0o640
_DIRECTORY_MODE: Final = 0o750
_EVERYBODYS_FILE_MODE: Final = 0o644
_EVERYBODYS_DIRECTORY_MODE: Final = 0o755
SUFFIX: Final = ".json"
DAMAGED_SUFFIX: Final = ".damaged"
"""The suffix of the file beside a record that keeps what a writer found in the place of an array's end."""

AnyPath: TypeAlias = str | os.PathLike[str]

_MAX_NAME_BYTES: Final = 200
_SEPARATE: Final = b"\n"
_EMPTY_ARRAY: Final = b"[\n]\n"
_SAFE: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_APPEND: Final = os.O_WRONLY | os.O_APPEND | _SAFE
_SYNC: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""A link is followed: the directory may be one."""
_LOCK_SECONDS: Final = 2.0
"""The time limit for getting the lock of an array."""


def default_directory() -> str:
    """Return where records are: $SERVICE_RECORDS_DIR, else /var/log/openshift."""
    return os.environ.get("SERVICE_RECORDS_DIR") or DEFAULT_DIRECTORY


def record_path(service: str, directory: AnyPath | None = None) -> str:
    """Return the file that a service is recorded in, by default in this host's directory."""
    return os.path.join(directory or default_directory(), record_name(service) + SUFFIX)


def writing_path(service: str, directory: AnyPath | None = None) -> str:
    """Return the file that this process records a service in.

    It is the record. For a process that may not write that, because it is not root or for its sandbox, it is
    a file in the inbox that the drop-in names, $SERVICE_RECORDS_INBOX, from where the exit helper takes it to
    the record.
    """
    path = record_path(service, directory)
    inbox = os.environ.get("SERVICE_RECORDS_INBOX", "")
    if directory or not inbox or not os.access(inbox, os.W_OK):
        return path
    if os.geteuid() == 0 and not os.path.exists(os.path.dirname(path)):  # which root makes
        return path
    if any(os.access(place, os.W_OK) for place in (path, os.path.dirname(path))):
        return path
    return os.path.join(inbox, f"{record_name(service)}.{os.environ.get('INVOCATION_ID', '')}{SUFFIX}")


def record_name(name: str) -> str:
    """Return the name under which a service is recorded, whatever its unit or program is called.

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
    """Appends entries to one file; never raises, never blocks on what is not a file.

    Threads may share a writer, a forked child may go on with its copy, and any number of processes may
    append to one file. The file is open only while an entry is written.
    """

    def __init__(self, path: AnyPath) -> None:
        self._path = os.fspath(path)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = RLock()  # reentrant: a signal handler may append while its own thread does
        self._dropped = 0
        self._tail_is_ours = False
        self._is_in_array = False

    def append(self, entry: Entry | Mapping[str, object]) -> bool:
        """Append an entry, or its fields under their names on disk.

        Returns whether it is in the file, whole. One that is not is counted in the next that is.
        """
        if self._process != os.getpid():
            self._begin()  # the parent's lock may be held for ever here, and its count is the parent's
        with self._lock:
            try:
                fields = entry.to_json() if hasattr(entry, "to_json") else entry
                self._write({**fields, "dropped": self._dropped} if self._dropped else fields)
            except Exception:  # noqa: BLE001  # whatever it is, it is not the service's
                self._dropped += 1
                self._tail_is_ours = False
                return False
            self._dropped = 0
        if _has_to_last(fields):
            _sync(self._path)
        return True

    def _write(self, fields: Mapping[str, object]) -> None:
        """Write to the end of the array if the file is one; otherwise, and where that fails, a line."""
        if self._tail_is_ours:
            self._tail_is_ours = self._write_line(fields, at_a_torn_tail=False)
            return

        first = self._first_byte()
        if first == b"[" and self._write_in_array(fields):
            return
        # Behind an array, too: this writer's entries are parked there from now on.
        self._tail_is_ours = self._write_line(fields, at_a_torn_tail=bool(first))

    def _first_byte(self) -> bytes:
        """Return the byte that shows the file's layout, creating the file if it is missing; empty for an
        empty file.
        """
        array = os.environ.get("SERVICE_RECORDS_LAYOUT") == "array"
        try:
            descriptor = open_regular(self._path, os.O_RDONLY | _SAFE)
        except FileNotFoundError:
            descriptor = _create(self._path, is_array=array)
        except PermissionError:
            return _SEPARATE  # to be written to, perhaps: in lines, behind an end that is not known
        try:
            return os.pread(descriptor, 1, 0) or (b"[" if array else b"")
        finally:
            os.close(descriptor)

    def _write_line(self, fields: Mapping[str, object], *, at_a_torn_tail: bool) -> bool:
        """Return one write on a descriptor opened for appending; behind a torn tail a newline goes first.

        Whether the line has its end: an entry that lacks only that is there all the same.
        """
        line = _line(fields, _SEPARATE if at_a_torn_tail else b"")
        descriptor = self._open()
        try:
            written = os.write(descriptor, line)
            if written < len(line) - len(_SEPARATE):
                raise OSError(f"{self._path}: only part of an entry could be written")
            return written == len(line)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return open_regular(self._path, _APPEND)
        except FileNotFoundError:
            os.close(_create(self._path, is_array=False))
            return open_regular(self._path, _APPEND)

    def _write_in_array(self, fields: Mapping[str, object]) -> bool:
        if self._is_in_array:  # a signal handler, on top of just this
            return False
        self._is_in_array = True
        try:
            return self._extend_array(_line(fields))
        finally:
            self._is_in_array = False

    def _extend_array(self, line: bytes) -> bool:
        from service_record.record import array_file  # most services record in lines

        try:
            descriptor = open_regular(self._path, os.O_RDWR | _SAFE)
        except OSError:
            return False
        try:
            array_file.append(descriptor, line.rstrip(), lock_seconds=_LOCK_SECONDS)
        except (OSError, array_file.ArrayError):
            return False
        finally:
            os.close(descriptor)
        return True


def _line(fields: Mapping[str, object], before: bytes = b"") -> bytes:
    from service_record.record.line import MAX_LINE_BYTES, line_of  # who reads needs none

    return before + line_of(fields, MAX_LINE_BYTES - len(before))


def _has_to_last(fields: Mapping[str, object]) -> bool:
    if os.environ.get("SERVICE_RECORDS_SYNC") != "ends" or fields.get("result") is None:
        return False
    return fields.get("phase") != "stage end" or fields.get("result") == "failure"


def _sync(path: str) -> None:
    """Have the file, and its name, on the disk; where that cannot be, it is as lasting as any other."""
    try:
        for place in (path, os.path.dirname(path) or "."):
            descriptor = os.open(place, _SYNC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError:
        return


def _create(path: str, *, is_array: bool) -> int:
    """Open a new file, in a new directory if need be, and return its descriptor; their modes ignore the
    umask.

    Everybody may read arrays: OpenShift's gather looks for them, and packs copies of them, as a user like any
    other.
    """
    directory = os.path.dirname(path)
    if not os.path.exists(directory):
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, _EVERYBODYS_DIRECTORY_MODE if is_array else _DIRECTORY_MODE)
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | _SAFE)
    except FileExistsError:  # another writer has just made it
        return open_regular(path, os.O_RDONLY | _SAFE)
    os.fchmod(descriptor, _EVERYBODYS_FILE_MODE if is_array else _FILE_MODE)
    if is_array:
        os.write(descriptor, _EMPTY_ARRAY)
    return descriptor


def open_regular(path: AnyPath, flags: int) -> int:
    """Return a descriptor of a regular file; O_NONBLOCK among the flags keeps anything else from blocking."""
    descriptor = os.open(path, flags, _FILE_MODE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(f"{os.fspath(path)}: not a regular file")

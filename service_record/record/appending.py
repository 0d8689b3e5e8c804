"""Append entries to records: one file for each service, created by its first entry.

A file keeps its layout; $SERVICE_RECORDS_LAYOUT, `lines` or `array`, chooses the layout of a new file. With
$SERVICE_RECORDS_SYNC set to `ends`, the end of a run, and each failure, is on the disk before `append`
returns.

Every recorded service loads this module, so it imports little of the standard library.
"""

from __future__ import annotations

import os

# The class `threading.RLock`. It is not imported from there, because `threading` alone takes as long to load
# as the whole recorder (3 ms). A test compares the two.
from _thread import RLock
from stat import S_ISREG

from service_record.record import is_foreign
from service_record.record.line import MAX_LINE_BYTES, line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final, TypeAlias

    from service_record.record.entry import Entry

DEFAULT_DIRECTORY: Final = "/var/log/openshift"
_FILE_MODE: Final = 0o640
_FILE_MODES: Final = (_FILE_MODE,)
_DIRECTORY_MODE: Final = 0o750
_EVERYBODYS_FILE_MODE: Final = 0o644
_EVERYBODYS_DIRECTORY_MODE: Final = 0o755
SUFFIX: Final = ".json"
DAMAGED_SUFFIX: Final = ".damaged"
"""The suffix of the file beside a record to which a writer moves damaged bytes at the end of an array."""

AnyPath: TypeAlias = str | os.PathLike[str]

_MAX_NAME_BYTES: Final = 200
_SEPARATE: Final = b"\n"
_EMPTY_ARRAY: Final = b"[\n]\n"
_SAFE: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_APPEND_FLAGS: Final = (os.O_WRONLY | os.O_APPEND | _SAFE,)
_SYNC: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""A link is followed: the directory may be one."""
_LOCK_SECONDS: Final = 2.0
"""The time limit for getting the lock of an array."""


if os.environ.get("SERVICE_RECORDS_LAYOUT") == "array":
    from service_record.record import array_file  # noqa: F401  # loaded before the first entry; few need it

_process_id = os.getpid()  # a system call for each entry would be an eighth of its cost


def process_id() -> int:
    """Return the id of this process, known without a system call."""
    return _process_id


def _update_process_id() -> None:
    global _process_id  # noqa: PLW0603  # a fork is the one event that changes it
    _process_id = os.getpid()


os.register_at_fork(after_in_child=_update_process_id)


def default_directory() -> str:
    """Return the directory of records: $SERVICE_RECORDS_DIR, or else /var/log/openshift."""
    return os.environ.get("SERVICE_RECORDS_DIR") or DEFAULT_DIRECTORY


def record_path(service: str, directory: AnyPath | None = None) -> str:
    """Return the path of a service's record, by default in this host's directory."""
    return os.path.join(directory or default_directory(), record_name(service) + SUFFIX)


def writing_path(service: str, directory: AnyPath | None = None) -> str:
    """Return the path to which this process writes the entries of a service.

    This is the record, unless the process cannot write it, because it is not root or is in a sandbox. Then it
    is a file in the inbox, $SERVICE_RECORDS_INBOX. The exit helper moves its entries to the record.
    """
    path = record_path(service, directory)
    inbox = os.environ.get("SERVICE_RECORDS_INBOX", "")
    if directory or not inbox or not os.access(inbox, os.W_OK) or not _needs_inbox(path):
        return path
    return os.path.join(inbox, f"{record_name(service)}.{os.environ.get('INVOCATION_ID', '')}{SUFFIX}")


def _needs_inbox(path: str) -> bool:
    """Return True if the process cannot write to the host's directory of records.

    A unit with TemporaryFileSystem=/var, for example, has a directory of its own in the place of the host's.
    Entries in it would be lost at the end of the service. Only root can see the mounts of the host, in
    /proc/1/root. Root makes a missing directory; other users leave that to the exit helper.
    """
    directory = os.path.dirname(os.path.abspath(path))
    of_host = f"/proc/1/root{directory}"
    try:
        is_hidden = not os.path.samefile(directory, of_host)
    except OSError:
        is_hidden = os.path.exists(of_host)
    if is_hidden:
        return True
    if os.geteuid() == 0:
        while not os.path.exists(directory):
            directory = os.path.dirname(directory)
    return not any(os.access(place, os.W_OK) for place in (path, directory))


def record_name(name: str) -> str:
    """Return the name of a service's record, without suffix, for the name of its unit or program.

    It is a file name of at most 200 bytes, without a slash, so that it stays in the directory, and without a
    dot, because upstream's log analyzer does not accept one.
    """
    base = name.rpartition("/")[2].removesuffix(".service")
    plain = "".join(
        "_" if character == "." or character < " " or character == "\x7f" else character for character in base
    )
    if plain.startswith("-"):
        plain = "_" + plain[1:]
    short = plain.encode(errors="replace")[:_MAX_NAME_BYTES].decode(errors="ignore")
    return short or "unknown"


class Writer:
    """Appends entries to one file. Errors of recording are counted and never raised, and nothing blocks.

    Threads may share a writer, a forked child may continue with its copy, and any number of processes may
    append to one file. The file is open only while an entry is written.

    A signal handler of the service may run in the middle of an append and raise. Such an exception passes on.
    The lock and the descriptor are released then, and `written` tells whether the entry is in the file.
    """

    def __init__(self, path: AnyPath) -> None:
        self._path = os.fspath(path)
        self._paths = (self._path,)
        self._begin()

    def _begin(self) -> None:
        self._process = process_id()
        self._lock = RLock()  # reentrant: a signal handler may append while its own thread does
        self.dropped = 0
        """The number of entries right before the next one that could not be written."""
        self._tail_is_ours = False
        self._is_in_array = False
        self._parked: list[bytes] = []
        """Entries that signal handlers have parked behind the array, or are about to, in the middle of an
        append.
        """

    def append(self, entry: Entry | Mapping[str, object] | bytes, written: list[int] | None = None) -> bool:
        """Append an entry, its fields under their names on disk, or its line.

        Returns True if the whole entry is in the file. A lost entry is counted in the next one that is not
        given as a line. `written` is for callers that need to know, when an exception of the service passes
        through, if the entry is in the file: then the list is not empty.
        """
        if self._process != _process_id:
            self._begin()  # this is a forked child: a thread of the parent may have held the lock
        if written is None:
            written = []
        with self._lock:
            counted = 0
            try:
                if not isinstance(entry, bytes):
                    entry = entry if isinstance(entry, dict) else _read_fields(entry)
                    counted = self.dropped
                    if counted:
                        entry = {**entry, "dropped": counted}
                if self._tail_is_ours:
                    self._write_line(entry if isinstance(entry, bytes) else encode_line(entry), written)
                else:
                    self._find_end_and_write(entry, written)
            except Exception as error:
                if is_foreign(error):
                    raise
                self.dropped += 1
                written.clear()
                return False
            finally:
                if written:
                    self.dropped -= counted
        if not isinstance(entry, bytes) and _must_be_synced(entry):
            _sync(self._path)
        return True

    def _find_end_and_write(self, entry: Mapping[str, object] | bytes, written: list[int]) -> None:
        """Write to the end of the array if the file is one; otherwise, and where that fails, a line."""
        first = self._first_byte()
        if first == b"[" and not self._is_in_array:
            is_in_file = self._write_in_array(encode_line(entry).rstrip(), written)
            while self._parked:  # by a handler that came after the last look, and before that could be seen
                self._write_in_array(None, [])
            if is_in_file:
                return
        # Also behind an array: this writer's entries are parked there from now on. But if this is a signal
        # handler, in the middle of an append, that append moves the entry into the array.
        line = encode_line(entry, _SEPARATE if first else b"")
        if self._is_in_array:
            self._parked.append(line.strip())
        self._write_line(line, written)

    def _first_byte(self) -> bytes:
        """Return the byte that shows the file's layout, creating the file if it is missing; empty for an
        empty file.
        """
        array = os.environ.get("SERVICE_RECORDS_LAYOUT") == "array"
        opened: list[int] = []
        closing = map(os.close, opened)
        try:
            try:
                open_into(opened, self._path, os.O_RDONLY | _SAFE)
            except FileNotFoundError as error:
                if is_foreign(error):
                    raise
                _create(opened, self._path, is_array=array)
            except PermissionError as error:
                if is_foreign(error):
                    raise
                return _SEPARATE  # it may be writable: append a line, after an unknown end
            return os.pread(opened[0], 1, 0) or (b"[" if array else b"")
        finally:
            for _ in closing:  # see open_into
                pass

    def _write_line(self, line: bytes, written: list[int]) -> None:
        """Append a line with one write.

        If only its newline is missing, the entry counts as written, because the next one begins with one.
        """
        opened: list[int] = []
        closing = map(os.close, opened)
        self._tail_is_ours = False  # until the whole line is known to be there
        try:
            try:
                # Inlined from open_into: this is the hot path.
                opened.extend(map(os.open, self._paths, _APPEND_FLAGS, _FILE_MODES))
            except FileNotFoundError as error:
                if is_foreign(error):
                    raise
                _create(opened, self._path, is_array=False)
                opened.extend(map(os.open, self._paths, _APPEND_FLAGS, _FILE_MODES))
            if not S_ISREG(os.fstat(opened[-1]).st_mode):
                raise OSError(f"{self._path}: not a regular file")
            written.extend(map(os.write, opened[-1:], (line,)))  # see open_into
            if written[-1] < len(line) - len(_SEPARATE):
                raise OSError(f"{self._path}: only part of an entry could be written")
            self._tail_is_ours = written[-1] == len(line) and not self._is_in_array
        finally:
            for _ in closing:  # see open_into
                pass

    def _write_in_array(self, line: bytes | None, written: list[int]) -> bool:
        """Write an entry, if one is given, and the parked ones; return True if the entry is in the array."""
        is_whole = False
        opened: list[int] = []
        closing = map(os.close, opened)
        try:
            self._is_in_array = True
            from service_record.record import array_file  # records of the other layout need none of it

            open_into(opened, self._path, os.O_RDWR | _SAFE)
            self._merge_parked(opened[0])
            while line is not None and not is_whole:
                try:
                    array_file.append(opened[0], line, lock_seconds=_LOCK_SECONDS, written=written)
                    is_whole = True
                except array_file.ArrayError:
                    if not self._parked:
                        raise
                self._merge_parked(opened[0])
        except Exception as error:
            if is_foreign(error):
                raise
            if not is_whole:
                written.clear()
            self._parked.clear()
        finally:
            self._is_in_array = False
            for _ in closing:  # see open_into
                pass
        return is_whole

    def _merge_parked(self, descriptor: int) -> None:
        """Move the entries of signal handlers into the array. If that fails, the exit helper does it."""
        from service_record.record import array_file

        while self._parked:
            array_file.merge_parked(descriptor, self._parked, lock_seconds=_LOCK_SECONDS)


def _read_fields(entry: Entry | Mapping[str, object]) -> Mapping[str, object]:
    return entry.to_json() if hasattr(entry, "to_json") else entry


def encode_line(entry: Mapping[str, object] | bytes, before: bytes = b"") -> bytes:
    """Return the bytes `before` and an entry as one line, together at most `MAX_LINE_BYTES`."""
    if isinstance(entry, bytes):
        return before + entry
    return before + line_of(entry, MAX_LINE_BYTES - len(before))


def _must_be_synced(fields: Mapping[str, object]) -> bool:
    phase = str(fields.get("phase"))
    if not phase.endswith("end") or os.environ.get("SERVICE_RECORDS_SYNC") != "ends":
        return False
    return phase != "stage end" or fields.get("result") == "failure"


def _sync(path: str) -> None:
    """Sync the file and its directory to the disk. Errors are ignored, because the entry is written."""
    for place in (path, os.path.dirname(path) or "."):
        opened: list[int] = []
        closing = map(os.close, opened)
        try:
            opened.extend(map(os.open, (place,), (_SYNC,)))
            os.fsync(opened[0])
        except OSError as error:
            if is_foreign(error):
                raise
            return
        finally:
            for _ in closing:  # see open_into
                pass


def _create(opened: list[int], path: str, *, is_array: bool) -> None:
    """Open a new file, in a new directory if need be, as `open_into` does; their modes ignore the umask.

    Arrays are readable for everybody: OpenShift's gather looks for them, and packs copies of them, as an
    ordinary user.
    """
    directory = os.path.dirname(path)
    if not os.path.exists(directory):
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, _EVERYBODYS_DIRECTORY_MODE if is_array else _DIRECTORY_MODE)
    try:
        open_into(opened, path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | _SAFE)
    except FileExistsError as error:  # another writer has just made it
        if is_foreign(error):
            raise
        open_into(opened, path, os.O_RDONLY | _SAFE)
        return
    os.fchmod(opened[0], _EVERYBODYS_FILE_MODE if is_array else _FILE_MODE)
    if is_array:
        os.write(opened[0], _EMPTY_ARRAY)


def open_into(opened: list[int], path: AnyPath, flags: int) -> None:
    """Open a regular file and add its descriptor to the list.

    O_NONBLOCK among the flags keeps anything else from blocking.

    Do not simplify this to `descriptor = os.open(…)`: a signal handler that raises between the call and the
    assignment would leak the descriptor. `list.extend` and `map` are in C, where Python runs no handler. The
    callers close the descriptor in the same way: they make `closing = map(os.close, opened)` before, and in
    the loop over it no handler can run until the descriptor is closed.
    """
    opened.extend(map(os.open, (path,), (flags,), _FILE_MODES))
    if not S_ISREG(os.fstat(opened[-1]).st_mode):
        raise OSError(f"{os.fspath(path)}: not a regular file")


def open_regular(path: AnyPath, flags: int) -> int:
    """Return a descriptor of a regular file; O_NONBLOCK among the flags keeps anything else from blocking."""
    descriptor = os.open(path, flags, _FILE_MODE)
    if S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(f"{os.fspath(path)}: not a regular file")

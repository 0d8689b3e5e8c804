"""Replace a record by a shorter one while services write to it.

A writer opens the record for each entry, so it may open the file just before it is replaced and write just
after. The replaced file therefore keeps a name beside the record until no process has it open for writing:
only then the kernel grants a read lease (fcntl(2), F_SETLEASE). Late entries are then added to the record, in
order. docs/record-layouts.md, "Rotation", has the steps, and the state that a power loss leaves after each.
"""

import fcntl
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Final

from service_record.record.appending import DAMAGED_SUFFIX, Writer, open_regular
from service_record.record.array_file import ArrayError, append, is_locked
from service_record.record.entry import BYTE_ORDER_MARK, Entry, Malformed
from service_record.record.layout import read_entries
from service_record.record.line import encoded

_LOCK_SECONDS: Final = 5.0
_WRITERS_SECONDS: Final = 5.0
"""How long to wait for writers that have the replaced file open."""
_ARRAY_WRITERS_SECONDS: Final = 1.0
"""The same while the new file is locked: writers wait for a lock two seconds at most."""
_PAUSE_SECONDS: Final = 0.002
_MOST_CATCHING_UP: Final = 20
_MOST_TURNS: Final = 20
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_READ_WRITE: Final = _READ | os.O_RDWR
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OLD: Final = re.compile(r"\.(?P<record>.+\.json)\.(?P<numbers>\d{1,12}(-\d{1,12}){3})\.old", re.DOTALL)
_UNFINISHED: Final = re.compile(r"\.(?P<old>.+\.json)\.\d[\d-]*\.old|\.(?P<new>.+\.json)\.new", re.DOTALL)
"""Files beside a record that a rotation removes when it ends."""


class RotationError(Exception):
    """A record was not rotated and is unchanged. The text says why, and what to do, in one line."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The result of a rotation, in bytes and entries."""

    bytes_before: int
    bytes_after: int
    entries_left_out: int
    is_waiting: bool = False
    """True if a writer still has the replaced file open. The next rotation adds its late entries."""


def find_long_records(paths: Collection[Path], limit: int) -> list[Path]:
    """Return the records for `rotate`: those that are too long, or that it left unfinished earlier.

    `rotate` lists the whole directory. Called for each of N records, it would list N names N times.
    """
    names = (other.name for directory in {path.parent for path in paths} for other in directory.iterdir())
    unfinished = {found["old"] or found["new"] for found in map(_UNFINISHED.fullmatch, names) if found}

    def is_long(path: Path) -> bool:
        try:
            return path.lstat().st_size > limit > 0  # a limit of 0 is none
        except OSError:
            return True  # `rotate` raises the error

    return [path for path in paths if path.name in unfinished or is_long(path)]


def rotate(path: Path, limit: int) -> Rotation | None:
    """Shorten a record of more than `limit` bytes to half of that. Return None if it is not too long.

    First completes an earlier rotation that was cut short. Raises RotationError and OSError.
    """
    with _hold_directory_lock(path.parent):
        is_finished = _finish_earlier(path)
        if limit <= 0 or path.lstat().st_size <= limit:
            return None
        if not is_finished:
            raise RotationError(f"{path}: a writer still has the file open that the last rotation replaced")
        return _rotate(path, limit)


def _rotate(path: Path, limit: int) -> Rotation | None:
    from service_record.rotation.selection import AnonymousError, choose_entries  # few records are too long

    before = path.lstat().st_size
    left_out = 0

    def choose(entries: list[Entry]) -> list[Entry]:
        nonlocal left_out
        chosen = choose_entries(entries, [len(encoded(entry.to_json())) for entry in entries], limit // 2)
        left_out = len(entries) - len(chosen)
        return chosen if left_out else entries

    try:
        replaced = _replace(path, choose)
    except AnonymousError:
        raise RotationError(
            f"{path}: not rotated: entries in it name no run, as those of OpenShift's own script; "
            "move the file away by hand while the service does not run"
        ) from None
    if replaced is None:
        return None
    is_waiting = not _finish(path, replaced)
    return Rotation(before, path.lstat().st_size, left_out, is_waiting)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A file that was replaced. Its name has the numbers, so that the next rotation can complete this one.

    Late entries are counted instead of compared with the new file: a program may record two equal entries.
    """

    record: Path
    turn: int
    """0 if a rotation replaced the file; one more each time that the insertion of late entries did."""
    entries: int
    """Number of its entries that were read to make the new file."""
    new_entries: int
    """Number of entries in the new file at that time."""
    copied: int = 0
    """Number of its next entries that were then copied to the new file, without a sync."""

    @property
    def path(self) -> Path:
        numbers = f"{self.turn}-{self.entries}-{self.new_entries}-{self.copied}"
        return self.record.with_name(f".{self.record.name}.{numbers}.old")

    def note_copied(self, count: int) -> "_Replaced":
        """Note in its name that `count` more entries are copied, or will be at once."""
        changed = replace(self, copied=self.copied + count)
        self.path.rename(changed.path)
        return changed


@contextmanager
def _hold_directory_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory of records, for one rotation at a time. The kernel releases it on exit."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not is_locked(descriptor, _LOCK_SECONDS):
            raise RotationError(f"{directory}: another rotation is running")
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, choose: Callable[[list[Entry]], list[Entry]], turn: int = 0) -> _Replaced | None:
    """Replace a record by the chosen entries. If `choose` returns the same list, return None.

    The replaced file keeps a name beside the record. A power loss at any moment leaves one of the two files,
    whole, as the record.
    """
    descriptor = open_regular(path, _READ_WRITE)
    new = path.with_name(f".{path.name}.new")
    try:
        is_array = os.pread(descriptor, 64, 0).removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")
        if is_array and not is_locked(descriptor, _LOCK_SECONDS):
            raise RotationError(f"{path}: a writer keeps its lock; try again")
        data = _read_whole_lines(descriptor, 0, is_array=is_array)
        entries, damage = _read_pieces(data, is_array=is_array)
        chosen = choose(entries) if entries else entries
        if chosen is entries:
            return None
        with _make_file(new, descriptor) as target:
            _check_lease(target, path.parent)
            if is_array:
                is_locked(target, 0)  # until the late entries are in it: see _append_late
            _write_all(target, _encode_record(chosen, is_array=is_array))
            os.fsync(target)
            _keep_damage(path, damage)
            offset, caught_up = (0, 0) if is_array else _catch_up(descriptor, len(data), target)
            os.fsync(target)
            replaced = _Replaced(path, turn, len(entries) + caught_up, len(chosen) + caught_up)
            os.link(path, replaced.path, follow_symlinks=False)
            _sync(path.parent)
            if not is_array:  # without a sync, which would take long enough for further entries
                replaced = replaced.note_copied(_catch_up(descriptor, offset, target)[1])
            new.replace(path)
            _sync(path.parent)
            if is_array:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)
                descriptor = -1
                replaced = _append_late(target, replaced)
        return replaced
    finally:
        with suppress(FileNotFoundError):
            new.unlink()
        if descriptor >= 0:
            os.close(descriptor)


def _append_late(target: int, replaced: _Replaced) -> _Replaced:
    """Append entries that writers of an array wrote to the replaced file, before the new one gets any.

    Every writer that was waiting for the lock writes to the replaced file. Its next entry must not come
    first: a run with its end behind the start of the next run looks like one that never ended. So this
    process holds the lock of the new file meanwhile. Where a writer takes longer, `_finish` does the same
    without the lock.
    """
    if not _writers_have_left(replaced.path, _ARRAY_WRITERS_SECONDS):
        return replaced
    late, damage = _read_late_pieces(replaced)
    if late and not damage:
        noted = replaced.note_copied(len(late))
        lines = b",\n".join(encoded(entry.to_json()).rstrip(b"\n") for entry in late)
        try:
            append(target, lines, lock_seconds=0)
        except ArrayError:  # before anything was written
            return noted.note_copied(-len(late))
        except OSError:
            pass  # some of them may be written: `_find_missing` looks for them
        return noted
    return replaced


def _read_whole_lines(descriptor: int, offset: int, *, is_array: bool = False) -> bytes:
    """Return the bytes from `offset` to the last newline. A line without one may still be incomplete."""
    size = os.fstat(descriptor).st_size
    data = bytearray()
    while part := os.pread(descriptor, size - offset, offset + len(data)):
        data += part
    return bytes(data if is_array else data[: data.rfind(b"\n") + 1])


def _read_pieces(data: bytes, *, is_array: bool) -> tuple[list[Entry], list[Malformed]]:
    """Return entries and damage, without damage at the end of an array: that may be an unfinished entry."""
    pieces = list(read_entries(BytesIO(data)))
    while is_array and pieces and isinstance(pieces[-1], Malformed):
        pieces.pop()
    entries = [piece for piece in pieces if isinstance(piece, Entry)]
    return entries, [piece for piece in pieces if isinstance(piece, Malformed)]


def _encode_record(entries: Sequence[Entry], *, is_array: bool) -> bytes:
    lines = [encoded(entry.to_json()) for entry in entries]
    return (
        b"[\n" + b",\n".join(line.rstrip(b"\n") for line in lines) + b"\n]\n" if is_array else b"".join(lines)
    )


@contextmanager
def _make_file(new: Path, like: int) -> Iterator[int]:
    """Make a file with the mode and owner of `like`; yield its descriptor."""
    with suppress(FileNotFoundError):
        new.unlink()
    status = os.fstat(like)
    target = os.open(new, _NEW, 0o600)
    try:
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(target, status.st_uid, status.st_gid)
        os.fchmod(target, status.st_mode & 0o777)
        yield target
    finally:
        os.close(target)


def _write_all(target: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(target, remaining) :]


def _check_lease(descriptor: int, directory: Path) -> None:
    """Raise RotationError if the file system has no leases: they show when the last writer is done."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        raise RotationError(f"{directory}: its file system gives no leases: {error.strerror}") from None


def _catch_up(descriptor: int, offset: int, target: int) -> tuple[int, int]:
    """Append the entries that services have written since `offset`, until there are no more.

    Return the new offset and the number of entries.
    """
    count = 0
    for _ in range(_MOST_CATCHING_UP):
        data = _read_whole_lines(descriptor, offset)
        pieces = list(read_entries(BytesIO(data)))
        entries = [piece for piece in pieces if isinstance(piece, Entry)]
        if not entries or len(entries) < len(pieces):
            break
        _write_all(target, _encode_record(entries, is_array=False))
        count += len(entries)
        offset += len(data)
    return offset, count


def _keep_damage(path: Path, damage: Sequence[Malformed]) -> None:
    """Append damaged pieces to the copy beside the record, as writers of arrays do."""
    if not damage:
        return
    descriptor = open_regular(path.with_name(path.name + DAMAGED_SUFFIX), _APPEND)
    try:
        os.fchmod(descriptor, path.stat().st_mode & 0o777)
        _write_all(descriptor, b"".join(piece.text.encode(errors="replace") + b"\n" for piece in damage))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _find_replaced(path: Path) -> list[_Replaced]:
    """Return the replaced files beside a record, in the order in which they were replaced."""
    found = []
    for other in path.parent.iterdir():
        named = _OLD.fullmatch(other.name)
        if named is not None and named["record"] == path.name:
            found.append(_Replaced(path, *map(int, named["numbers"].split("-"))))
    return sorted(found, key=lambda replaced: replaced.turn)


def _finish_earlier(path: Path) -> bool:
    """Complete a rotation that was cut short. Return False if a writer still has the replaced file open."""
    found = _find_replaced(path)
    if found and found[-1].path.samefile(path):  # it was cut short before the new file took its place
        found.pop().path.unlink()
    for done in found[:-1]:  # the late entries of each are in the file that replaced the record next
        done.path.unlink()
    is_finished = _finish(path, found[-1]) if found else True
    new = path.with_name(f".{path.name}.new")
    if new.exists():  # a read-only file system refuses to remove even a missing file
        new.unlink(missing_ok=True)
    return is_finished


def _finish(path: Path, replaced: _Replaced) -> bool:
    """Add the late entries of the replaced file to the record, and remove the file.

    Inserting them in order replaces the record again, which may leave late entries again. After `_MOST_TURNS`
    they are appended. Return False if a writer still has the replaced file open.
    """
    again: _Replaced | None = replaced
    for turn in range(_MOST_TURNS):
        if again is None:
            return True
        replaced, again = again, None
        if not _writers_have_left(replaced.path, _WRITERS_SECONDS):
            return False
        late, damage = _read_late_pieces(replaced)
        _keep_damage(path, damage)
        if late and turn + 1 < _MOST_TURNS:
            again = _insert_late(path, late, replaced)
        elif late:
            there = [piece for piece in read_entries(BytesIO(path.read_bytes())) if isinstance(piece, Entry)]
            missing = _find_missing(late, there, replaced)
            replaced = replaced.note_copied(len(late) - replaced.copied)
            writer = Writer(path)
            if not all(writer.append(entry) for entry in missing):
                return False
        _sync(path)
        replaced.path.unlink()
        _sync(path.parent)
    return True


def _read_late_pieces(replaced: _Replaced) -> tuple[list[Entry], list[Malformed]]:
    """Return the pieces of a replaced file behind the entries that were read to make the new file."""
    read_count = 0
    late: list[Entry] = []
    damage: list[Malformed] = []
    for piece in read_entries(BytesIO(replaced.path.read_bytes())):
        if isinstance(piece, Malformed):
            if read_count >= replaced.entries:
                damage.append(piece)
            continue
        read_count += 1
        if read_count > replaced.entries:
            late.append(piece)
    return late, damage


def _insert_late(path: Path, late: Sequence[Entry], replaced: _Replaced) -> _Replaced | None:
    """Insert the late entries where they belong: behind those that were in the new file before any writer."""
    place = replaced.new_entries + replaced.copied

    def choose(entries: list[Entry]) -> list[Entry]:
        missing = _find_missing(late, entries, replaced)
        return [*entries[:place], *missing, *entries[place:]] if missing else entries

    return _replace(path, choose, replaced.turn + 1)


def _find_missing(late: Sequence[Entry], record: Sequence[Entry], replaced: _Replaced) -> list[Entry]:
    """Return the late entries that are not in the record.

    Entries that were copied may be missing after a loss of power, or if the rotation was killed while it
    copied them. The others were not copied, so all of them are missing.
    """
    lines = Counter(encoded(entry.to_json()) for entry in record[replaced.new_entries :])
    missing = []
    for entry in late[: replaced.copied]:
        line = encoded(entry.to_json())
        if lines[line]:
            lines[line] -= 1
        else:
            missing.append(entry)
    return [*missing, *late[replaced.copied :]]


def _writers_have_left(path: Path, seconds: float) -> bool:
    """Wait until no process has the file open for writing; return False if one still has after `seconds`."""
    descriptor = open_regular(path, _READ)
    until = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(_PAUSE_SECONDS)
            else:
                return True
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, _READ)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

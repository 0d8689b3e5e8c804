"""Write the array layout: one closed JSON array, extended in place of its closing bracket.

docs/record-layouts.md, "The array layout", has the rules, which the shell writer follows too. Nothing is
repaired here: an entry that cannot be added to the array is parked after it, and the exit helper merges it.

This module imports only a few parts of the standard library, because every recorded service loads it.
"""

from __future__ import annotations

import fcntl
import os
from time import monotonic, sleep

from service_record.record import is_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_BLANK: Final = b" \t\r\n"
_CLOSING: Final = b"\n]"  # if the disk is full before these bytes are written, readers still find the entry
_BLOCK_BYTES: Final = 1024
_SPARE_BYTES: Final = 1024
_SECTOR_BYTES: Final = 512  # a disk writes at least this much whole or not at all
_TAIL_BYTES: Final = 8 << 10
_FIRST_PAUSE_SECONDS: Final = 0.00005
_LONGEST_PAUSE_SECONDS: Final = 0.002


class ArrayError(Exception):
    """The array could not be extended: no lock in time, no closed array, or a line after it."""


def append(descriptor: int, line: bytes, *, lock_seconds: float, written: list[int] | None = None) -> None:
    """Write an entry, as one line of JSON, over the closing bracket of the array open as `descriptor`.

    The descriptor must be open for reading and writing, and not for appending. Waits at most `lock_seconds`
    seconds for the lock. The number of bytes is appended to `written` as soon as they are in the file.

    Raises ArrayError before any entry is changed: no lock, no closed array, or a line was parked after the
    array meanwhile. Raises OSError also if only part of the entry was written.
    """
    written = [] if written is None else written
    try:
        if not is_locked(descriptor, lock_seconds):
            raise ArrayError("another writer kept the lock")
        size = os.fstat(descriptor).st_size
        end, is_first = _find_closed_end(descriptor, size)
        text = (b"[" if end == 0 else b"" if is_first else b",") + b"\n" + line + _CLOSING
        room = _make_room(descriptor, size, end + len(text) + 1)
        content = text + _make_blanks(end + len(text), room)
        # Do not split this into two statements. `map` and `list.extend` run in C, so a signal handler of the
        # service cannot raise an exception between the write and the note about it.
        written.extend(map(os.pwrite, (descriptor,), (content,), (end,)))
        if written[-1] < len(text) - len(_CLOSING):
            raise OSError("only part of an entry could be written")
    finally:
        _unlock(descriptor)


def merge_parked(descriptor: int, parked: list[bytes], *, lock_seconds: float) -> None:
    """Move entries that this process has parked after the array into it, with one write.

    `parked` has these entries in their order. It may also have entries that are not in the file, or no longer
    there. A signal handler may park more entries meanwhile. Entries that are merged, or that were not in the
    file, are removed from the list.

    The file is not changed if another writer's entry or a torn line is there too. Raises ArrayError if that
    line is before an entry of this process.
    """
    try:
        if not is_locked(descriptor, lock_seconds):
            raise ArrayError("another writer kept the lock")
        # The order of these statements matters, because a signal handler may park an entry between them. Each
        # entry in `done` is before `size` or not in the file. Each entry before `size` is in `lines`.
        done = set(range(len(parked)))
        size = os.fstat(descriptor).st_size
        lines = parked.copy()
        start = max(0, size - _TAIL_BYTES - sum(map(len, lines)) - 2 * len(lines))
        tail = os.pread(descriptor, size - start, start)
        found: list[int] = []
        # Search backwards from the end of the file. The order in `parked` can differ, because signal handlers
        # interrupt each other.
        while True:
            rest = tail.rstrip(_BLANK)
            last = rest[rest.rfind(b"\n") + 1 :]
            index = next((i for i, line in enumerate(lines) if line == last and i not in found), None)
            if index is None:
                break
            tail = rest.removesuffix(last)
            found.insert(0, index)
        if found:
            end, is_first = _find_closed_end(descriptor, start + len(tail))
            text = b",\n".join(lines[index] for index in found)
            text = (b"" if is_first else b",") + b"\n" + text + _CLOSING
            content = text + _make_blanks(end + len(text), max(size, end + len(text) + 1))
            if os.pwrite(descriptor, content, end) < len(text) - len(_CLOSING):
                raise OSError("only part of the parked entries could be written")
        for index in sorted(done.union(found), reverse=True):
            del parked[index]
    finally:
        _unlock(descriptor)


def is_locked(descriptor: int, seconds: float) -> bool:
    """Take the lock of a file, flock(2); return False if another process keeps it for `seconds` seconds.

    The lock is polled: a thread cannot limit the time that it waits in the kernel.
    """
    deadline = monotonic() + seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if is_foreign(error):
                raise
            if monotonic() >= deadline:
                return False
        else:
            return True
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _unlock(descriptor: int) -> None:
    """Release the lock.

    Closing the file is not enough: a child that another thread forked meanwhile shares the lock. An error is
    ignored, because the entry has been written, and closing usually releases the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError as error:
        if is_foreign(error):
            raise


def _find_closed_end(descriptor: int, size: int) -> tuple[int, bool]:
    """Return where the last entry ends, and True if the array is empty.

    Raises ArrayError unless the file is empty or has an empty array, or ends with an object and a closing
    bracket on a line of its own. A bracket directly after a brace may be part of a torn text.
    """
    start = max(0, size - _TAIL_BYTES)
    text = os.pread(descriptor, size - start, start).rstrip(_BLANK)
    opened = text.removesuffix(b"]")
    before = opened.rstrip(_BLANK)
    if start == 0 and (not text or (before == b"[" and opened != text)):
        return len(before), True
    if text.endswith(b"]") and before.endswith(b"}") and opened.endswith(b"\n"):
        return start + len(before), False
    raise ArrayError("the file does not end as a closed array")


def _make_room(descriptor: int, size: int, needed: int) -> int:
    """Make room for `needed` bytes and return the size of the file. Raises ArrayError if it grew by more.

    The room, with some to spare, is filled with blanks before it is used. So a full disk cannot tear an
    entry, and if the file grows between two reads, the second one returns only blanks.
    """
    if needed + _SPARE_BYTES <= size:
        return size
    whole_blocks = -(-(needed + _SPARE_BYTES) // _BLOCK_BYTES) * _BLOCK_BYTES
    blanks = _make_blanks(size, whole_blocks)
    if os.pwritev(descriptor, [blanks], 0, os.RWF_APPEND) != len(blanks):
        raise OSError("only part of the room for an entry could be made")
    if os.fstat(descriptor).st_size != whole_blocks:
        raise ArrayError("a line was parked behind the array")
    return whole_blocks


def _make_blanks(begin: int, end: int) -> bytes:
    """Return white space for a part of the file, with a newline at its end and at the end of each sector.

    After a power loss, a blank sector may be between the halves of two entries. The newline prevents readers
    from reading them as one entry, because no JSON string contains a newline.
    """
    blanks = bytearray(b" " * (end - begin))
    blanks[-begin - 1 & _SECTOR_BYTES - 1 :: _SECTOR_BYTES] = b"\n" * (
        end // _SECTOR_BYTES - begin // _SECTOR_BYTES
    )
    blanks[-1:] = b"\n"
    return bytes(blanks)

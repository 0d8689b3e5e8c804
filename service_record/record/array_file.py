"""Write the array layout: one closed JSON array, extended in place of its closing bracket.

docs/record-layouts.md, "The array layout", has the rules, which the shell writer follows too. Nothing is
repaired here: an entry that cannot go into the array is parked behind it, and the exit helper merges it.

Only the standard library is imported, and little of that: every recorded service loads this module.
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
_CLOSING: Final = b"\n]"  # if a full disk takes all but this and the blanks, readers still find the entry
_BLOCK_BYTES: Final = 1024
_SPARE_BYTES: Final = 1024
_SECTOR_BYTES: Final = 512  # a disk writes at least this much whole or not at all
_TAIL_BYTES: Final = 8 << 10
_FIRST_PAUSE_SECONDS: Final = 0.00005
_LONGEST_PAUSE_SECONDS: Final = 0.002


class ArrayError(Exception):
    """The array could not be extended: no lock in time, no closed array, or a line behind it."""


def append(descriptor: int, line: bytes, *, lock_seconds: float, written: list[int] | None = None) -> None:
    """Write an entry, as one line of JSON, over the closing bracket of the array open as `descriptor`.

    The descriptor must be open for reading and writing, and not for appending. Wait at most `lock_seconds`
    seconds for the lock. The number of bytes goes into `written` in the moment that they are in the file.

    Raises ArrayError before any entry is touched: no lock, no closed array, or a line was parked behind it
    meanwhile. Raises OSError also if only part of the entry was written.
    """
    written = [] if written is None else written
    try:
        if not is_locked(descriptor, lock_seconds):
            raise ArrayError("another writer kept the lock")
        size = os.fstat(descriptor).st_size
        end, is_first = _closed_end(descriptor, size)
        text = (b"[" if end == 0 else b"" if is_first else b",") + b"\n" + line + _CLOSING
        room = _room(descriptor, size, end + len(text) + 1)
        content = text + _blanks(end + len(text), room)
        # In one step: `map` and `list.extend` are in C, where no signal handler of the service can raise.
        written.extend(map(os.pwrite, (descriptor,), (content,), (end,)))
        if written[-1] < len(text) - len(_CLOSING):
            raise OSError("only part of an entry could be written")
    finally:
        _unlock(descriptor)


def merge_parked(descriptor: int, parked: list[bytes], *, lock_seconds: float) -> None:
    """Move entries that this process has parked behind the array into it, with one write.

    `parked` has these entries in their order; it may also have entries that are not there (any more). A
    signal handler may park further ones meanwhile. The entries that are done are removed from the list.

    Raises ArrayError, and changes nothing, if anything else is at the end of the file: another writer's
    entries, or a torn line.
    """
    try:
        if not is_locked(descriptor, lock_seconds):
            raise ArrayError("another writer kept the lock")
        # In this order: what is parked now is before `size`, or not in the file; what is before `size` is
        # among `lines`.
        done = set(range(len(parked)))
        size = os.fstat(descriptor).st_size
        lines = parked.copy()
        start = max(0, size - _TAIL_BYTES - sum(map(len, lines)) - 2 * len(lines))
        tail = os.pread(descriptor, size - start, start)
        found: list[int] = []
        while True:  # in the order of the file: handlers interrupt each other, too
            rest = tail.rstrip(_BLANK)
            last = rest[rest.rfind(b"\n") + 1 :]
            index = next((i for i, line in enumerate(lines) if line == last and i not in found), None)
            if index is None:
                break
            tail = rest.removesuffix(last)
            found.insert(0, index)
        if found:
            end, is_first = _closed_end(descriptor, start + len(tail))
            text = b",\n".join(lines[index] for index in found)
            text = (b"" if is_first else b",") + b"\n" + text + _CLOSING
            content = text + _blanks(end + len(text), max(size, end + len(text) + 1))
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

    Closing alone is not enough: a child that another thread forked meanwhile shares the lock. If this fails,
    the entry stays written, and closing has to do.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError as error:
        if is_foreign(error):
            raise


def _closed_end(descriptor: int, size: int) -> tuple[int, bool]:
    """Return where the last entry ends, and True if the array is empty.

    Only white space may stand around the closing bracket. The bracket must be on a line of its own: one right
    behind a brace may be part of a torn text. Otherwise raises ArrayError.
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


def _room(descriptor: int, size: int, needed: int) -> int:
    """Make room for `needed` bytes and return the size of the file. Raises ArrayError if it grew by more.

    The room, and some to spare, is made before it is used: so a full disk tears no entry, and a reader that
    finds the file longer between two reads has only blanks to add.
    """
    if needed + _SPARE_BYTES <= size:
        return size
    whole_blocks = -(-(needed + _SPARE_BYTES) // _BLOCK_BYTES) * _BLOCK_BYTES
    blanks = _blanks(size, whole_blocks)
    if os.pwritev(descriptor, [blanks], 0, os.RWF_APPEND) != len(blanks):
        raise OSError("only part of the room for an entry could be made")
    if os.fstat(descriptor).st_size != whole_blocks:
        raise ArrayError("a line was parked behind the array")
    return whole_blocks


def _blanks(begin: int, end: int) -> bytes:
    """Return white space for a part of the file, with a newline at its end and at the end of each sector.

    After a loss of power such a sector may stand between the halves of two entries. The newline keeps these
    from being read as one entry: no text contains a newline.
    """
    blanks = bytearray(b" " * (end - begin))
    blanks[-begin - 1 & _SECTOR_BYTES - 1 :: _SECTOR_BYTES] = b"\n" * (
        end // _SECTOR_BYTES - begin // _SECTOR_BYTES
    )
    blanks[-1:] = b"\n"
    return bytes(blanks)

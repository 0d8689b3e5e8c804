"""The array layout, for writing: one closed JSON array, extended in place of its closing bracket.

The rules, which a shell writer follows too, are in docs/record-format.md, "The array layout". Nothing is
repaired here: an entry that cannot go into the array is parked behind it, and the exit helper merges it. It
needs the standard library only, and is loaded by a service whose record has this layout.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Final

_BLANK: Final = b" \t\r\n"
_CLOSING: Final = b"\n]"
"""The end of an array. If a disk takes all but that, and blanks, the entry is there: a reader takes it."""
_BLOCK_BYTES: Final = 1024
_SPARE_BYTES: Final = 1024
_SECTOR_BYTES: Final = 512
"""The least size that a disk writes whole or not at all."""
_TAIL_BYTES: Final = 8 << 10
_PAUSE_SECONDS: Final = (0.00005, 0.002)


class ArrayError(Exception):
    """The array could not be extended: no lock in time, no closed array, or a line behind it."""


def append(descriptor: int, line: bytes, *, lock_seconds: float) -> None:
    """Write an entry, as one line of JSON, over the closing bracket of the array open as `descriptor`.

    The descriptor must be open for reading and writing, and not for appending. The lock is waited for
    `lock_seconds` seconds. Raises ArrayError before any entry is touched: no lock, no closed array, or a line
    was parked behind it meanwhile. Raises OSError also where only part of the entry was written.
    """
    with _locked(descriptor, lock_seconds):
        size = os.fstat(descriptor).st_size
        end, is_first = _closed_end(descriptor, size)
        text = (b"[" if end == 0 else b"" if is_first else b",") + b"\n" + line + _CLOSING
        room = _room(descriptor, size, end + len(text) + 1)
        content = text + _blanks(end + len(text), room)
        if os.pwrite(descriptor, content, end) < len(text) - len(_CLOSING):
            raise OSError("only part of an entry could be written")


def is_locked(descriptor: int, seconds: float) -> bool:
    """Take the lock of a file, flock(2); return False where another keeps it for so many seconds.

    It is polled: a thread cannot bound how long it waits in the kernel.
    """
    deadline = monotonic() + seconds
    pause, longest = _PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                return False
        else:
            return True
        sleep(pause)
        pause = min(2 * pause, longest)


@contextmanager
def _locked(descriptor: int, lock_seconds: float) -> Iterator[None]:
    """Hold the file's lock."""
    if not is_locked(descriptor, lock_seconds):
        raise ArrayError("another writer kept the lock")
    try:
        yield
    finally:
        # A child forked by another thread meanwhile shares the lock until it is released, not only closed.
        # What was written stays written: where this fails, closing has to do.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _closed_end(descriptor: int, size: int) -> tuple[int, bool]:
    """Return where the last entry ends, and whether there is none before it.

    Only white space stands around the bracket behind it.

    The bracket stands on a line of its own: one right behind a brace may be part of a torn text. Raises
    ArrayError where it is otherwise.
    """
    start = max(0, size - _TAIL_BYTES)
    text = os.pread(descriptor, _TAIL_BYTES, start).rstrip(_BLANK)
    opened = text.removesuffix(b"]")
    before = opened.rstrip(_BLANK)
    if start == 0 and (not text or (before == b"[" and opened != text)):
        return len(before), True
    if text.endswith(b"]") and before.endswith(b"}") and opened.endswith(b"\n"):
        return start + len(before), False
    raise ArrayError("the file does not end as a closed array")


def _room(descriptor: int, size: int, needed: int) -> int:
    """Return the size of the file once it has room for what is needed. Raises ArrayError where it grew more.

    The room is there before it is used, and some to spare: a full disk then tears nothing, and a reader that
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
    """White space for that stretch of the file, with a newline at the end of it and of each sector.

    Where a loss of power leaves such a sector between the halves of two entries, they make no third: there is
    no newline within a text.
    """
    blanks = bytearray(b" " * (end - begin))
    blanks[-begin - 1 & _SECTOR_BYTES - 1 :: _SECTOR_BYTES] = b"\n" * (
        end // _SECTOR_BYTES - begin // _SECTOR_BYTES
    )
    blanks[-1:] = b"\n"
    return bytes(blanks)

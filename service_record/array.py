"""The array layout, for writing: one closed JSON array, extended in place of its closing bracket.

The rules, which a shell writer follows too, are in docs/record-format.md, "The array layout". It needs the
standard library only, and is loaded by a service whose record has this layout.
"""

import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from time import monotonic, sleep
from typing import Final

_KEEP: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
)
_BLANK: Final = b" \t\r\n"
_CLOSING: Final = b"\n]"
"""Where a disk takes all but that, and blanks, the entry is there: a reader takes it, and the next closes."""
_BLOCK_BYTES: Final = 1024
_SPARE_BYTES: Final = 1024
_SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all, at the least."""
_TAIL_BYTES: Final = 8 << 10
_FAR_TAIL_BYTES: Final = 1 << 20
_TAIL_LINES: Final = 8192
"""How far back, with `_FAR_TAIL_BYTES`, the end of the array is looked for: a service waits for it."""
_LOOKS: Final = 3
_PAUSE_SECONDS: Final = (0.00005, 0.002)
_OPENED: Final = re.compile(rb"\[[][ \t\r]*(\n|$)")
_BEGINNING: Final = b'{"timestamp":'


class ArrayError(Exception):
    """The array could not be extended: no lock in time, no end found, or others were always faster."""


@dataclass(frozen=True, slots=True)
class _End:
    """Where the last entry of an array ends, and what stands behind it that is no bracket."""

    offset: int
    is_first: bool
    """Whether no entry stands before it."""
    entries: tuple[bytes, ...] = ()
    is_damaged: bool = False


def append(descriptor: int, line: bytes, *, copy: str, patience: float) -> None:
    """Write an entry, as one line of JSON, over the closing bracket of the array open as `descriptor`.

    The descriptor must be open for reading and writing, and not for appending. Bytes that are no entries and
    stand where the array should end are kept in the file `copy` first. The lock is waited for `patience`
    seconds. Raises ArrayError before any entry is touched; OSError also where only part of one was written,
    which the next append mends.
    """
    with _locked(descriptor, patience):
        for _ in range(_LOOKS):
            size = os.fstat(descriptor).st_size
            end = _look(descriptor, size)
            if end.is_damaged:
                _keep(descriptor, end.offset, size, copy)
            text = _text(end, line)
            room = _room(descriptor, size, end.offset + len(text) + 1)
            if room is None:
                continue
            content = text + _blanks(end.offset + len(text), room)
            if os.pwrite(descriptor, content, end.offset) < len(text) - len(_CLOSING):
                raise OSError("only part of an entry could be written")
            return
    raise ArrayError("the file grew at each look")


@contextmanager
def _locked(descriptor: int, patience: float) -> Iterator[None]:
    """Hold the file's lock, flock(2). It is polled: a thread cannot bound how long it waits in the kernel."""
    deadline = monotonic() + patience
    pause, longest = _PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if monotonic() >= deadline:
                raise ArrayError("another writer kept the lock") from None
        sleep(pause)
        pause = min(2 * pause, longest)
    try:
        yield
    finally:
        # A child forked by another thread meanwhile shares the lock until it is released, not only closed.
        # What was written stays written: where this fails, closing has to do.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _look(descriptor: int, size: int) -> _End:
    """Where the array ends, in the last bytes of the file or, where those do not tell, in more of them."""
    tail = _tail(descriptor, size, _TAIL_BYTES)
    end = _closed_end(tail, size - len(tail))
    if end is None:
        tail = _tail(descriptor, size, _FAR_TAIL_BYTES)
        end = _mended_end(tail, size - len(tail))
    if end is None:
        raise ArrayError("no end of an entry was found")
    return end


def _tail(descriptor: int, size: int, length: int) -> bytes:
    start = max(0, size - length)
    return os.pread(descriptor, size - start, start)


def _closed_end(tail: bytes, start: int) -> _End | None:
    """The end of an array with nothing but white space around its bracket; None where it is otherwise.

    The bracket stands on a line of its own: one right behind a brace may be part of a torn text.
    """
    text = tail.rstrip(_BLANK)
    opened = text.removesuffix(b"]")
    before = opened.rstrip(_BLANK)
    if not text and start == 0:
        return _End(0, is_first=True)
    if start == 0 and before == b"[":
        return _End(len(before), is_first=True)
    if text.endswith(b"]") and before.endswith(b"}") and opened.endswith(b"\n"):
        return _End(start + len(before), is_first=False)
    return None


def _mended_end(tail: bytes, start: int) -> _End | None:
    """The last place that is surely whole, and the entries behind it; None where there is no such place.

    NULs, which a loss of power leaves in the place of white space and of texts, are damage, and take no entry
    with them that stands before or behind them.
    """
    found, tail = tail, tail.replace(b"\0", b" ")
    place = _whole_place(tail)
    is_first = place == 0
    if is_first and (start or not _OPENED.match(tail)):
        return None
    place = place or len(b"[")
    pieces = [_piece(line) for line in found[place:].split(b"\n")]
    pieces = [piece for piece in pieces if piece not in (b"", b"[", b"]")]
    entries = tuple(filter(_is_entry, pieces))
    is_damaged = len(entries) < len(pieces) or b"\0" in found[place:]
    return _End(start + place, is_first, entries, is_damaged)


def _piece(line: bytes) -> bytes:
    """What may be an entry: up to NULs, behind which what is left of another may stand."""
    return line.strip(_BLANK + b"\0").partition(b"\0")[0].strip(_BLANK).strip(b",")


def _whole_place(tail: bytes) -> int:
    """The offset behind the last brace that surely ends an entry of the array; 0 if there is none."""
    begin = len(tail) + 1
    is_closed_here = False
    for line in islice(reversed(tail.split(b"\n")), _TAIL_LINES):
        begin -= len(line) + 1
        text = line.rstrip(_BLANK)
        brace = text.removesuffix(b",").removesuffix(b"]").removesuffix(b",").rstrip(_BLANK)
        if text and brace.endswith(b"}") and (is_closed_here or _ends_entry(text, brace)):
            return begin + len(brace)
        if text:
            is_closed_here = text == b"]"
    return 0


def _ends_entry(text: bytes, brace: bytes) -> bool:
    """Whether a line ends an entry of the array, which one that was parked behind the array does not."""
    if brace == b"  }":  # as jq indents it
        return True
    latest = brace[max(0, brace.rfind(_BEGINNING)) :].removeprefix(b"[")
    return text != brace and _is_json(b"[" + latest + b"]")


def _is_entry(piece: bytes) -> bool:
    return piece.startswith(_BEGINNING) and _is_json(piece)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text(end: _End, line: bytes) -> bytes:
    opening = b"[" if end.offset == 0 else b"" if end.is_first else b","
    return opening + b"\n" + b",\n".join([*end.entries, line]) + _CLOSING


def _room(descriptor: int, size: int, needed: int) -> int | None:
    """The size of the file once it has room for what is needed; None when it grew by other lines, too.

    The room is there before it is used, and some to spare: a full disk then tears nothing, and a reader that
    finds the file longer between two reads has only blanks to add.
    """
    if needed + _SPARE_BYTES <= size:
        return size
    wanted = -(-(needed + _SPARE_BYTES) // _BLOCK_BYTES) * _BLOCK_BYTES
    blanks = _blanks(size, wanted)
    if os.pwritev(descriptor, [blanks], 0, os.RWF_APPEND) != len(blanks):
        raise OSError("only part of the room for an entry could be made")
    return wanted if os.fstat(descriptor).st_size == wanted else None


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


def _keep(descriptor: int, offset: int, size: int, copy: str) -> None:
    damaged = os.open(copy, _KEEP, 0o644)
    try:
        if not stat.S_ISREG(os.fstat(damaged).st_mode):
            raise OSError(f"{copy}: not a regular file")
        content = os.pread(descriptor, size - offset, offset)
        if os.write(damaged, content) != len(content):
            raise OSError(f"{copy}: only part of what is damaged could be kept")
    finally:
        os.close(damaged)

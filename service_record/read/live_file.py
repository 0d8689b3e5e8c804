"""Find the new pieces of a record each time its file is read while services write it. Pure.

A piece that was already shown is recognized by its bytes at their offset or, if it was moved, by its content.
So an entry is shown only once, even if a writer moves a line into an array or rewrites the whole file.
docs/follow.md describes this for users.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import structs
from msgspec.structs import replace

from service_record.read.located_pieces import LocatedPiece, located_pieces_in
from service_record.record.entry import BYTE_ORDER_MARK, Entry, Piece

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Returns the bytes of a file at an offset, for a given size; fewer only at the end of the file."""

_HEAD_BYTES: Final = 4096
_CHUNK_BYTES: Final = 1 << 20
_ALL_BYTES: Final = 1 << 62
_RETRY_SECONDS: Final = 0.01
_MAX_MARKS: Final = 20_000  # a writer moves at most the entries in the last 1 MiB of an array


class _Mark(msgspec.Struct, frozen=True):
    """A piece that was already shown."""

    key: int
    line: int = 1
    start: int = 0
    length: int = 0
    """The length of its bytes; 0 if it has no line of its own, or was moved."""
    digest: int = 0


class _FollowedTail(msgspec.Struct, frozen=True):
    """The end of a file, after the last mark whose piece is unchanged and at the same offset."""

    data: bytes
    offset: int
    line: int
    expected: Sequence[_Mark]
    """The marks of the pieces that were shown after that mark."""
    is_end: bool
    """True if `data` reaches the end of the file."""


class Following:
    """Remembers which pieces of a record were shown, even if its file is replaced."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._since: dict[tuple[int, int], float] = {}
        """Line and key of each piece that may be unfinished -> the time at which it was first seen."""
        self._is_trimmed = False
        """True if old marks were dropped."""
        self.due: float | None = None
        """The time, by the reader's clock, of the next `look` even if the file is unchanged; None if none."""

    def copy(self) -> "Following":
        """Return a copy for the file that replaces the current one."""
        other = Following()
        other._marks, other._is_trimmed = list(self._marks), self._is_trimmed
        return other

    def skip(self, read: ReadAt, offset: int) -> None:
        """Skip everything before an offset, and the first whole entry after it.

        Skips nothing if no entry with a line of its own follows.
        """
        data = read(offset, _CHUNK_BYTES)
        begun = data.find(b"\n") + 1
        line = 1 + sum(
            read(start, min(_CHUNK_BYTES, offset + begun - start)).count(b"\n")
            for start in range(0, offset + begun, _CHUNK_BYTES)
        )
        pieces = (
            located_pieces_in(data[begun:], offset + begun, line, is_array=False, is_end=False)
            if begun
            else []
        )
        self._marks = [_make_mark(located) for located in pieces if located.raw][:1]
        self._is_trimmed = bool(self._marks)

    def look(self, read: ReadAt, now: float, written: float, *, final: bool = False) -> Iterator[Piece]:
        """Yield the new pieces, in the order of the file.

        `now` is the time and `written` the time of the last write to the file, in seconds of the same clock.
        A piece that may be unfinished, and all pieces after it, wait for a later call unless `final` is True.
        """
        self.due = None
        is_array = read(0, _HEAD_BYTES).removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")
        size = _CHUNK_BYTES
        while True:
            tail = self._read_tail(read, size)
            if tail is None:  # a writer is rewriting the file
                self.due = now + _RETRY_SECONDS
                return
            pieces = located_pieces_in(
                tail.data, tail.offset, tail.line, is_array=is_array, is_end=tail.is_end
            )
            if not pieces and not tail.is_end:
                size *= 2
                continue
            yield from self._select_new(pieces, tail, now, written, final=final)
            if tail.is_end or self.due is not None:
                return
            size = _CHUNK_BYTES

    def _read_tail(self, read: ReadAt, size: int) -> _FollowedTail | None:
        """Read the part of the file that may have new pieces; None if the file changed between two reads."""
        unchanged = self._count_placed_marks(read)
        expected = self._marks[unchanged:]
        mark = self._marks[unchanged - 1] if unchanged else _Mark(0)
        length = _ALL_BYTES if expected else mark.length + size
        data = read(mark.start, length)
        if unchanged and hash(data[: mark.length]) != mark.digest:
            return None
        rest = data[mark.length :]
        return _FollowedTail(rest, mark.start + mark.length, mark.line, expected, len(data) < length)

    def _count_placed_marks(self, read: ReadAt) -> int:
        """Return the number of marks up to the last one whose piece is unchanged and at the same offset.

        Writers rewrite a file only from some offset to its end, so a binary search finds that mark.
        """

        def is_gone(index: int) -> bool:
            mark = self._marks[index]
            return hash(read(mark.start, mark.length)) != mark.digest

        last = next((index for index in reversed(range(len(self._marks))) if self._marks[index].length), None)
        if last is None or not is_gone(last):
            return 0 if last is None else last + 1
        placed = [index for index, mark in enumerate(self._marks) if mark.length]
        first = bisect_left(placed, True, key=is_gone)
        return placed[first - 1] + 1 if first else 0

    def _select_new(
        self, pieces: Sequence[LocatedPiece], tail: _FollowedTail, now: float, written: float, *, final: bool
    ) -> Sequence[Piece]:
        """Return the new pieces before the first one that may be unfinished, and mark them as shown."""
        unchanged = self._marks[: len(self._marks) - len(tail.expected)]
        met = _match_keys([_key(located.piece) for located in pieces], [mark.key for mark in tail.expected])
        if self._is_trimmed and not unchanged:
            older = next((place for place, index in enumerate(met) if index is not None), 0)
            pieces, met = pieces[older:], met[older:]
        unknown = [located for located, index in zip(pieces, met, strict=True) if index is None]
        new = unknown if final else self._drop_recent(unknown, now, written)
        waiting = unknown[len(new)] if len(new) < len(unknown) else None
        shown = next((place for place, one in enumerate(pieces) if one is waiting), len(pieces))
        self._marks = unchanged + _update_marks(pieces, met, tail.expected, shown)
        if len(self._marks) > 2 * _MAX_MARKS:
            self._marks = self._marks[-_MAX_MARKS:]
            self._is_trimmed = True
        return [located.piece for located in new]

    def _drop_recent(
        self, unknown: Sequence[LocatedPiece], now: float, written: float
    ) -> Sequence[LocatedPiece]:
        """Return the pieces before the first one that is too recent, and set `due` for that one."""
        since, self._since = self._since, {}
        for place in (_place(located) for located in unknown if located.wait_seconds > 0):
            self._since[place] = since.get(place, min(written, now))
        for count, located in enumerate(unknown):
            ready_at = self._since.get(_place(located), now) + located.wait_seconds
            if ready_at > now:
                self.due = ready_at
                return unknown[:count]
        return unknown


def _update_marks(
    pieces: Sequence[LocatedPiece], met: Sequence[int | None], expected: Sequence[_Mark], place: int
) -> list[_Mark]:
    """Return the marks of all shown pieces, including the pieces before index `place`, which are shown now.

    The mark of a shown piece loses its offset if the piece is missing now, or follows a piece that still
    waits: the next look must begin before it.
    """
    marks: list[_Mark] = []
    passed = 0
    for number, (located, index) in enumerate(zip(pieces, met, strict=True)):
        if index is not None:
            marks += _remove_places(expected[passed:index])
            passed = index + 1
        if number < place:
            marks.append(_make_mark(located))
        elif index is not None:
            marks += _remove_places([_make_mark(located)])
    return marks + _remove_places(expected[passed:])


def _remove_places(marks: Sequence[_Mark]) -> list[_Mark]:
    return [replace(mark, length=0) for mark in marks]


def _match_keys(keys: Sequence[int], expected: Sequence[int]) -> list[int | None]:
    """Return each key's index among the expected keys, in ascending order; None if it is not expected."""
    places: dict[int, deque[int]] = {}
    for index, key in enumerate(expected):
        places.setdefault(key, deque()).append(index)
    met: list[int | None] = []
    reached = 0
    for key in keys:
        indexes = places.get(key, deque())
        while indexes and indexes[0] < reached:
            indexes.popleft()
        met.append(indexes.popleft() if indexes else None)
        reached = reached if met[-1] is None else met[-1] + 1
    return met


def _make_mark(located: LocatedPiece) -> _Mark:
    raw = located.raw
    return _Mark(_key(located.piece), located.line, located.start, len(raw), hash(raw))


def _place(located: LocatedPiece) -> tuple[int, int]:
    return located.line, _key(located.piece)


def _key(piece: Piece) -> int:
    """Return a hash of a piece that does not depend on its offset."""
    if isinstance(piece, Entry):
        # Rotation may add `left_out` to an entry: the number of runs that were removed before it.
        return hash(repr(structs.replace(piece, left_out=None)))
    return hash((piece.text, piece.reason))

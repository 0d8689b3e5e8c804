"""A record that is being written: from one look at its bytes to the next, the pieces that are new. Pure.

What was shown before is known again by its bytes and their place, and where these have changed by what it
says. So a line that was parked behind an array is not new when it is taken into it, nor is an entry that
another program wrote again with all the rest of its file. docs/follow.md has what this means for people.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import structs
from msgspec.structs import replace

from service_record.follow.located_pieces import LocatedPiece, located_pieces_in
from service_record.record.entry import BYTE_ORDER_MARK, Entry, Piece

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""A function that returns so many bytes of a file from an offset on; fewer only at its end."""

_HEAD_BYTES: Final = 4096
_CHUNK_BYTES: Final = 1 << 20
_ALL_BYTES: Final = 1 << 62
_RETRY_SECONDS: Final = 0.01
_MAX_MARKS: Final = 20_000
"""More than a writer may move: the entries in the last 1 MiB of an array."""


class _Mark(msgspec.Struct, frozen=True):
    """A piece that was shown."""

    key: int
    line: int = 1
    start: int = 0
    length: int = 0
    """0 where it has no line of its own, or is not any more where it was."""
    digest: int = 0


class _FollowedTail(msgspec.Struct, frozen=True):
    """The content behind the last mark that is still in its place."""

    data: bytes
    offset: int
    line: int
    expected: Sequence[_Mark]
    """The marks behind that one."""
    is_end: bool


class Following:
    """The pieces of one record that were shown, whatever happened to its file since."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._since: dict[tuple[int, int], float] = {}
        """Line and key of what was seen but may be unfinished -> since when it stands there."""
        self._is_trimmed = False
        """True if there were more marks than are kept."""
        self.due: float | None = None
        """The time of the next look even without a change, on the clock of `look`; None when there is no
        need.
        """

    def copy(self) -> "Following":
        """Another that knows what this one has shown, for the file that comes in the place of this one's."""
        other = Following()
        other._marks, other._is_trimmed = list(self._marks), self._is_trimmed
        return other

    def skip(self, read: ReadAt, offset: int) -> None:
        """Take all up to that offset, and the first whole entry behind it, for shown.

        Nothing is skipped where none of the next bytes is an entry on a line of its own.
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
        self._marks = [_mark(located) for located in pieces if located.raw][:1]
        self._is_trimmed = bool(self._marks)

    def look(self, read: ReadAt, now: float, written: float, *, final: bool = False) -> Iterator[Piece]:
        """Yield the pieces that are new, in the order of the file.

        `now` is any clock, in seconds; `written` is when on that clock the file was last written. What may be
        unfinished waits for a later look, with all behind it, unless this is the final one.
        """
        self.due = None
        is_array = read(0, _HEAD_BYTES).removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")
        size = _CHUNK_BYTES
        while True:
            tail = self._tail(read, size)
            if tail is None:  # it is being rewritten just now
                self.due = now + _RETRY_SECONDS
                return
            pieces = located_pieces_in(
                tail.data, tail.offset, tail.line, is_array=is_array, is_end=tail.is_end
            )
            if not pieces and not tail.is_end:
                size *= 2
                continue
            yield from self._new(pieces, tail, now, written, final=final)
            if tail.is_end or self.due is not None:
                return
            size = _CHUNK_BYTES

    def _tail(self, read: ReadAt, size: int) -> _FollowedTail | None:
        """Return None when the file changed between two reads."""
        standing = self._standing(read)
        expected = self._marks[standing:]
        mark = self._marks[standing - 1] if standing else _Mark(0)
        length = _ALL_BYTES if expected else mark.length + size
        data = read(mark.start, length)
        if standing and hash(data[: mark.length]) != mark.digest:
            return None
        rest = data[mark.length :]
        return _FollowedTail(rest, mark.start + mark.length, mark.line, expected, len(data) < length)

    def _standing(self, read: ReadAt) -> int:
        """Return how many marks there are up to the last that is still in its place.

        A file is rewritten from some place on, so what is in its place stands before what is not.
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

    def _new(
        self, pieces: Sequence[LocatedPiece], tail: _FollowedTail, now: float, written: float, *, final: bool
    ) -> Sequence[Piece]:
        """Return the pieces not yet shown, up to the first that may be unfinished, and mark those shown."""
        unchanged = self._marks[: len(self._marks) - len(tail.expected)]
        met = _matched([_key(located.piece) for located in pieces], [mark.key for mark in tail.expected])
        if self._is_trimmed and not unchanged:
            older = next((place for place, index in enumerate(met) if index is not None), 0)
            pieces, met = pieces[older:], met[older:]
        unknown = [located for located, index in zip(pieces, met, strict=True) if index is None]
        new = unknown if final else self._ripe(unknown, now, written)
        waiting = unknown[len(new)] if len(new) < len(unknown) else None
        standing = next((place for place, one in enumerate(pieces) if one is waiting), len(pieces))
        self._marks = unchanged + _remarked(pieces, met, tail.expected, standing)
        if len(self._marks) > 2 * _MAX_MARKS:
            self._marks = self._marks[-_MAX_MARKS:]
            self._is_trimmed = True
        return [located.piece for located in new]

    def _ripe(self, unknown: Sequence[LocatedPiece], now: float, written: float) -> Sequence[LocatedPiece]:
        """Return those before the first that has not stood long enough, and note when to look at that one
        again.
        """
        since, self._since = self._since, {}
        for place in (_place(located) for located in unknown if located.wait_seconds > 0):
            self._since[place] = since.get(place, min(written, now))
        for count, located in enumerate(unknown):
            ripe = self._since.get(_place(located), now) + located.wait_seconds
            if ripe > now:
                self.due = ripe
                return unknown[:count]
        return unknown


def _remarked(
    pieces: Sequence[LocatedPiece], met: Sequence[int | None], expected: Sequence[_Mark], place: int
) -> list[_Mark]:
    """Return the marks of what was shown before, and of what is shown now: all that is found before `place`.

    What was shown, but stands behind what is held or is not there just now, is kept in mind without its
    place: the next look is to begin before it.
    """
    marks: list[_Mark] = []
    passed = 0
    for number, (located, index) in enumerate(zip(pieces, met, strict=True)):
        if index is not None:
            marks += _without_places(expected[passed:index])
            passed = index + 1
        if number < place:
            marks.append(_mark(located))
        elif index is not None:
            marks += _without_places([_mark(located)])
    return marks + _without_places(expected[passed:])


def _without_places(marks: Sequence[_Mark]) -> list[_Mark]:
    return [replace(mark, length=0) for mark in marks]


def _matched(keys: Sequence[int], expected: Sequence[int]) -> list[int | None]:
    """Return for each key the index at which it was expected, in the order of both; None for one that was
    not.
    """
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


def _mark(located: LocatedPiece) -> _Mark:
    raw = located.raw
    return _Mark(_key(located.piece), located.line, located.start, len(raw), hash(raw))


def _place(located: LocatedPiece) -> tuple[int, int]:
    return located.line, _key(located.piece)


def _key(piece: Piece) -> int:
    """Return what tells a piece from another, wherever it stands."""
    if isinstance(piece, Entry):
        # Whatever was left out before it since: it is the same entry.
        return hash(repr(structs.replace(piece, left_out=None)))
    return hash((piece.text, piece.reason))

"""Writing bundles: one pass, in bounded memory and on bounded disk, however much there is to pack."""

import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

import msgspec

from service_record.bundle.archive import (
    BLOCK_BYTES,
    DISK_BYTES,
    MIN_BLOCK_BYTES,
    MIN_BYTES,
    Archive,
    Cut,
    MemberLimits,
    MemberRedactor,
    MemberWriter,
    Opening,
)
from service_record.bundle.names import named

SERVER_BYTES: Final = 262_144_000
"""The largest file that assisted-service takes."""

_FILE_MODE: Final = 0o640
_SPARE_BYTES: Final = 1 << 12
"""Room for more than a header takes, and for what compression adds to a block that it cannot make smaller."""
_ROOM_SHARE: Final = 4
"""A member leaves those behind it three quarters of the room, so that there is some for the twentieth."""
_MAX_RESERVE: Final = 1 << 20
_RESERVE_SHARE: Final = 8
_PARTS: Final = 64
"""A block is at most that part of the whole."""
_SLICE: Final = 1 << 16


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of packing a member."""

    path: str
    """The path in the archive, below its top directory."""
    bytes: int | None
    """The size in the archive; None when the member is not there, for want of room."""
    dropped_bytes: int = 0
    """The number of bytes missing at its beginning, after redaction."""
    cut: Cut | None = None
    """The reason why bytes are missing; None when all are there."""


class BundleWriter:
    """A new gzipped tar archive with one directory at its top, `top`; its members are given one by one.

    It is a file of mode 0600. In a `with` statement it is whole at the end, and gone after an exception.
    It never takes more disk than `disk_bytes`, nor more than a quarter of what is free on that file system.
    What does not fit is left out: of each member the oldest bytes, of later ones more.

    `redact` makes what masks secrets, anew for each member; None for a bundle as it is. `mtime`, in seconds
    since 1970, is the time of members that have none of their own. The same members make the same bytes, if
    none is cut for the bundle's sake. Raises FileExistsError when there is a file already, and OSError where
    the disk fails.
    """

    def __init__(
        self,
        path: Path,
        *,
        top: str,
        mtime: float,
        disk_bytes: int = DISK_BYTES,
        redact: Callable[[], MemberRedactor] | None = None,
        shares: bool = True,
    ) -> None:
        """`top` may be empty. `shares`: no member takes more than a quarter of the room."""
        self._path = path
        self._top = f"{_inside(top)}/" if top else ""
        self._mtime = mtime
        self.disk_bytes = min(max(disk_bytes, MIN_BYTES), SERVER_BYTES)
        """The limit of the bundle on disk, however much is free."""
        self._redact = redact
        self.shares = shares
        """True while a member leaves room to those behind it; to be switched off before the last."""
        self._names: set[str] = set()
        self._copies: Counter[str] = Counter()
        """Path and how many members it was given for."""
        self._is_open = False
        self.members: list[Packed] = []
        """The result of each member, in order."""
        self.masked: Counter[str] = Counter()
        """Kind of secret and how many were masked in all members."""
        self._archive = Archive(path, self.disk_bytes)
        whole = self._archive.limit
        self._reserve = min(_MAX_RESERVE, whole // _RESERVE_SHARE)
        """Bytes of it that only essential members may have."""
        self._block_bytes = min(max(whole // _PARTS, MIN_BLOCK_BYTES), BLOCK_BYTES)

    @contextmanager
    def member(
        self,
        path: str,
        *,
        limit: int | None = None,
        mtime: float | None = None,
        opening: Opening | None = None,
        essential: bool = False,
        whole: bool = False,
        keep_empty: bool = False,
        as_is: bool = False,
    ) -> Iterator[MemberWriter]:
        """Begin a file that keeps at most its last `limit` bytes, and put it in place at the end.

        `path` is relative to the top directory; a second member of the same path gets another name. An
        essential one may take what is reserved, and all of the room; records are essential. Where the
        beginning is missing `opening` makes what stands there, by default a line that says so. JSON without
        an opening of its own, and what is to be `whole`, is left out then. So is a file to which nothing was
        written, unless `keep_empty`. What was written before an exception is kept. What is `as_is` is not
        redacted. Raises ValueError for a path that leads out of the top directory, RuntimeError while
        another member is open.
        """
        if self._is_open:
            raise RuntimeError("another member of the bundle is open")
        if limit is not None and limit < 1:
            raise ValueError(f"a limit of {limit} bytes")
        name = self._named(_inside(path))
        essential = essential or named(path) is not None
        if whole:
            opening = None
        elif opening is None and not path.endswith(".json"):
            opening = cut_notice
        redactor = self._redact() if self._redact and not as_is else None
        header = tarfile.TarInfo(self._top + name)
        header.mtime, header.mode = max(int(self._mtime if mtime is None else mtime), 0), _FILE_MODE
        room = self._room(essential=essential)
        limits = MemberLimits(content=limit, room=room, block_bytes=self._block_bytes)
        member = MemberWriter(self._archive, header, opening, redactor, limits)
        self._is_open = True
        try:
            yield member
        finally:
            self._is_open = False
            if member.written_bytes or keep_empty:
                size = member.finish()
                self.members.append(
                    Packed(path=name, bytes=size, dropped_bytes=member.cut, cut=member.reason)
                )
            if redactor:
                self.masked.update(redactor.counts)

    def add(self, path: str, data: bytes, *, as_is: bool = False) -> None:
        """Add a whole small file, which may use the reserve; without room even there, nothing of it is
        written.
        """
        with self.member(path, essential=True, whole=True, keep_empty=True, as_is=as_is) as member:
            for start in range(0, len(data), _SLICE):
                member.write(data[start : start + _SLICE])

    def finish(self) -> None:
        """Write the end of the archive, and close it."""
        self._archive.finish()
        self._archive.close()

    def abort(self) -> None:
        """Remove it."""
        self._archive.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.finish()
        except BaseException:
            self.abort()
            raise

    def _room(self, *, essential: bool) -> int:
        """Return the room for a member, in compressed bytes."""
        room = self._archive.limit - self._archive.size - _SPARE_BYTES - self._reserve
        if essential:
            return max(room, min(room, 0) + self._reserve, 0)
        return max(room // (_ROOM_SHARE if self.shares else 1), 0)

    def _named(self, path: str) -> str:
        """Return the path without secrets, different from those of the members before."""
        if self._redact:
            redactor = self._redact()
            masked = redactor.feed(os.fsencode(path)) + redactor.finish()
            self.masked.update(redactor.counts)
            path = os.fsdecode(masked)
        parts, name = PurePosixPath(path), path
        while name in self._names:
            self._copies[path] += 1
            number = self._copies[path]
            name = str(parts.with_name(f"{parts.stem}_{number if number > 1 else ''}{parts.suffix}"))
        self._names.add(name)
        return name


def cut_notice(dropped: int) -> bytes:
    """Return the first line of a text whose beginning is missing."""
    return f"[service-record: {dropped} bytes before this line were cut; the manifest says why]\n".encode()


def _inside(path: str) -> str:
    """Return the path unchanged, if it is relative and leads nowhere else."""
    if not path or "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"not a path below the top of a bundle: {path!r}")
    return path

"""Write bundles in one pass, with limits on memory and disk. docs/project/bundle.md describes the format."""

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
from service_record.bundle.layers import is_packed
from service_record.bundle.names import named

SERVER_BYTES: Final = 262_144_000
"""The largest file that assisted-service takes."""

_FILE_MODE: Final = 0o640
_HEADER_ROOM_BYTES: Final = 1 << 12
"""Compressed bytes kept free for a header, and for the growth of blocks that cannot be compressed."""
_ROOM_SHARE: Final = 4
"""A member gets a quarter of the free room, so that even the twentieth member has some."""
_MAX_RESERVE: Final = 1 << 20
_RESERVE_SHARE: Final = 8
_BLOCKS_IN_BUNDLE: Final = 64
"""A block is at most 1/64 of the bundle."""
_WRITE_BYTES: Final = 1 << 16


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of packing a member."""

    path: str
    """The path in the archive, relative to its top directory."""
    bytes: int | None
    """The uncompressed size in the archive; None if the member was left out."""
    dropped_bytes: int = 0
    """The number of bytes dropped from its beginning, counted after redaction."""
    cut: Cut | None = None
    """Why bytes were dropped; None if the member is complete."""


class BundleWriter:
    """Writes a new gzipped tar archive with one top directory, member by member.

    The file has mode 0600. Use the writer in a `with` statement: the archive is complete at its end, and
    removed after an exception. It never takes more disk than `disk_bytes`, nor more than a quarter of the
    free space of its file system. If members do not fit, their oldest bytes are dropped; later members have
    less room.

    `redact` returns a new redactor for each member; None writes members unredacted. `mtime`, in seconds since
    1970, is the time of members without one. The same members give the same bytes, unless a member is cut
    because of the bundle's limit. Raises FileExistsError if the file exists, and OSError if the disk fails.
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
        """Create the file. An empty `top` means no top directory.

        `shares`: a member that is not essential gets at most a quarter of the free room.
        """
        self._path = path
        self._top = f"{_check_path(top)}/" if top else ""
        self._mtime = mtime
        self.disk_bytes = min(max(disk_bytes, MIN_BYTES), SERVER_BYTES)
        """The limit of the bundle on disk, before the free space is taken into account."""
        self._redact = redact
        self.shares = shares
        """True while members leave room for later ones; set it to False before the last member."""
        self._names: set[str] = set()
        self._copies: Counter[str] = Counter()
        """Path and number of further members with that path."""
        self._is_open = False
        self.members: list[Packed] = []
        """The result of each member, in order."""
        self.masked: Counter[str] = Counter()
        """Kind of secret and number of masked ones, in all members."""
        self.leak: tuple[str, str, int] | None = None
        """Kind, member and line of the first secret that was left after masking. The line of a name is 0."""
        self.has_archives = False
        """True if a member is an archive or compressed: nothing in it could be masked."""
        self._archive = Archive(path, self.disk_bytes)
        whole = self._archive.limit
        self._reserve = min(_MAX_RESERVE, whole // _RESERVE_SHARE)
        """Compressed bytes that only essential members may use."""
        self._block_bytes = min(max(whole // _BLOCKS_IN_BUNDLE, MIN_BLOCK_BYTES), BLOCK_BYTES)

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
        """Yield a writer for a new member, and add the member at the end of the `with` block.

        Args:
            path: Relative to the top directory. A second member of the same path gets another name.
            limit: Only the last `limit` bytes of content are kept.
            mtime: Seconds since 1970, instead of the bundle's `mtime`.
            opening: Returns the text that replaces a dropped beginning, by default one line. A `.json` file
                without an `opening` is left out if its beginning was dropped.
            essential: The member may use all of the room, and the reserve. Records are always essential.
            whole: Leave the member out instead of dropping its beginning.
            keep_empty: Add the member even if nothing was written.
            as_is: Do not redact.

        After an exception in the `with` block, the content until then is added. Raises ValueError for a path
        that leads out of the top directory, and RuntimeError if another member is open.
        """
        if self._is_open:
            raise RuntimeError("another member of the bundle is open")
        if limit is not None and limit < 1:
            raise ValueError(f"a limit of {limit} bytes")
        name = self._unique_name(_check_path(path))
        essential = essential or named(path) is not None
        if whole:
            opening = None
        elif opening is None and not path.endswith(".json"):
            opening = cut_notice
        redactor = self._redact() if self._redact and not as_is else None
        header = tarfile.TarInfo(self._top + name)
        header.mtime, header.mode = max(int(self._mtime if mtime is None else mtime), 0), _FILE_MODE
        room = self._free_room(essential=essential)
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
                self.has_archives |= is_packed(member.head)
            if redactor:
                self.masked.update(redactor.counts)
                if redactor.leak and self.leak is None:
                    kind, line = redactor.leak
                    self.leak = kind, self._top + name, line

    def add(self, path: str, data: bytes, *, as_is: bool = False) -> None:
        """Add a small file. It may use the reserve, and is left out if it does not fit completely."""
        with self.member(path, essential=True, whole=True, keep_empty=True, as_is=as_is) as member:
            for start in range(0, len(data), _WRITE_BYTES):
                member.write(data[start : start + _WRITE_BYTES])

    def finish(self) -> None:
        """Write the end of the archive, and close the file."""
        self._archive.finish()
        self._archive.close()

    def abort(self) -> None:
        """Close and remove the file."""
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

    def _free_room(self, *, essential: bool) -> int:
        """Return the number of compressed bytes that a new member may use."""
        room = self._archive.limit - self._archive.size - _HEADER_ROOM_BYTES - self._reserve
        if essential:
            return max(room, min(room, 0) + self._reserve, 0)
        return max(room // (_ROOM_SHARE if self.shares else 1), 0)

    def _unique_name(self, path: str) -> str:
        """Return the path with secrets masked, and with a suffix if an earlier member has the same path."""
        if self._redact:
            redactor = self._redact()
            masked = redactor.feed(os.fsencode(path)) + redactor.finish()
            self.masked.update(redactor.counts)
            if redactor.leak and self.leak is None:
                self.leak = f"{redactor.leak[0]}, in the name of a member", "", 0
            path = os.fsdecode(masked)
        parts, name = PurePosixPath(path), path
        while name in self._names:
            self._copies[path] += 1
            number = self._copies[path]
            name = str(parts.with_name(f"{parts.stem}_{number if number > 1 else ''}{parts.suffix}"))
        self._names.add(name)
        return name


def cut_notice(dropped: int) -> bytes:
    """Return the line that replaces the dropped beginning of a text."""
    return f"[service-record: {dropped} bytes before this line were cut; the manifest says why]\n".encode()


def _check_path(path: str) -> str:
    """Return `path`. Raises ValueError if it is not a plain relative path below the top directory."""
    if not path or "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"not a path below the top of a bundle: {path!r}")
    return path

"""Follow the records in a directory while services write them.

inotify(7) wakes the reader when a file changes. The directory may be created later.
"""

import errno
import os
import select
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from heapq import merge
from math import ceil
from pathlib import Path
from time import monotonic, time
from typing import Final, Self

from inotify_simple import INotify, flags  # type: ignore[import-untyped]

from service_record.read.live_file import Following
from service_record.record.appending import record_name
from service_record.record.directory import Records, open_record
from service_record.record.entry import Entry, Piece

_CHANGES: Final = flags.CREATE | flags.MODIFY | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE
_ARRIVALS: Final = flags.CREATE | flags.MOVED_TO
_MAX_WAIT_SECONDS: Final = 1.0  # inotify misses changes on network file systems and behind symbolic links
_POLLING_SECONDS: Final = 0.05  # the wait if the kernel has no inotify instance or watch left


class Watch:
    """Waits for changes in a directory, or in its nearest existing parent."""

    def __init__(self, directory: Path, output: int) -> None:
        """Watch a directory. A wait also ends when the reader of the descriptor `output` has closed it."""
        self._directory = directory.absolute()
        self._output = output
        self._poll = select.poll()
        self._poll.register(output, 0)  # POLLERR and POLLHUP need no request
        self._watched: int | None = None
        self._watched_as: tuple[int, int, int] | None = None
        """Device and inode of the watched directory, and the mask of events."""
        self._inotify: INotify | None = None
        with suppress(OSError):  # no instance left: fs.inotify.max_user_instances
            self._inotify = INotify()
            self._poll.register(self._inotify.fileno(), select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._inotify is not None:
            self._inotify.close()

    def aim(self) -> None:
        """Watch the directory, or its nearest existing parent. Changes from now on end a wait.

        Raises OSError if the directory or its parent cannot be watched.
        """
        while self._inotify is not None:
            place, is_directory = self._find_nearest()
            try:
                status = place.stat()
                aim = status.st_dev, status.st_ino, _CHANGES if is_directory else _ARRIVALS
                if aim == self._watched_as:
                    return
                self._add(self._inotify, place, aim[2])
            except (FileNotFoundError, NotADirectoryError):
                continue  # it was removed in the meantime
            self._watched_as = aim  # check again: the directory may have been created in the meantime

    def wait(self, due: float | None) -> None:
        """Sleep until a change, or until `due` on the monotonic clock, but for at most one second.

        Raises BrokenPipeError if the reader of the output has closed it.
        """
        longest = _MAX_WAIT_SECONDS if self._inotify is not None else _POLLING_SECONDS
        seconds = longest if due is None else min(longest, max(0.0, due - monotonic()))
        for descriptor, _ in self._poll.poll(ceil(seconds * 1000)):
            if descriptor == self._output:
                raise BrokenPipeError
        events = self._inotify.read(timeout=0) if self._inotify is not None else ()
        if any(event.mask & flags.IGNORED and event.wd == self._watched for event in events):
            self._watched_as = None

    def _find_nearest(self) -> tuple[Path, bool]:
        """Return the directory or its nearest existing parent, and True if it is the directory itself."""
        for place in (self._directory, *self._directory.parents):
            if place.is_dir():
                break
        return place, place == self._directory

    def _add(self, inotify: INotify, place: Path, mask: int) -> None:
        before = self._watched
        try:
            self._watched = inotify.add_watch(place, mask | flags.ONLYDIR)
        except OSError as error:
            if error.errno == errno.ENOSPC:  # no watch left: fs.inotify.max_user_watches
                self._stop_watching(inotify)
                return
            raise OSError(error.errno, error.strerror, os.fspath(place)) from None
        if before not in {None, self._watched}:
            with suppress(OSError):  # the watch ended when its directory was removed
                inotify.rm_watch(before)

    def _stop_watching(self, inotify: INotify) -> None:
        self._poll.unregister(inotify.fileno())
        inotify.close()
        self._inotify = None


_RETIREMENT_SECONDS: Final = 3.0
"""How long a replaced file is still read: a writer may have opened it before and still wait for its lock."""
_MAX_FORMER: Final = 8
_OLD_SECONDS: Final = 1.0
"""A file that was modified more recently is always read: two writes can have the same modification time."""
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class LiveRecords:
    """Reads the new pieces of all records in a directory, which may be created later."""

    def __init__(
        self, records: Records, services: Iterable[str] = (), *, history_bytes: int | None = None
    ) -> None:
        """Follow the services with these names (or names of units); without names, all services.

        The first look also yields the existing content of the records, or only its last `history_bytes`.
        """
        self._history_bytes = history_bytes
        self._records = records
        names = frozenset(services)
        self._services = names | frozenset(map(record_name, names))
        self._tails: dict[str, _RecordTail] = {}

    def look(self) -> Iterator[tuple[str, Piece]]:
        """Yield (service, piece) for each new piece, by time. Pieces of one service stay in file order.

        Raises OSError if a record or the directory cannot be read.
        """
        for service in self.services():
            if service not in self._tails:
                path = self._records.directory / f"{service}.json"
                self._tails[service] = _RecordTail(path, self._history_bytes)
        self._history_bytes = None
        now = monotonic()
        news = (_add_times(service, tail.look(now)) for service, tail in self._tails.items())
        for _, service, piece in merge(*news, key=lambda item: item[0]):
            yield service, piece

    def services(self) -> list[str]:
        """Return the followed services that have a record."""
        try:
            there = self._records.services()
        except FileNotFoundError:  # the directory was removed in the meantime
            return []
        return [service for service in there if service in self._services or not self._services]

    @property
    def due(self) -> float | None:
        """Return when to look again even if nothing changes, on the monotonic clock; None if never."""
        return min((tail.due for tail in self._tails.values() if tail.due is not None), default=None)


def _add_times(service: str, pieces: Iterable[Piece]) -> Iterator[tuple[datetime, str, Piece]]:
    """Yield each piece with the latest time so far, so that a piece without a time keeps its position."""
    latest = _BEGINNING
    for piece in pieces:
        if isinstance(piece, Entry) and piece.time is not None:
            latest = max(latest, piece.time)
        yield latest, service, piece


class _OpenFile:
    """An open record file. It may have been replaced by another file at its path."""

    def __init__(self, descriptor: int, following: Following) -> None:
        self.descriptor = descriptor
        self.following = following
        self.until: float | None = None
        """The time of the last read of a replaced file; None while the file is not replaced."""
        self._read_as: tuple[int, int] | None = None

    def skip_to_last(self, size: int) -> None:
        """Skip all but the last `size` bytes."""
        offset = os.fstat(self.descriptor).st_size - size
        if offset > 0:
            self.following.skip(lambda start, length: os.pread(self.descriptor, length, start), offset)

    def news(self, now: float) -> Iterator[Piece]:
        status = os.fstat(self.descriptor)
        age = max(0.0, time() - status.st_mtime)
        read_as = status.st_size, status.st_mtime_ns
        final = self.until is not None and now >= self.until
        if read_as == self._read_as and self.following.due is None and not final:
            return
        self._read_as = read_as if age > _OLD_SECONDS else None

        def read(start: int, length: int) -> bytes:
            return os.pread(self.descriptor, min(length, max(0, status.st_size - start)), start)

        yield from self.following.look(read, now, now - age, final=final)

    @property
    def due(self) -> float | None:
        return min((at for at in (self.following.due, self.until) if at is not None), default=None)


class _RecordTail:
    """Reads one record, also while its file is being replaced."""

    def __init__(self, path: Path, history_bytes: int | None) -> None:
        self._path = path
        self._history_bytes = history_bytes
        self._current: _OpenFile | None = None
        self._former: list[_OpenFile] = []
        self._following = Following()

    def look(self, now: float) -> Iterator[Piece]:
        """Yield the new pieces: first the rest of a replaced file, then the file in its place."""
        if self._current is not None and self._is_replaced(self._current):
            self._current.until = now + _RETIREMENT_SECONDS
            self._former.append(self._current)
            self._current = None
        for former in self._former:
            yield from former.news(now)
        if any(former.following.due is not None for former in self._former):
            return
        if self._current is None:
            self._open()
        recent = self._current.news(now) if self._current is not None else iter(())
        if self._former:
            # A writer may have written to a former file that it still had open, and then to the current one.
            # So the current file was read first, and the former files are read once more, but yielded first.
            recent = iter(list(recent))
            for former in self._former:
                yield from former.news(now)
            self._close_former(now)
        yield from recent

    def _open(self) -> None:
        if self._former:
            self._following = self._following.copy()
        with suppress(FileNotFoundError):
            self._current = _OpenFile(open_record(self._path), self._following)
            if self._history_bytes is not None:
                self._current.skip_to_last(self._history_bytes)
            self._history_bytes = None

    @property
    def due(self) -> float | None:
        files = [*self._former, *([self._current] if self._current is not None else [])]
        return min((file.due for file in files if file.due is not None), default=None)

    def _is_replaced(self, file: _OpenFile) -> bool:
        """Return whether the path is now another file or does not exist."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(file.descriptor))
        except FileNotFoundError:
            return True

    def _close_former(self, now: float) -> None:
        retained = [file for file in self._former[-_MAX_FORMER:] if file.until is None or now < file.until]
        for file in self._former:
            if file not in retained:
                os.close(file.descriptor)
        self._former = retained

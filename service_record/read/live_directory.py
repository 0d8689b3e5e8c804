"""Follow the records of a directory while services write them.

inotify(7) wakes the reader when a file changes. The directory need not exist yet.
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
_COMINGS: Final = flags.CREATE | flags.MOVED_TO
_REST_SECONDS: Final = 1.0  # longest wait: inotify misses changes on network file systems and behind links
_POLLING_SECONDS: Final = 0.05  # the same if the kernel has no inotify instance or watch left


class Watch:
    """Waits for changes in a directory, or in its nearest existing parent."""

    def __init__(self, directory: Path, output: int) -> None:
        """Watch a directory. A wait also ends when nobody reads the descriptor `output` any more."""
        self._directory = directory.absolute()
        self._output = output
        self._poll = select.poll()
        self._poll.register(output, 0)  # POLLERR and POLLHUP need no request
        self._watched: int | None = None
        self._aimed_at: tuple[int, int, int] | None = None
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
        """Watch the directory, or its nearest existing parent. Later changes end a wait.

        Raises OSError if a parent may not be read.
        """
        while self._inotify is not None:
            place, is_all_there = self._nearest()
            try:
                status = place.stat()
                aim = status.st_dev, status.st_ino, _CHANGES if is_all_there else _COMINGS
                if aim == self._aimed_at:
                    return
                self._add(self._inotify, place, aim[2])
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone again
            self._aimed_at = aim  # and look again: the directory may have been made since

    def wait(self, due: float | None) -> None:
        """Sleep until a change, or until `due` on the monotonic clock, at most for a second.

        Raises BrokenPipeError if nobody reads the output any more.
        """
        longest = _REST_SECONDS if self._inotify is not None else _POLLING_SECONDS
        seconds = longest if due is None else min(longest, max(0.0, due - monotonic()))
        for descriptor, _ in self._poll.poll(ceil(seconds * 1000)):
            if descriptor == self._output:
                raise BrokenPipeError
        events = self._inotify.read(timeout=0) if self._inotify is not None else ()
        if any(event.mask & flags.IGNORED and event.wd == self._watched for event in events):
            self._aimed_at = None

    def _nearest(self) -> tuple[Path, bool]:
        """Return the nearest existing directory, and whether it is the one to watch."""
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
            with suppress(OSError):  # gone with its directory
                inotify.rm_watch(before)

    def _stop_watching(self, inotify: INotify) -> None:
        self._poll.unregister(inotify.fileno())
        inotify.close()
        self._inotify = None


_RETIREMENT_SECONDS: Final = 3.0
"""How long a replaced file is still read: a writer may have opened it before, and be waiting for its lock."""
_MAX_FORMER: Final = 8
_OLD_SECONDS: Final = 1.0
"""Below this age, a file with an unchanged time may still have been written: two writes can have one time."""
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class LiveRecords:
    """Reads the new pieces of all records in a directory, which need not exist yet."""

    def __init__(
        self, records: Records, services: Iterable[str] = (), *, history_bytes: int | None = None
    ) -> None:
        """Follow these services, by the names of services or of units; without names, all services.

        The first look also yields what the records have already: all of it, or the last `history_bytes`.
        """
        self._history_bytes = history_bytes
        self._records = records
        self._services = frozenset(services) | frozenset(map(record_name, services))
        self._tails: dict[str, _RecordTail] = {}

    def look(self) -> Iterator[tuple[str, Piece]]:
        """Yield service and piece for each new piece, by time; those of one service in the order of its file.

        Raises OSError if a record or the directory cannot be read.
        """
        for service in self.services():
            if service not in self._tails:
                path = self._records.directory / f"{service}.json"
                self._tails[service] = _RecordTail(path, self._history_bytes)
        self._history_bytes = None
        now = monotonic()
        news = (_timed(service, tail.look(now)) for service, tail in self._tails.items())
        for _, service, piece in merge(*news, key=lambda item: item[0]):
            yield service, piece

    def services(self) -> list[str]:
        """Return the followed services that have a record."""
        try:
            there = self._records.services()
        except FileNotFoundError:  # the directory was removed at this moment
            return []
        return [service for service in there if service in self._services or not self._services]

    @property
    def due(self) -> float | None:
        """Return when to look again even if nothing changes, on the monotonic clock; None if never."""
        return min((tail.due for tail in self._tails.values() if tail.due is not None), default=None)


def _timed(service: str, pieces: Iterable[Piece]) -> Iterator[tuple[datetime, str, Piece]]:
    """Yield each piece with the latest time so far, so that a piece without a time keeps its position."""
    latest = _BEGINNING
    for piece in pieces:
        if isinstance(piece, Entry) and piece.time is not None:
            latest = max(latest, piece.time)
        yield latest, service, piece


class _OpenFile:
    """An open file that is a record, or was one until it was replaced."""

    def __init__(self, descriptor: int, following: Following) -> None:
        self.descriptor = descriptor
        self.following = following
        self.until: float | None = None
        """When to read it for the last time; None while it is the record."""
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
            # A writer that had a former file open may have written there, and then to the current one.
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
        """Return whether the path is now another file, or none."""
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

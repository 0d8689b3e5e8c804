"""Sleeping until something changes in a directory, which need not exist yet: inotify(7)."""

import errno
import os
import select
from contextlib import suppress
from math import ceil
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Final, Self

from inotify_simple import INotify, flags  # type: ignore[import-untyped]

_CHANGES: Final = flags.CREATE | flags.MODIFY | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE
_COMINGS: Final = flags.CREATE | flags.MOVED_TO
_REST_SECONDS: Final = 1.0
"""Between two looks where nothing is told: of a network file system, or behind a symbolic link."""
_POLLING_SECONDS: Final = 0.05
"""The same where the kernel has no inotify instance or watch left to give."""


class Watch:
    """Wakes up when something changes in a directory, or on the way to one that does not exist yet."""

    def __init__(self, directory: Path, output: int) -> None:
        """`output` is a descriptor whose reader may leave, which also ends the wait."""
        self._directory = directory.absolute()
        self._output = output
        self._poll = select.poll()
        self._poll.register(output, 0)  # POLLERR and POLLHUP are told unasked
        self._watched: int | None = None
        self._aimed_at: tuple[int, int, int] | None = None
        self._inotify: INotify | None = None
        with suppress(OSError):  # no instance left: fs.inotify.max_user_instances
            self._inotify = INotify()
            self._poll.register(self._inotify.fileno(), select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            self._inotify.close()

    def aim(self) -> None:
        """Watch the directory, or what is there of the way to it. What changes from here on ends a wait.

        Raises OSError when a directory on the way may not be read.
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
            self._aimed_at = aim  # and look again: more of the way may be there since

    def wait(self, due: float | None) -> None:
        """Sleep until something changes, or until that time on the monotonic clock, but a second at most.

        Raises BrokenPipeError when nobody reads the output any more.
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
        """Return the last directory that exists on the way, and whether that is the one to watch."""
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

"""Waiting for a directory of records to come to something."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from service_record.records import is_record_name

_T = TypeVar("_T")

_PAUSE: Final = 0.25  # seconds between looks at the files, which cost next to nothing
_SELDOM: Final = 5.0
"""Seconds after which records are judged again although no file has changed: processes end without a word."""
_SHARE: Final = 4
"""Judging may take one part in so many of the time: a long record costs seconds."""


def wait_for(
    look: Callable[[], _T], is_over: Callable[[_T], bool], directory: Path, timeout: float | None
) -> _T:
    """What `look` sees once it is over, or when `timeout` seconds have passed; None waits for ever."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        state, begun = _state(directory), time.monotonic()
        seen = look()
        ended = time.monotonic()
        if is_over(seen) or (deadline is not None and ended >= deadline):
            return seen
        again = ended + max(_SELDOM, (ended - begun) * _SHARE)
        earliest = ended + (ended - begun) * (_SHARE - 1)
        while time.monotonic() < again and (time.monotonic() < earliest or _state(directory) == state):
            left = _PAUSE if deadline is None else min(_PAUSE, deadline - time.monotonic())
            if left <= 0:
                break
            time.sleep(left)


def _state(directory: Path) -> frozenset[tuple[str, int, int]]:
    """The names, sizes and times of the records there; none where there is no such directory."""
    try:
        records = [path for path in directory.iterdir() if is_record_name(path.name)]
        return frozenset((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in records)
    except OSError:  # not there yet, or a file that was just replaced
        return frozenset()

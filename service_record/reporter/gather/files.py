"""Files of a host, which may be links, pipes, huge, growing, or not ours to read."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from service_record.read.programs import Deadline
from service_record.record.appending import open_regular
from service_record.reporter.gather.model import GatherError, GatherStatus

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_CHUNK_BYTES: Final = 256 << 10
_MOST_LINKS: Final = 40  # as the kernel; see path_resolution(7)
_MOST_LOOKED_AT: Final = 10_000
"""The limit of matches of a pattern that are looked at, however many there are."""


def below(root: Path, path: str) -> Path:
    """Return where an absolute path of the host leads; its links are the host's too, and none leads outside.

    Raises GatherError when it leads on and on.
    """
    rest = _steps(path)
    place, links = root, 0
    while rest:
        step = rest.pop()
        if step == "..":
            place = place if place == root else place.parent
            continue
        target = _link(place / step)
        if target is None:
            place /= step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise GatherError(GatherStatus.FAILED, f"{path}: too many links, or links in a circle")
        place = root if target.startswith("/") else place
        rest += _steps(target)
    return place


def _steps(path: str) -> list[str]:
    """Return the steps of a path, the last one first."""
    return [step for step in reversed(path.split("/")) if step not in ("", ".")]


def real(path: Path) -> Path:
    """Return where a path leads; Path.resolve() raises for links in a circle, depending on the version."""
    return Path(os.path.realpath(path))


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115  # as it is written, two slashes at its beginning too
    except OSError:
        return None


def opened(path: Path) -> int:
    """Return a descriptor of a regular file, to be closed. Raises GatherError, absent where there is no file.

    A last step that is a link is not followed: what is meant to be is resolved before.
    """
    try:
        return open_regular(path, _READ)
    except FileNotFoundError:
        raise GatherError(GatherStatus.ABSENT, f"no file {path}") from None
    except OSError as error:
        why = "a link" if error.errno == errno.ELOOP else error.strerror or "not a regular file"
        raise GatherError(GatherStatus.FAILED, f"{path}: {why}") from error


def tail(descriptor: int, most: int) -> tuple[int, Iterator[bytes]]:
    """Return the last bytes of an open file, and how many before them are skipped.

    No more than `most` are read of a file that grows, nor of one of /proc, whose size is only known then.
    """
    size = os.fstat(descriptor).st_size
    skipped = max(size - most, 0)
    return skipped, _chunks(descriptor, skipped, most)


def _chunks(descriptor: int, offset: int, most: int) -> Iterator[bytes]:
    os.lseek(descriptor, offset, os.SEEK_SET)
    remaining = most
    while remaining > 0:
        chunk = os.read(descriptor, min(remaining, _CHUNK_BYTES))
        if not chunk:
            return
        remaining -= len(chunk)
        yield chunk


def matches(root: Path, patterns: tuple[str, ...], deadline: Deadline) -> list[Path]:
    """Return the files, newest first, that match absolute patterns of the host; no link, and none reached by
    one.

    What is in a pattern before its first wildcard is resolved as any path of the host.
    """
    times: dict[Path, float] = {}
    for pattern in patterns:
        fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
        base = real(below(root, fixed or "/"))
        for match in islice(base.glob(pattern[len(fixed) + 1 :]), _MOST_LOOKED_AT):
            if deadline.seconds_left() == 0:
                break
            with suppress(OSError):
                if real(match) == match:
                    times[match] = match.stat().st_mtime
    return sorted(times, key=lambda path: (-times[path], path))

"""Read files of a host safely: they may be links, pipes, huge, growing or unreadable."""

import errno
import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from service_record.record.appending import open_regular
from service_record.record.programs import Deadline
from service_record.reporter.gather.model import GatherError, GatherStatus

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_MAX_LINKS: Final = 40  # the limit of the kernel; see path_resolution(7)
_MAX_MATCHES: Final = 10_000
"""The limit of examined matches for one pattern."""


def resolve_in_root(root: Path, path: str) -> Path:
    """Return the real path, below `root`, of an absolute path of the host.

    Links are resolved as on the host itself, so none leads outside `root`. Raises GatherError after 40 links.
    """
    rest = _components(path)
    place, links = root, 0
    while rest:
        step = rest.pop()
        if step == "..":
            place = place if place == root else place.parent
            continue
        target = _read_link(place / step)
        if target is None:
            place /= step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise GatherError(GatherStatus.FAILED, f"{path}: too many links, or links in a circle")
        place = root if target.startswith("/") else place
        rest += _components(target)
    return place


def _components(path: str) -> list[str]:
    """Return the components of a path, the last one first."""
    return [step for step in reversed(path.split("/")) if step not in ("", ".")]


def real_path(path: Path) -> Path:
    """Return the real path. Path.resolve() raises for a loop of links in some versions of Python."""
    return Path(os.path.realpath(path))


def _read_link(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115  # Path.readlink() would normalise slashes
    except OSError:
        return None


def open_file(path: Path) -> int:
    """Return the descriptor of a regular file; the caller closes it.

    A link is not followed: resolve the path with `resolve_in_root` first. Raises GatherError: absent if the
    file is missing, failed if it is a link, not a regular file or unreadable.
    """
    try:
        return open_regular(path, _OPEN_FLAGS)
    except FileNotFoundError:
        raise GatherError(GatherStatus.ABSENT, f"no file {path}") from None
    except OSError as error:
        why = "a link" if error.errno == errno.ELOOP else error.strerror or "not a regular file"
        raise GatherError(GatherStatus.FAILED, f"{path}: {why}") from error


def find_files(root: Path, patterns: tuple[str, ...], deadline: Deadline) -> dict[Path, str]:
    """Return the files that match absolute patterns of the host, newest first.

    Each real path is mapped to the path on the host that begins like its pattern. They differ if there is a
    link before the first wildcard of the pattern: it is resolved. Matches that are links, or are below a
    link, are left out. Returns the matches found so far when the deadline expires.
    """
    times: dict[Path, float] = {}
    names: dict[Path, str] = {}
    for pattern in patterns:
        fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
        try:
            base = real_path(resolve_in_root(root, fixed or "/"))
        except GatherError:  # links in a circle lead to no file
            continue
        for match in islice(base.glob(pattern[len(fixed) + 1 :]), _MAX_MATCHES):
            if deadline.seconds_left() == 0:
                break
            with suppress(OSError):
                if real_path(match) == match:
                    times[match] = match.stat().st_mtime
                    names.setdefault(match, f"{fixed}/{match.relative_to(base)}")
    return {path: names[path] for path in sorted(times, key=lambda path: (-times[path], path))}

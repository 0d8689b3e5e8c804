"""Choice of builds to delete, by age and by size: of each host its first and its last failure stay, and its
latest build, as long as there is space. Pure.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

FAILURES: Final = frozenset({"failed", "looping", "stuck"})
"""Verdicts of a build that did not end well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBuild:
    """A build as it is stored."""

    host_id: int
    number: int
    updated_at: float
    """Seconds since 1970."""
    is_failure: bool
    is_latest: bool
    steps: int
    bundles: int
    size: int
    """Bytes that it takes, its bundles included: an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPlan:
    """The builds to delete."""

    builds: tuple[StoredBuild, ...] = ()
    """Oldest first; after them, largest first, those that only a lack of space deletes."""
    before: float | None = None
    """The age limit, as a time, of rows that have no build: events, and files of records that others have
    replaced.
    """

    @property
    def size(self) -> int:
        return sum(build.size for build in self.builds)


def plan(builds: Collection[StoredBuild], *, before: float | None, excess: int) -> ForgetPlan:
    """Plan to delete builds without a report since that time, and more, oldest first, until `excess` bytes
    are free.

    Where that is too little, what would stay is deleted too, largest first: a full disk refuses every host.
    """
    ordered = sorted(_forgettable(builds), key=lambda build: (build.updated_at, build.host_id, build.number))
    chosen: list[StoredBuild] = []
    freed = 0
    for build in ordered:
        if freed >= excess and (before is None or build.updated_at >= before):
            break
        chosen.append(build)
        freed += build.size
    oldest_first = len(chosen)
    staying = sorted(set(builds) - set(ordered), key=lambda build: (-build.size, build.host_id, build.number))
    for build in staying:
        if freed >= excess or not build.size:
            break
        chosen.append(build)
        freed += build.size
    limits = [before] if before is not None else []
    if oldest_first:
        limits.append(chosen[oldest_first - 1].updated_at)
    return ForgetPlan(builds=tuple(chosen), before=max(limits, default=None))


def _forgettable(builds: Iterable[StoredBuild]) -> Iterable[StoredBuild]:
    by_host = sorted(builds, key=lambda build: (build.host_id, build.number))
    for _, of_host in groupby(by_host, key=lambda build: build.host_id):
        stored = list(of_host)
        stays = _staying(stored)
        yield from (build for build in stored if build.number not in stays)


def _staying(builds: Sequence[StoredBuild]) -> set[int]:
    failures = [build.number for build in builds if build.is_failure]
    latest = {build.number for build in builds if build.is_latest}
    return latest | set(failures[:1]) | set(failures[-1:])

"""Choose the builds to delete by age and size.

The first and the last failure and the latest build of each host are kept as long as there is space.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

FAILURES: Final = frozenset({"failed", "looping", "stuck"})
"""Verdicts of failed builds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBuild:
    """A stored build."""

    host_id: int
    number: int
    updated_at: float
    """Seconds since 1970."""
    is_failure: bool
    is_latest: bool
    steps: int
    bundles: int
    size: int
    """Estimated size in bytes, including bundles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPlan:
    """The builds to delete."""

    builds: tuple[StoredBuild, ...] = ()
    """Oldest first; then, largest first, builds that are deleted only for lack of space."""
    before: float | None = None
    """Rows without a build from before this time are deleted: events, and replaced record files."""

    @property
    def size(self) -> int:
        return sum(build.size for build in self.builds)


def plan(builds: Collection[StoredBuild], *, before: float | None, excess: int) -> ForgetPlan:
    """Plan to delete builds without a report since a time, and more, oldest first, to free `excess` bytes.

    If that is not enough, builds that are normally kept are deleted too, largest first: with a full disk, all
    reports would be refused.
    """
    ordered = sorted(
        _deletable_builds(builds), key=lambda build: (build.updated_at, build.host_id, build.number)
    )
    chosen: list[StoredBuild] = []
    freed = 0
    for build in ordered:
        if freed >= excess and (before is None or build.updated_at >= before):
            break
        chosen.append(build)
        freed += build.size
    oldest_first = len(chosen)
    kept = sorted(set(builds) - set(ordered), key=lambda build: (-build.size, build.host_id, build.number))
    for build in kept:
        if freed >= excess or not build.size:
            break
        chosen.append(build)
        freed += build.size
    limits = [before] if before is not None else []
    if oldest_first:
        limits.append(chosen[oldest_first - 1].updated_at)
    return ForgetPlan(builds=tuple(chosen), before=max(limits, default=None))


def _deletable_builds(builds: Iterable[StoredBuild]) -> Iterable[StoredBuild]:
    """Yield all builds but the latest of each host, and its first and last failure."""
    by_host = sorted(builds, key=lambda build: (build.host_id, build.number))
    for _, of_host in groupby(by_host, key=lambda build: build.host_id):
        stored = list(of_host)
        failures = [build.number for build in stored if build.is_failure]
        kept = {*failures[:1], *failures[-1:], *(build.number for build in stored if build.is_latest)}
        yield from (build for build in stored if build.number not in kept)

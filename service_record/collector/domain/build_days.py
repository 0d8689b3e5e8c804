"""Sum up the results and durations of builds by day, for charts."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from service_record.collector.domain.statistics import percentile

DAY: Final = 86_400
"""Seconds of a day. Days begin at midnight UTC."""
DEFAULT_DAYS: Final = 30
MOST_DAYS: Final = 366
_MOST_SERIES: Final = 50


@dataclass(frozen=True, slots=True)
class EndedBuild:
    """A build that succeeded, failed, or is in trouble. Times are in seconds since 1970."""

    group: str
    release: str
    verdict: str
    started_at: float
    ended_at: float
    """The time of its end or, if it has not ended, of its last report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildDay:
    """The builds that ended on one day."""

    day: float
    """The beginning of the day, in seconds since 1970."""
    done: int
    failed: int
    unfinished: int
    """Builds that got stuck, went silent, looped or were abandoned."""
    p50: float | None
    """Median duration of the successful builds in seconds; None without a successful build."""
    p95: float | None
    """95th percentile of these durations."""

    @property
    def total(self) -> int:
        return self.done + self.failed + self.unfinished

    @property
    def success_rate(self) -> float | None:
        """Return the share of successful builds, from 0 to 1; None without builds."""
        return self.done / self.total if self.total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSeries:
    """The builds of all hosts, or of one group or release, on consecutive days."""

    group: str | None
    """The group, or None if the builds are not split by group."""
    release: str | None
    days: tuple[BuildDay, ...]
    """Every day, oldest first."""
    whole: BuildDay
    """The sum of all days. Its `day` is the first day."""


def build_series(
    builds: Iterable[EndedBuild], by: Collection[str], days: int, now: float
) -> tuple[BuildSeries, ...]:
    """Return the builds of the last `days` days, as one series or split by `group`, `release` or both.

    At most 50 series are returned, those with the most builds. The lowest success rate comes first.
    """
    last = int(now // DAY)
    first = last - days + 1
    found: dict[tuple[str | None, str | None], list[EndedBuild]] = {}
    if not by:
        found[None, None] = []
    for build in builds:
        if first <= build.ended_at // DAY <= last:
            key = (build.group if "group" in by else None, build.release if "release" in by else None)
            found.setdefault(key, []).append(build)
    largest = sorted(found.items(), key=lambda item: (-len(item[1]), item[0][0] or "", item[0][1] or ""))
    series = [_make_series(*key, some, first, last) for key, some in largest[:_MOST_SERIES]]
    return tuple(
        sorted(series, key=lambda one: (one.whole.success_rate or 0.0, one.group or "", one.release or ""))
    )


def _make_series(
    group: str | None, release: str | None, builds: Sequence[EndedBuild], first: int, last: int
) -> BuildSeries:
    by_day: dict[int, list[EndedBuild]] = {day: [] for day in range(first, last + 1)}
    for build in builds:
        by_day[int(build.ended_at // DAY)].append(build)
    days = tuple(_sum_up(day, some) for day, some in by_day.items())
    return BuildSeries(group=group, release=release, days=days, whole=_sum_up(first, builds))


def _sum_up(day: int, builds: Sequence[EndedBuild]) -> BuildDay:
    took = sorted(max(one.ended_at - one.started_at, 0.0) for one in builds if one.verdict == "done")
    failed = sum(one.verdict == "failed" for one in builds)
    return BuildDay(
        day=float(day * DAY),
        done=len(took),
        failed=failed,
        unfinished=len(builds) - len(took) - failed,
        p50=percentile(took, 50) if took else None,
        p95=percentile(took, 95) if took else None,
    )

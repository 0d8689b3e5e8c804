"""Read durations and results of earlier builds, for budgets and statistics.

Only the latest ones are read, so that queries do not become slower over the years.
"""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, func, select

from service_record.collector.domain.access import is_within
from service_record.collector.domain.build_days import EndedBuild
from service_record.collector.domain.silence import StepDuration
from service_record.collector.domain.statistics import Execution
from service_record.collector.domain.steps import StepStatus
from service_record.collector.store.schema import builds, durations, hosts

LATEST: Final = 1_000
"""Number of latest executions of a step from which its budget is learnt."""
LATEST_OF_ALL: Final = 50_000
"""Number of latest executions from which statistics are made."""
_FAILED: Final = StepStatus.FAILED.value
_GOOD: Final = (StepStatus.DONE.value, StepStatus.REPORTED.value)


def read_durations(connection: Connection, label: str) -> tuple[StepDuration, ...]:
    """Return the durations of successful executions of a step.

    Only the longest of each build is used, so that a loop does not dominate.
    """
    latest = (
        select(
            durations.c.host_id,
            durations.c.build,
            durations.c.seconds,
            durations.c.group,
            durations.c.release,
        )
        .where(durations.c.label == label, durations.c.status.in_(_GOOD), durations.c.seconds.is_not(None))
        .order_by(durations.c.ended_at.desc())
        .limit(LATEST)
    )
    longest: dict[tuple[int, int], StepDuration] = {}
    for host_id, build, seconds, group, release in connection.execute(latest):
        previous = longest.get((host_id, build))
        if previous is None or previous.seconds < seconds:
            longest[host_id, build] = StepDuration(seconds, group, release)
    return tuple(longest.values())


def read_executions(
    connection: Connection, groups: Iterable[str], releases: Iterable[str]
) -> list[Execution]:
    """Return the latest executions of all steps in these groups, their subgroups, and these releases.

    Without groups or releases, all are included.
    """
    wanted_groups, of_releases = tuple(groups), frozenset(releases)
    latest = (
        select(
            durations.c.label,
            durations.c.group,
            durations.c.release,
            durations.c.seconds,
            durations.c.status,
            durations.c.signature,
        )
        .order_by(durations.c.id.desc())
        .limit(LATEST_OF_ALL)
    )
    return [
        Execution(label, group, release, seconds, status == _FAILED, signature)
        for label, group, release, seconds, status, signature in connection.execute(latest).fetchall()
        if (not wanted_groups or any(is_within(group, one) for one in wanted_groups))
        and (not of_releases or release in of_releases)
    ]


LATEST_BUILDS: Final = 50_000
"""Number of latest builds that are read. The rows are found by their key, which limits the time of a page."""


def read_ended_builds(
    connection: Connection, groups: Iterable[str], releases: Iterable[str], since: float
) -> list[EndedBuild]:
    """Return the latest builds in these groups, their subgroups and these releases that ended after `since`.

    Without groups or releases, all are included. The group is the present one of the host.
    """
    wanted_groups, of_releases = tuple(groups), frozenset(releases)
    latest = (
        select(
            hosts.c.group,
            builds.c.release,
            builds.c.verdict,
            builds.c.started_at,
            func.coalesce(builds.c.ended_at, builds.c.updated_at).label("ended_at"),
        )
        .join(hosts, hosts.c.id == builds.c.host_id)
        .where(builds.c.verdict != "progressing", builds.c.updated_at >= since)
        .order_by(builds.c.id.desc())
        .limit(LATEST_BUILDS)
    )
    return [
        EndedBuild(*row)
        for row in connection.execute(latest).fetchall()
        if (not wanted_groups or any(is_within(row.group, one) for one in wanted_groups))
        and (not of_releases or row.release in of_releases)
    ]

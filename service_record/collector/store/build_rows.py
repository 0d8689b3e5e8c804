"""Read the builds that ended, for statistics."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, func, select

from service_record.collector.domain.access import is_within
from service_record.collector.domain.build_days import EndedBuild
from service_record.collector.store.schema import builds, hosts

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

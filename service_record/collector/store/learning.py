"""What is learnt of earlier builds, of the latest only: no answer grows with the age of a collector."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, select

from service_record.collector.access import is_within
from service_record.collector.budgets import Took
from service_record.collector.statistics import Execution
from service_record.collector.steps import Status
from service_record.collector.store.schema import durations

LATEST: Final = 1_000
"""Executions of a step that its budget is learnt from."""
LATEST_OF_ALL: Final = 50_000
"""Executions of any steps that statistics are made of."""
_FAILED: Final = Status.FAILED.value
_GOOD: Final = (Status.DONE.value, Status.REPORTED.value)


def took(connection: Connection, label: str) -> tuple[Took, ...]:
    """What a step took where it did not fail: the longest of each build, lest a loop outvote all."""
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
    longest: dict[tuple[int, int], Took] = {}
    for host_id, build, seconds, group, release in connection.execute(latest):
        known = longest.get((host_id, build))
        if known is None or known.seconds < seconds:
            longest[host_id, build] = Took(seconds, group, release)
    return tuple(longest.values())


def executions(connection: Connection, groups: Iterable[str], releases: Iterable[str]) -> list[Execution]:
    """The latest executions of all steps, of these groups and those below them, and of these releases; of all
    where none is named.
    """
    wanted, of_releases = tuple(groups), frozenset(releases)
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
        if (not wanted or any(is_within(group, one) for one in wanted))
        and (not of_releases or release in of_releases)
    ]

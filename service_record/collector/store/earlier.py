"""Reports that come late: of a build that another one has followed already."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Select, select

from service_record.collector.progress import Progress
from service_record.collector.steps import Step
from service_record.collector.store.schema import builds, steps

_LATE: Final = 3600.0
"""Seconds without a report of a build after which a word for what is done to a host is not late any more."""


def earlier_build(
    connection: Connection, host_id: int, builds_here: Sequence[Progress], step: Step, now: float
) -> int | None:
    """The earlier build that a step is of; None where it is of the present one, or begins a new one.

    `builds_here` are the present one, last, and those before it of which the tables do not have everything
    yet. A build is known by its name, whenever that comes. Actions come again on purpose: a report that names
    nothing else is late when the latest build of that action was heard of within the hour, and did not have
    it yet; one that it had is of a host that starts over.
    """
    present = builds_here[-1]
    if not present.seen and not present.key:
        return None  # an administrator has begun it, for whatever comes next
    if step.build:
        return _named(connection, host_id, builds_here, step.build)
    if not step.action or step.action == present.action or not present.seen:
        return None
    return _late(connection, host_id, builds_here, step, now)


def _named(connection: Connection, host_id: int, builds_here: Sequence[Progress], name: str) -> int | None:
    for build in builds_here[-2::-1]:
        if build.key == name:
            return build.number
    before = _latest(host_id, builds_here[0].number)
    return connection.execute(before.where(builds.c.key == name)).scalars().first()


def _late(
    connection: Connection, host_id: int, builds_here: Sequence[Progress], step: Step, now: float
) -> int | None:
    """The latest build of the action of a step, if that is late for it."""
    for build in builds_here[-2::-1]:
        if build.action == step.action:
            is_late = now - build.updated_at <= _LATE and f"{step.label}:{step.status}" not in build.seen
            return build.number if is_late else None
    before = _latest(host_id, builds_here[0].number)
    row = connection.execute(before.where(builds.c.action == step.action)).first()
    if row is None or now - row.updated_at > _LATE or _has(connection, host_id, row.number, step):
        return None
    return int(row.number)


def _latest(host_id: int, before: int) -> Select[Any]:
    of_host = (builds.c.host_id == host_id) & (builds.c.number < before)
    return (
        select(builds.c.number, builds.c.updated_at).where(of_host).order_by(builds.c.number.desc()).limit(1)
    )


def _has(connection: Connection, host_id: int, build: int, step: Step) -> bool:
    of_build = (steps.c.host_id == host_id) & (steps.c.build == build)
    alike = (steps.c.label == step.label) & (steps.c.status == step.status.value)
    return connection.execute(select(steps.c.id).where(of_build, alike).limit(1)).first() is not None

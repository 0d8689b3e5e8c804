"""The boots that a host's steps tell of."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from service_record.collector.store.schema import hosts, steps


@dataclass(frozen=True, slots=True)
class Boot:
    """A boot, by the steps that name it; times are the collector's, in seconds since 1970."""

    id: str
    begin: float
    end: float


def boots_of(connection: Connection, host: str, build: int, first_step: int) -> tuple[Boot, ...]:
    """The boots of a build in the order in which they were heard of first, from a step on."""
    begin, end = func.min(steps.c.received_at), func.max(steps.c.received_at)
    named = (
        select(steps.c.boot_id, begin, end)
        .join(hosts, hosts.c.id == steps.c.host_id)
        .where(hosts.c.name == host, steps.c.build == build, steps.c.id >= first_step, steps.c.boot_id != "")
        .group_by(steps.c.boot_id)
        .order_by(func.min(steps.c.id))
    )
    return tuple(Boot(*row) for row in connection.execute(named))

"""A host of which something arrived that is no step: found or made, and marked as heard of."""

from dataclasses import dataclass

from sqlalchemy import Column, ColumnElement, Connection, case, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service_record.collector.access import Forbidden, Grant
from service_record.collector.store.schema import hosts
from service_record.collector.store.tokens import select_bad


@dataclass(frozen=True, slots=True)
class Arrival:
    """Of which host, with whose token, and when."""

    host: str
    grant: Grant
    at: float


@dataclass(frozen=True, slots=True)
class Known:
    """A host as the database has it."""

    id: int
    name: str
    group: str
    build: int


def arrive(connection: Connection, arrival: Arrival) -> Known:
    """The host, made where it is new, and locked; it was heard of, and its verdict is due.

    Raises Forbidden where the token is not for it.
    """
    found = known(connection, arrival.host)
    if found is None:
        found = _made(connection, arrival)
    elif not arrival.grant.may_write(found.name, found.group):
        raise _forbidden(arrival)
    heard = {
        "last_seen": _later(hosts.c.last_seen, arrival.at),
        "updated_at": _later(hosts.c.updated_at, arrival.at),
        "due_at": 0.0,
    }
    connection.execute(
        update(hosts).where(hosts.c.id == found.id).values(**heard, revision=hosts.c.revision + 1)
    )
    return found


def _later(column: Column[float], at: float) -> ColumnElement[float]:
    """Return the later of a time and the one that is stored: the clock may have gone back since."""
    return case((column > at, column), else_=at)


def known(connection: Connection, name: str) -> Known | None:
    """The host of that name, locked against other processes; None where there is none."""
    row = connection.execute(
        select(hosts.c.id, hosts.c.name, hosts.c.group, hosts.c.build)
        .where(hosts.c.name == name)
        .with_for_update()
    ).one_or_none()
    return None if row is None else Known(row.id, row.name, row.group, row.build)


def group_of(connection: Connection, name: str) -> str | None:
    """The group of the host of that name; None where there is no such host."""
    found: str | None = connection.execute(
        select(hosts.c.group).where(hosts.c.name == name)
    ).scalar_one_or_none()
    return found


def _made(connection: Connection, arrival: Arrival) -> Known:
    group = arrival.grant.group_of_new_host("")
    is_bad = select_bad(connection, {arrival.grant.token_id}, arrival.at)
    if is_bad or not arrival.grant.may_write(arrival.host, group):
        raise _forbidden(arrival)
    row = {"name": arrival.host, "group": group, "first_seen": arrival.at, "last_seen": arrival.at}
    insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(hosts)
    connection.execute(insert.values(row).on_conflict_do_nothing(index_elements=["name"]))
    found = known(connection, arrival.host)
    assert found is not None  # noqa: S101  # made just now, here or by another process
    return found


def _forbidden(arrival: Arrival) -> Forbidden:
    return Forbidden(f"this token may not write for {arrival.host}")

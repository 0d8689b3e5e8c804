"""Mutes in the database."""

from sqlalchemy import Connection, delete, insert, select

from service_record.collector.domain.mutes import Mute, MuteKind, MuteScope
from service_record.collector.store.schema import mutes


def active_mutes(connection: Connection, now: float) -> tuple[Mute, ...]:
    """Return the mutes in force, the latest first."""
    query = select(mutes).where(mutes.c.until > now).order_by(mutes.c.id.desc())
    return tuple(
        Mute(**{**row, "kind": MuteKind(row["kind"]), "scope": MuteScope(row["scope"])})
        for row in connection.execute(query).mappings()
    )


def add_mute(connection: Connection, new: Mute) -> int:
    """Store a mute and return its id; the id in `new` is ignored. Deletes expired mutes."""
    connection.execute(delete(mutes).where(mutes.c.until <= new.made_at))
    names = ("kind", "scope", "subject", "until", "by", "note", "made_at")
    row = {name: getattr(new, name) for name in names}
    number: int = connection.execute(insert(mutes).values(row).returning(mutes.c.id)).scalar_one()
    return number


def end_mute(connection: Connection, number: int) -> tuple[str, str] | None:
    """End a mute. Return its scope and subject, or None if it does not exist."""
    row = connection.execute(
        delete(mutes).where(mutes.c.id == number).returning(mutes.c.scope, mutes.c.subject)
    ).one_or_none()
    return None if row is None else (row.scope, row.subject)

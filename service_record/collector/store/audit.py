"""Who administered what: written in the transaction of what was done: neither is without the other."""

from typing import Final

from sqlalchemy import Connection, Row, insert, select

from service_record.collector.store.schema import audit

_LONGEST: Final = 255


def note(connection: Connection, actor: str, action: str, subject: str, at: float) -> None:
    """Write down what somebody did; never with a secret in it."""
    connection.execute(insert(audit).values(at=at, actor=actor[:_LONGEST], action=action, subject=subject))


def listed(connection: Connection, limit: int, before: int | None = None) -> list[Row[tuple[object, ...]]]:
    """What was done, latest first; of those before an entry, where that is given."""
    wanted = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(audit.c.id < before)
    return list(connection.execute(wanted))

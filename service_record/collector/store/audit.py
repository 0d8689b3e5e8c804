"""Who administered what: written in the transaction of what was done: neither is without the other."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, insert, select

from service_record.collector.store.schema import audit

_LONGEST: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A line of the log. `at` is in seconds since 1970."""

    id: int
    at: float
    actor: str
    action: str
    subject: str


def note(connection: Connection, actor: str, action: str, subject: str, at: float) -> None:
    """Write down what somebody did; never with a secret in it."""
    connection.execute(insert(audit).values(at=at, actor=actor[:_LONGEST], action=action, subject=subject))


def listed(connection: Connection, limit: int, before: int | None = None) -> tuple[Noted, ...]:
    """What was done, latest first; of those before an entry, where that is given."""
    wanted = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(audit.c.id < before)
    return tuple(Noted(**row) for row in connection.execute(wanted).mappings())

"""News of verdicts for a webhook: claimed by one process at a time, never taken up again once delivered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, func, select, update

from service_record.collector.store.schema import hosts, notices

STALE: Final = 86_400.0
"""Seconds after which it is no news any more: whoever sets up a webhook is not told of last month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A host's verdict has become another. `at` is in seconds since 1970."""

    id: int
    host: str
    group: str
    build: int
    verdict: str
    before: str
    reason: str
    at: float
    tries: int
    """How often it has been sent, or was begun to be."""


def due(connection: Connection, now: float, most: int) -> Sequence[Notice]:
    """What is to be sent now, oldest first; of each host the oldest only, so that its news stay in order."""
    oldest = (
        select(func.min(notices.c.id))
        .where(notices.c.next_at.is_not(None), notices.c.at > now - STALE)
        .group_by(notices.c.host_id)
        .scalar_subquery()
    )
    wanted = (
        select(
            notices.c.id,
            hosts.c.name.label("host"),
            hosts.c.group,
            notices.c.build,
            notices.c.verdict,
            notices.c.before,
            notices.c.reason,
            notices.c.at,
            notices.c.tries,
        )
        .join(hosts, hosts.c.id == notices.c.host_id)
        .where(notices.c.id.in_(oldest), notices.c.next_at <= now)
        .order_by(notices.c.id)
        .limit(most)
    )
    return [Notice(**row) for row in connection.execute(wanted).mappings()]


def next_due(connection: Connection, now: float) -> float | None:
    """When something is to be sent; None where nothing waits."""
    wanted = select(func.min(notices.c.next_at)).where(notices.c.at > now - STALE)
    found: float | None = connection.execute(wanted).scalar_one()
    return found


def claim(connection: Connection, notice: Notice, until: float) -> bool:
    """Have this process be the one that sends it, until then; False where another one was faster."""
    mine = (notices.c.id == notice.id) & (notices.c.tries == notice.tries) & notices.c.next_at.is_not(None)
    changed = update(notices).where(mine).values(tries=notice.tries + 1, next_at=until)
    return connection.execute(changed).rowcount == 1


def delivered(connection: Connection, notice_id: int, now: float) -> None:
    """It has been taken: it is never sent again."""
    connection.execute(
        update(notices).where(notices.c.id == notice_id).values(delivered_at=now, next_at=None)
    )


def put_off(connection: Connection, notice_id: int, next_at: float | None) -> None:
    """It was not taken: to be sent again then, or never."""
    not_delivered = (notices.c.id == notice_id) & notices.c.delivered_at.is_(None)
    connection.execute(update(notices).where(not_delivered).values(next_at=next_at))


def forget(connection: Connection, before: float) -> int:
    """Delete those that are older than that, delivered or not; how many."""
    return connection.execute(delete(notices).where(notices.c.at < before)).rowcount

"""News of verdicts for a webhook: claimed by one process at a time, never taken up again once delivered.

News of one cause that wait at the same time are one digest, which stays the same however often it is sent.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, func, select, update

from service_record.collector.store.schema import hosts, notices
from service_record.diagnosis.failures import signature

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
    digest: int | None
    """The number of the first of the news with which it is told at once; None until it was claimed."""


def claim_due(
    connection: Connection, now: float, until: float, most: int, at_once: int
) -> Sequence[Sequence[Notice]]:
    """Have this process be the one that sends so many digests that are due, until then; oldest first.

    Of each host the oldest only, so that its news stay in order. What another process claims at the moment is
    passed over.
    """
    oldest = (
        select(func.min(notices.c.id))
        .where(notices.c.next_at.is_not(None), notices.c.at > now - STALE)
        .group_by(notices.c.host_id)
        .scalar_subquery()
    )
    columns = [
        notices.c[name] for name in ("id", "build", "verdict", "before", "reason", "at", "tries", "digest")
    ]
    query = (
        select(hosts.c.name.label("host"), hosts.c.group, *columns)
        .join(hosts, hosts.c.id == notices.c.host_id)
        .where(notices.c.id.in_(oldest), notices.c.next_at <= now)
        .order_by(notices.c.id)
        .limit(most)
        .with_for_update(of=notices, skip_locked=True)
    )
    digests: dict[Hashable, list[Notice]] = {}
    for row in connection.execute(query).mappings():
        notice = Notice(**row)
        cause = (notice.verdict, signature(notice.reason))
        digests.setdefault(cause if notice.digest is None else notice.digest, []).append(notice)
    claimed = list(digests.values())[:at_once]
    for together in claimed:
        first = together[0].digest or together[0].id
        values = {"tries": notices.c.tries + 1, "next_at": until, "digest": first}
        ids = [notice.id for notice in together]
        connection.execute(update(notices).where(notices.c.id.in_(ids)).values(values))
    return claimed


def next_due(connection: Connection, now: float) -> float | None:
    """Return when something is to be sent; None where nothing waits."""
    query = select(func.min(notices.c.next_at)).where(notices.c.at > now - STALE)
    earliest: float | None = connection.execute(query).scalar_one()
    return earliest


def delivered(connection: Connection, ids: Collection[int], now: float) -> None:
    """They have been taken: they are never sent again."""
    connection.execute(update(notices).where(notices.c.id.in_(ids)).values(delivered_at=now, next_at=None))


def put_off(connection: Connection, ids: Collection[int], next_at: float | None) -> None:
    """They were not taken: to be sent again then, or never."""
    not_delivered = notices.c.id.in_(ids) & notices.c.delivered_at.is_(None)
    connection.execute(update(notices).where(not_delivered).values(next_at=next_at))


def forget(connection: Connection, before: float) -> int:
    """Delete those that are older than that, delivered or not; how many."""
    return connection.execute(delete(notices).where(notices.c.at < before)).rowcount

"""News of verdicts in the database, and their deliveries: each destination has a row of its own for each.

A delivery is claimed by one process at a time, and never taken up again once it was taken. News of one cause
that wait at the same time for the same destination are one digest, which stays the same however often it is
sent.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Select, delete, func, select, update

from service_record.collector.domain.destinations import DestinationFilter, Notice
from service_record.collector.store.dialects import inserting
from service_record.collector.store.schema import deliveries, hosts, notices
from service_record.diagnosis.failures import signature

STALE_SECONDS: Final = 86_400.0
"""The age at which news are dropped: a new destination is not notified of last month."""
_AT_ONCE: Final = 1_000
"""News that are addressed in one transaction."""
_NOTICE: Final = ("id", "build", "verdict", "before", "reason", "reason_before", "at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """News sent to one destination at once: those of one verdict and cause."""

    notices: Sequence[Notice]
    """At least one, oldest first."""
    tries: int
    """The number of earlier tries, begun ones included."""

    @property
    def ids(self) -> Sequence[int]:
        """Return their numbers."""
        return [notice.id for notice in self.notices]


def address(connection: Connection, filters: Mapping[str, DestinationFilter], now: float) -> int:
    """Make a delivery of each new notice for each destination that wants it; return the number of new
    notices.

    News are addressed once, by one process. Others pass over what it holds at the moment.
    """
    query = (
        _with_hosts()
        .where(notices.c.is_addressed.is_(False), notices.c.at > now - STALE_SECONDS)
        .order_by(notices.c.id)
        .limit(_AT_ONCE)
        .with_for_update(of=notices, skip_locked=True)
    )
    new = [Notice(**row) for row in connection.execute(query).mappings()]
    if not new:
        return 0
    rows = [
        {"notice_id": notice.id, "destination": name, "next_at": now}
        for notice in new
        for name, one in filters.items()
        if one.admits(notice)
    ]
    if rows:
        connection.execute(inserting(connection, deliveries).on_conflict_do_nothing(), rows)
    connection.execute(
        update(notices).where(notices.c.id.in_([notice.id for notice in new])).values(is_addressed=True)
    )
    return len(new)


def claim_due(
    connection: Connection, destination: str, now: float, until: float, *, most: int, at_once: int
) -> Sequence[Delivery]:
    """Claim so many due deliveries for this process, until then; oldest first.

    Of each host the oldest only, so that its news stay in order. What another process claims at the moment is
    passed over.
    """
    ours = deliveries.c.destination == destination
    oldest = (
        select(func.min(deliveries.c.notice_id))
        .join(notices, notices.c.id == deliveries.c.notice_id)
        .where(ours, deliveries.c.next_at.is_not(None), notices.c.at > now - STALE_SECONDS)
        .group_by(notices.c.host_id)
        .scalar_subquery()
    )
    query = (
        _with_hosts()
        .add_columns(deliveries.c.tries, deliveries.c.digest)
        .join(deliveries, deliveries.c.notice_id == notices.c.id)
        .where(ours, deliveries.c.notice_id.in_(oldest), deliveries.c.next_at <= now)
        .order_by(notices.c.id)
        .limit(most)
        .with_for_update(of=deliveries, skip_locked=True)
    )
    digests: dict[Hashable, list[Notice]] = {}
    tries: dict[int, int] = {}
    for row in connection.execute(query).mappings():
        notice = Notice(**{name: row[name] for name in ("host", "group", *_NOTICE)})
        tries[notice.id] = row["tries"]
        cause = (notice.verdict, signature(notice.reason))
        digests.setdefault(cause if row["digest"] is None else row["digest"], []).append(notice)
    claimed = []
    for together in list(digests.values())[:at_once]:
        one = Delivery(notices=together, tries=tries[together[0].id])
        values = {"tries": one.tries + 1, "next_at": until, "digest": together[0].id}
        connection.execute(update(deliveries).where(ours, deliveries.c.notice_id.in_(one.ids)).values(values))
        claimed.append(one)
    return claimed


def _with_hosts() -> Select[tuple[object, ...]]:
    columns = [notices.c[name] for name in _NOTICE]
    return select(hosts.c.name.label("host"), hosts.c.group, *columns).join(
        notices, notices.c.host_id == hosts.c.id
    )


def next_due(connection: Connection, destination: str, now: float) -> float | None:
    """Return the time of the next delivery to a destination; None if nothing waits for it."""
    query = (
        select(func.min(deliveries.c.next_at))
        .join(notices, notices.c.id == deliveries.c.notice_id)
        .where(deliveries.c.destination == destination, notices.c.at > now - STALE_SECONDS)
    )
    earliest: float | None = connection.execute(query).scalar_one()
    return earliest


def waiting(connection: Connection) -> dict[str, int]:
    """Return the number of waiting news for each destination that has had any."""
    query = select(deliveries.c.destination, func.count(deliveries.c.next_at)).group_by(
        deliveries.c.destination
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def delivered(connection: Connection, destination: str, ids: Collection[int], now: float) -> None:
    """Store that a destination took them: it never gets them again."""
    ours = (deliveries.c.destination == destination) & deliveries.c.notice_id.in_(ids)
    connection.execute(update(deliveries).where(ours).values(delivered_at=now, next_at=None))


def put_off(connection: Connection, destination: str, ids: Collection[int], next_at: float | None) -> None:
    """Store that a destination did not take them: it gets them again then, or never."""
    ours = (deliveries.c.destination == destination) & deliveries.c.notice_id.in_(ids)
    connection.execute(
        update(deliveries).where(ours, deliveries.c.delivered_at.is_(None)).values(next_at=next_at)
    )


def forget(connection: Connection, before: float) -> int:
    """Delete the news older than that, delivered or not; return their number."""
    return connection.execute(delete(notices).where(notices.c.at < before)).rowcount

"""Notices of changed verdicts in the database, and mutes. Each notice has a row for each destination.

A delivery is claimed by one process at a time, and is never repeated once it was accepted. Notices with the
same cause that wait for the same destination are combined in a digest, which stays the same when it is sent
again.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from service_record.collector.domain.destinations import DestinationFilter, Notice
from service_record.collector.domain.mutes import Mute, MuteKind, MuteScope
from service_record.collector.store.dialects import insert_into
from service_record.collector.store.schema import deliveries, hosts, mutes, notices
from service_record.diagnosis.failures import signature

STALE_SECONDS: Final = 86_400.0
"""Older notices are dropped, so that a new destination does not get those of last month."""
_AT_ONCE: Final = 1_000
"""Maximum number of notices that one transaction addresses."""
_NOTICE: Final = ("id", "build", "verdict", "before", "reason", "reason_before", "at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Notices that are sent to a destination in one message: they have the same verdict and cause."""

    notices: Sequence[Notice]
    """At least one, oldest first."""
    tries: int
    """The number of earlier attempts, including unfinished ones."""

    @property
    def ids(self) -> Sequence[int]:
        """Return their numbers."""
        return [notice.id for notice in self.notices]


def address(connection: Connection, filters: Mapping[str, DestinationFilter], now: float) -> int:
    """Create the deliveries of new notices for each matching destination. Return the number of new notices.

    Each notice is addressed once. Notices that another process has locked are skipped.
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
        connection.execute(insert_into(connection, deliveries).on_conflict_do_nothing(), rows)
    connection.execute(
        update(notices).where(notices.c.id.in_([notice.id for notice in new])).values(is_addressed=True)
    )
    return len(new)


def claim_due(
    connection: Connection, destination: str, now: float, until: float, *, most: int, at_once: int
) -> Sequence[Delivery]:
    """Claim due deliveries for this process until a time, oldest first.

    Only the oldest of each host is claimed, so that the notices of a host stay in order. Deliveries that
    another process has locked are skipped.
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
    """Return the time of the next delivery to a destination, or None."""
    query = (
        select(func.min(deliveries.c.next_at))
        .join(notices, notices.c.id == deliveries.c.notice_id)
        .where(deliveries.c.destination == destination, notices.c.at > now - STALE_SECONDS)
    )
    earliest: float | None = connection.execute(query).scalar_one()
    return earliest


def count_waiting(connection: Connection) -> dict[str, int]:
    """Return the number of waiting notices for each destination."""
    query = select(deliveries.c.destination, func.count(deliveries.c.next_at)).group_by(
        deliveries.c.destination
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def mark_delivered(connection: Connection, destination: str, ids: Collection[int], now: float) -> None:
    """Mark a delivery as accepted: it is never sent again."""
    ours = (deliveries.c.destination == destination) & deliveries.c.notice_id.in_(ids)
    connection.execute(update(deliveries).where(ours).values(delivered_at=now, next_at=None))


def postpone(connection: Connection, destination: str, ids: Collection[int], next_at: float | None) -> None:
    """Store a failed attempt and the time of the next one; None gives up."""
    ours = (deliveries.c.destination == destination) & deliveries.c.notice_id.in_(ids)
    connection.execute(
        update(deliveries).where(ours, deliveries.c.delivered_at.is_(None)).values(next_at=next_at)
    )


def forget(connection: Connection, before: float) -> int:
    """Delete notices from before a time, delivered or not. Return their number."""
    return connection.execute(delete(notices).where(notices.c.at < before)).rowcount


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

"""Queries for the fleet. They read only the table of hosts, by its indexes.

Times are seconds since 1970 by the collector's clock.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote, unquote

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    and_,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)

from service_record.collector.domain.mutes import Mute, MuteScope
from service_record.collector.store.dialects import contains_text
from service_record.collector.store.schema import clusters, hosts, installations
from service_record.collector.store.selecting import list_fields, row_as, rows_as
from service_record.http.collector_answers import HostSummary

SHOWN_DONE: Final = 86_400.0
"""Hosts that were done earlier than this are hidden by default."""
_ORDER: Final = ("failed", "looping", "stuck", "silent", "progressing", "done")
_BAD: Final = ("failed", "looping", "stuck", "silent")
_WILD: Final = {"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters of hosts.

    A host must pass each filter; if a filter has several values, any of them may match.
    """

    groups: tuple[str, ...] = ()
    """Only hosts of these groups and their subgroups: `dc1` includes `dc1/rack2`."""
    machines: tuple[str, ...] = ()
    """Only hosts with these names; `*` matches any characters, `?` any single one."""
    verdicts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    """Only hosts of the clusters with these ids or names."""
    releases: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    """Only hosts with one of these vendors and models."""
    causes: tuple[str, ...] = ()
    """Only hosts in trouble with one of these causes."""
    confined_to: str = ""
    """The scope of a reader's token: only this group and its subgroups, regardless of other filters."""
    done_since: float | None = None
    """Only hosts whose latest build was not complete before this time."""
    search: str = ""
    """Only hosts with this text in one of the shown fields, regardless of case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A page of hosts."""

    hosts: tuple[HostSummary, ...]
    """The hosts in the chosen order."""
    counts: Mapping[str, int]
    """Number of hosts by verdict that pass the other filters. All verdicts are included."""
    total: int
    """The number of hosts that pass all filters, on all pages."""
    next: "Cursor | None" = None
    """The beginning of the next page; None on the last page."""


_SUMMARY: Final = tuple(hosts.c[name] for name in list_fields(HostSummary))


class Sort(StrEnum):
    """The orders of a fleet."""

    VERDICT = "verdict"
    """Hosts in trouble first, then by name."""
    NAME = "name"
    GROUP = "group"
    UPDATED = "updated"
    """The latest report first."""
    DURATION = "duration"
    """The longest build first."""


_CHANGED: Final = "changed"
"""The value of a cursor within the hosts that moved since the first page. They are listed last, by name."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last host of a page, after which the next page begins."""

    sort: Sort
    at: float
    """The time of the first page, in seconds since 1970."""
    value: str
    """The sort value of the host: its verdict, group, or a number; `_CHANGED` within the hosts that moved."""
    name: str

    @classmethod
    def of(cls, text: str) -> "Cursor | None":
        """Parse a cursor. Returns None for an invalid text."""
        sort, _, rest = text.partition(":")
        at, _, rest = rest.partition(":")
        value, _, name = rest.partition(":")
        value = unquote(value)
        if sort not in set(Sort) or not _is_number(at) or not name or "\0" in value + name:
            return None
        if value != _CHANGED and (
            (sort == Sort.VERDICT and value not in _ORDER)
            or (sort in {Sort.UPDATED, Sort.DURATION} and not _is_number(value))
        ):
            return None
        return cls(Sort(sort), float(at), value, name)

    def __str__(self) -> str:
        return f"{self.sort}:{self.at!r}:{quote(self.value, safe='')}:{self.name}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def fleet(
    connection: Connection,
    filters: Filters,
    limit: int = 100,
    after: Cursor | None = None,
    counts: Mapping[str, int] | None = None,
    *,
    sort: Sort = Sort.VERDICT,
    now: float = 0.0,
    is_grouped: bool = False,
) -> Fleet:
    """Return a page of the hosts that pass the filters, and the number of hosts of each verdict.

    `now` is the time of the first page. Hosts that moved in the order since then are listed after all others,
    so that none is missed. `counts` are cached counts, if known. With `is_grouped`, the rows do not include
    hosts of `list_causes`, nor hosts that are done unless a filter selects them; they are counted
    nevertheless.
    """
    conditions = _conditions(filters)
    if is_grouped:
        conditions.append(hosts.c.cause == "")
    verdicts = filters.verdicts or tuple(verdict for verdict in _ORDER if not is_grouped or verdict != "done")
    if len(verdicts) < len(_ORDER):
        conditions.append(hosts.c.verdict.in_(verdicts))
    start = after or Cursor(sort, now, "", "")
    moved = None if after is None else _moved(after)
    page: list[tuple[str, HostSummary]] = []
    is_among_moved = moved is not None and start.value == _CHANGED
    if not is_among_moved:
        stayed = conditions if moved is None else [*conditions, ~moved]
        if sort is Sort.VERDICT:
            page += _by_verdict(connection, stayed, start, limit + 1, verdicts)
        else:
            page += _by_value(connection, stayed, start, limit + 1)
    if moved is not None and len(page) <= limit:
        query = select(*_SUMMARY).where(moved, *conditions).order_by(hosts.c.name)
        if is_among_moved:
            query = query.where(hosts.c.name > start.name)
        found = rows_as(connection, HostSummary, query.limit(limit + 1 - len(page)))
        page += [(_CHANGED, host) for host in found]
    counts = count_by_verdict(connection, filters) if counts is None else counts
    last = page[limit - 1] if len(page) > limit else None
    return Fleet(
        hosts=tuple(host for _, host in page[:limit]),
        counts=counts,
        total=sum(count for verdict, count in counts.items() if verdict in (filters.verdicts or counts)),
        next=None if last is None else Cursor(sort, start.at, last[0], last[1].name),
    )


def _moved(start: Cursor) -> ColumnElement[bool] | None:
    """Return the condition that a host has moved since the first page, or None if hosts cannot move."""
    has_verdict = func.coalesce(hosts.c.verdict_since, 0.0) > start.at
    has_report = func.coalesce(hosts.c.updated_at, 0.0) > start.at
    match start.sort:
        case Sort.VERDICT:
            return has_verdict
        case Sort.UPDATED:
            return has_report
        case Sort.DURATION:
            return or_(has_verdict, has_report)
    return None


def _by_verdict(
    connection: Connection,
    conditions: Sequence[ColumnElement[bool]],
    start: Cursor,
    limit: int,
    verdicts: Collection[str],
) -> list[tuple[str, HostSummary]]:
    """Return hosts with their verdicts, in the order of the index, so that all pages are equally fast."""
    page: list[tuple[str, HostSummary]] = []
    for verdict in _ORDER[_ORDER.index(start.value) if start.value else 0 :]:
        if verdict not in verdicts:
            continue
        query = select(*_SUMMARY).where(hosts.c.verdict == verdict, *conditions)
        if start.value == verdict:
            query = query.where(hosts.c.name > start.name)
        found = rows_as(connection, HostSummary, query.order_by(hosts.c.name).limit(limit - len(page)))
        page += [(verdict, host) for host in found]
        if len(page) == limit:
            break
    return page


def _by_value(
    connection: Connection, conditions: Sequence[ColumnElement[bool]], start: Cursor, limit: int
) -> list[tuple[str, HostSummary]]:
    """Return hosts with the value by which they are sorted, before their names."""
    value: ColumnElement[Any] = literal("")
    last: Any = start.value
    is_descending = start.sort in {Sort.UPDATED, Sort.DURATION}
    if start.sort is Sort.GROUP:
        value = hosts.c.group
    elif is_descending:
        value = func.coalesce(hosts.c.updated_at, 0.0)
        last = float(last or 0)
    if start.sort is Sort.DURATION:
        is_over = case((hosts.c.verdict.in_(("failed", "silent")), hosts.c.updated_at))
        value = func.coalesce(func.coalesce(hosts.c.ended_at, is_over, start.at) - hosts.c.started_at, -1.0)
    query = select(*_SUMMARY, value.label("value")).where(*conditions)
    if start.name:
        is_before = value < last if is_descending else value > last
        query = query.where(or_(is_before, and_(value == last, hosts.c.name > start.name)))
    ordered = () if start.sort is Sort.NAME else (value.desc() if is_descending else value,)
    rows = connection.execute(query.order_by(*ordered, hosts.c.name).limit(limit))
    return [(str(row.value), row_as(HostSummary, row)) for row in rows]


MOST_CAUSES: Final = 100
"""Maximum number of listed causes, those of the newest trouble."""
MOST_OF_CAUSE: Final = 50
"""Maximum number of listed hosts of a cause, those that got into trouble last."""
_LEAST_OF_CAUSE: Final = 5
_MOST_OF_ALL_CAUSES: Final = 500
"""Number of listed hosts on a page with many causes: rendering them takes longer than finding them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseSummary:
    """A group of hosts in the same trouble. Times are in seconds since 1970."""

    cause: str
    verdict: str
    reason: str
    """The reason of the host that got into this trouble last."""
    count: int
    groups: tuple[str, ...]
    first_since: float
    """The time at which the first of these hosts got into it."""
    last_since: float
    """The time at which the last of these hosts got into it."""
    revision: int
    """Changes with each change of one of the listed hosts."""
    hosts: tuple[HostSummary, ...]
    """The latest of them."""


def list_causes(connection: Connection, filters: Filters) -> tuple[CauseSummary, ...]:
    """Return the causes of hosts in trouble, newest trouble first.

    At most `MOST_CAUSES` and one more are returned, so that the caller knows whether there are more.
    """
    passing = and_(hosts.c.cause > "", *_conditions(filters))  # not `!=`: SQLite would not use the index
    if filters.verdicts:
        # As an expression, because SQLite would otherwise search by verdict and read all long rows.
        passing &= func.coalesce(hosts.c.verdict, "").in_(filters.verdicts)
    since = func.coalesce(hosts.c.verdict_since, 0.0)
    last = func.max(since).label("last")
    of_group = (
        select(
            hosts.c.cause,
            hosts.c.group,
            func.count().label("hosts"),
            func.min(since).label("first"),
            last,
        )
        .where(passing)
        .group_by(hosts.c.cause, hosts.c.group)
    )
    parts: dict[str, list[Any]] = {}
    for row in connection.execute(of_group):
        parts.setdefault(row.cause, []).append(row)
    newest = sorted(parts, key=lambda cause: (-max(row.last for row in parts[cause]), cause))
    marks = newest[: MOST_CAUSES + 1]
    by_mark = _read_latest_hosts(connection, passing, marks, since)
    return tuple(
        CauseSummary(
            cause=mark,
            verdict=by_mark[mark][0].verdict,
            reason=by_mark[mark][0].reason,
            count=sum(row.hosts for row in parts[mark]),
            groups=tuple(sorted(row.group for row in parts[mark] if row.group)),
            first_since=min(row.first for row in parts[mark]),
            last_since=max(row.last for row in parts[mark]),
            revision=sum(host.revision for host in by_mark[mark]),
            hosts=tuple(by_mark[mark]),
        )
        for mark in marks
    )


def _read_latest_hosts(
    connection: Connection,
    passing: ColumnElement[bool],
    causes: Sequence[str],
    since: ColumnElement[float],
) -> Mapping[str, Sequence[HostSummary]]:
    """Return the hosts of each cause that got into this trouble last.

    Rows are long, so the query sorts only ids, and then reads only the rows of the latest hosts.
    """
    if not causes:
        return {}
    most = min(max(_MOST_OF_ALL_CAUSES // len(causes), _LEAST_OF_CAUSE), MOST_OF_CAUSE)
    passing = and_(passing, hosts.c.cause.in_(causes))
    place = func.row_number().over(partition_by=hosts.c.cause, order_by=(since.desc(), hosts.c.name))
    placed = select(hosts.c.id, place.label("place")).where(passing).subquery()
    latest = (
        select(*_SUMMARY)
        .join(placed, placed.c.id == hosts.c.id)
        .where(placed.c.place <= most)
        .order_by(hosts.c.cause, placed.c.place)
    )
    by_mark: dict[str, list[HostSummary]] = {}
    for row in connection.execute(latest):
        by_mark.setdefault(row.cause, []).append(row_as(HostSummary, row))
    return by_mark


def count_by_verdict(connection: Connection, filters: Filters) -> dict[str, int]:
    """Return the number of hosts by verdict that pass all filters except the filter of verdicts."""
    passing = and_(true(), *_conditions(filters))
    counted = select(hosts.c.verdict, func.count().label("hosts")).where(passing).group_by(hosts.c.verdict)
    return dict.fromkeys(_ORDER, 0) | {row.verdict: row.hosts for row in connection.execute(counted)}


def count_muted(connection: Connection, filters: Filters, mutes: Sequence[Mute]) -> int:
    """Return the number of hosts in trouble that pass the filters and are covered by a mute."""
    if not mutes:
        return 0
    any_of = or_(*map(_covers_host, mutes))
    counted = select(func.count()).where(hosts.c.cause != "", any_of, *_conditions(filters))
    return int(connection.execute(counted.select_from(hosts)).scalar_one())


def _covers_host(mute: Mute) -> ColumnElement[bool]:
    match mute.scope:
        case MuteScope.HOST:
            return hosts.c.name == mute.subject
        case MuteScope.GROUP:
            return is_within(hosts.c.group, mute.subject)
        case MuteScope.CAUSE:
            return hosts.c.cause == mute.subject


def groups(connection: Connection, confined_to: str = "") -> tuple[str, ...]:
    """Return the sorted names of all groups with hosts; if confined, only of that group and its subgroups."""
    named = select(hosts.c.group).where(hosts.c.group != "").distinct().order_by(hosts.c.group)
    if confined_to:
        named = named.where(is_within(hosts.c.group, confined_to))
    return tuple(connection.execute(named).scalars())


@dataclass(frozen=True, slots=True)
class RollUp:
    """The number of hosts of one site, rack, group, release or hardware."""

    name: str
    counts: Mapping[str, int]
    """Number of hosts by verdict. All verdicts are included."""

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class RollUpBy(StrEnum):
    """The property that the hosts of one row share, such as their rack."""

    SITE = "site"
    """The first part of the group's name."""
    RACK = "rack"
    """The first two parts of the group's name."""
    GROUP = "group"
    RELEASE = "release"
    HARDWARE = "hardware"
    """Vendor and model."""


_PARTS_OF_GROUP: Final = {RollUpBy.SITE: 1, RollUpBy.RACK: 2}


def roll_up(connection: Connection, filters: Filters, by: RollUpBy) -> tuple[RollUp, ...]:
    """Count the hosts of each verdict in each group, release and so on. Most hosts in trouble come first."""
    # An expression, because SQLite would otherwise use the index of groups, and read the long row of each
    # host. The empty text is a literal: with parameters, PostgreSQL would consider the columns of SELECT and
    # GROUP BY as different expressions.
    group = func.coalesce(hosts.c.group, literal_column("''"))
    column = hosts.c[by.value] if by in {RollUpBy.RELEASE, RollUpBy.HARDWARE} else group
    counted = select(column.label("name"), hosts.c.verdict, func.count().label("hosts"))
    counted = counted.where(and_(true(), *_conditions(filters))).group_by(column, hosts.c.verdict)
    sums: dict[str, Counter[str]] = {}
    for row in connection.execute(counted):
        name = "/".join(row.name.split("/")[: _PARTS_OF_GROUP.get(by)])
        sums.setdefault(name, Counter())[row.verdict] += row.hosts
    rolled = [RollUp(name, dict.fromkeys(_ORDER, 0) | counts) for name, counts in sums.items()]
    return tuple(sorted(rolled, key=lambda one: (-sum(one.counts[verdict] for verdict in _BAD), one.name)))


def _conditions(filters: Filters) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.confined_to:
        conditions.append(is_within(hosts.c.group, filters.confined_to))
    if filters.groups:
        conditions.append(or_(*(is_within(hosts.c.group, group) for group in filters.groups)))
    if filters.machines:
        conditions.append(or_(*(_has_name(hosts.c.name, machine.lower()) for machine in filters.machines)))
    if filters.releases:
        conditions.append(hosts.c.release.in_(filters.releases))
    if filters.hardware:
        conditions.append(hosts.c.hardware.in_(filters.hardware))
    if filters.causes:
        conditions.append(hosts.c.cause.in_(filters.causes))
    if filters.clusters:
        named = [name.lower() for name in filters.clusters]
        has_name = func.lower(clusters.c.name).in_(named)
        conditions.append(_is_in_cluster(installations.c.cluster_id.in_(named), has_name))
    if filters.search:
        fields = ("name", "group", "release", "hardware", "action", "verdict", "reason", "message")
        found = (contains_text(hosts.c[name], filters.search) for name in fields)
        has_id = contains_text(installations.c.cluster_id, filters.search)
        is_named = contains_text(clusters.c.name, filters.search)
        conditions.append(or_(*found, _is_in_cluster(has_id, is_named)))
    if filters.done_since is not None:
        conditions.append(or_(hosts.c.ended_at.is_(None), hosts.c.ended_at >= filters.done_since))
    return conditions


def _is_in_cluster(has_id: ColumnElement[bool], has_name: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that a host's installation has such a cluster id, or its cluster such a name."""
    in_named = installations.c.cluster_id.in_(select(clusters.c.id).where(has_name))
    return hosts.c.id.in_(select(installations.c.host_id).where(or_(has_id, in_named)))


def is_within(column: Column[str], group: str) -> ColumnElement[bool]:
    """Return the condition that a column contains a group or one of its subgroups."""
    return or_(column == group, column.startswith(f"{group}/", autoescape=True))


def _has_name(column: Column[str], machine: str) -> ColumnElement[bool]:
    if "*" not in machine and "?" not in machine:
        return column == machine
    return column.like("".join(_WILD.get(character, character) for character in machine), escape="\\")

"""What readers see of hosts: the fleet, of the hosts' table alone, and one host, by its indexes.

Times are seconds since 1970 by the collector's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, and_, func, or_, select, true

from service_record.collector.store.schema import clusters, hosts, installations

SHOWN_DONE: Final = 86_400.0
"""Seconds for which a host that is done is shown where nobody asks for all."""
_ORDER: Final = ("failed", "looping", "stuck", "silent", "progressing", "done")
_WILD: Final = {"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which hosts; all where nothing is said. Several groups (machines, verdicts): any of them."""

    groups: tuple[str, ...] = ()
    """Of these groups and of those below them: `dc1` has the hosts of `dc1/rack2`."""
    machines: tuple[str, ...] = ()
    """Of these names; `*` and `?` stand for any characters, and for any one."""
    verdicts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    """Of the clusters of these ids or names."""
    confined_to: str = ""
    """Only of this group and of those below it, whatever else is asked for; the scope of a reader's token."""
    done_since: float | None = None
    """Without those whose latest build was complete before this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSummary:
    """A host and its latest build, in a line."""

    name: str
    group: str
    release: str
    build: int
    """0 where none was begun: only an assisted-service, a bundle or records tell of it."""
    action: str
    percentage: float | None
    message: str
    started_at: float | None
    updated_at: float | None
    ended_at: float | None
    verdict: str
    reason: str
    verdict_since: float | None
    revision: int
    """Counts up with every change of the host."""

    def seconds(self, now: float) -> float | None:
        """How long the build has taken: until its end, until its last update where it will not go on by
        itself, or until now.
        """
        if self.started_at is None:
            return None
        is_over = self.verdict in {"failed", "silent"}
        return max((self.ended_at or (self.updated_at if is_over else None) or now) - self.started_at, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Some hosts of many."""

    hosts: tuple[HostSummary, ...]
    """Those with trouble first, then by name."""
    counts: Mapping[str, int]
    """Verdict -> how many hosts pass the other filters; every verdict is there."""
    total: int
    """How many pass all filters, shown here or not."""
    next: "Cursor | None" = None
    """Where the next page begins; None where this is the last."""


_SUMMARY: Final = (
    hosts.c.name,
    hosts.c.group,
    hosts.c.release,
    hosts.c.build,
    hosts.c.action,
    hosts.c.percentage,
    hosts.c.message,
    hosts.c.started_at,
    hosts.c.updated_at,
    hosts.c.ended_at,
    hosts.c.verdict,
    hosts.c.reason,
    hosts.c.verdict_since,
    hosts.c.revision,
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The host behind which a page begins. As a text: `failed:web17`."""

    verdict: str
    name: str

    @classmethod
    def of(cls, text: str) -> "Cursor | None":
        """Return the cursor that a text is; None where it is none."""
        verdict, _, name = text.partition(":")
        return cls(verdict, name) if verdict in _ORDER and name and "\0" not in name else None

    def __str__(self) -> str:
        return f"{self.verdict}:{self.name}"


def fleet(
    connection: Connection,
    filters: Filters,
    limit: int = 100,
    after: Cursor | None = None,
    counts: Mapping[str, int] | None = None,
) -> Fleet:
    """The hosts that pass the filters, a page of them, and how many there are of each verdict.

    Verdict by verdict by the index, from where the page before ended: no page costs more than the first.
    `counts` are those of a moment ago, where they are known.
    """
    verdicts = [verdict for verdict in _ORDER if verdict in (filters.verdicts or _ORDER)]
    if after is not None:
        verdicts = [verdict for verdict in verdicts if _ORDER.index(verdict) >= _ORDER.index(after.verdict)]
    shown: list[HostSummary] = []
    for verdict in verdicts:
        wanted = select(*_SUMMARY).where(hosts.c.verdict == verdict, *_conditions(filters))
        if after is not None and after.verdict == verdict:
            wanted = wanted.where(hosts.c.name > after.name)
        rows = connection.execute(wanted.order_by(hosts.c.name).limit(limit + 1 - len(shown)))
        shown += (summary_of(row) for row in rows)
        if len(shown) > limit:
            break
    counts = count_by_verdict(connection, filters) if counts is None else counts
    last = shown[limit - 1] if len(shown) > limit else None
    return Fleet(
        hosts=tuple(shown[:limit]),
        counts=counts,
        total=sum(count for verdict, count in counts.items() if verdict in (filters.verdicts or counts)),
        next=None if last is None else Cursor(last.verdict, last.name),
    )


def count_by_verdict(connection: Connection, filters: Filters) -> dict[str, int]:
    """Return how many hosts of each verdict pass the filters, but for those of verdicts."""
    passing = and_(true(), *_conditions(filters))
    counted = select(hosts.c.verdict, func.count().label("hosts")).where(passing).group_by(hosts.c.verdict)
    return dict.fromkeys(_ORDER, 0) | {row.verdict: row.hosts for row in connection.execute(counted)}


def groups(connection: Connection, confined_to: str = "") -> tuple[str, ...]:
    """Return the names of the groups that have hosts, in order; if confined, of that group and below it."""
    named = select(hosts.c.group).where(hosts.c.group != "").distinct().order_by(hosts.c.group)
    if confined_to:
        named = named.where(is_within(hosts.c.group, confined_to))
    return tuple(connection.execute(named).scalars())


def summary_of(row: Any) -> HostSummary:
    """A row that has the columns of a summary, by name."""
    return HostSummary(**{column.name: getattr(row, column.name) for column in _SUMMARY})


def _conditions(filters: Filters) -> list[ColumnElement[bool]]:
    found = []
    if filters.confined_to:
        found.append(is_within(hosts.c.group, filters.confined_to))
    if filters.groups:
        found.append(or_(*(is_within(hosts.c.group, group) for group in filters.groups)))
    if filters.machines:
        found.append(or_(*(_named(hosts.c.name, machine.lower()) for machine in filters.machines)))
    if filters.clusters:
        named = [name.lower() for name in filters.clusters]
        of = select(clusters.c.id).where(func.lower(clusters.c.name).in_(named))
        in_clusters = or_(installations.c.cluster_id.in_(named), installations.c.cluster_id.in_(of))
        found.append(hosts.c.id.in_(select(installations.c.host_id).where(in_clusters)))
    if filters.done_since is not None:
        found.append(or_(hosts.c.ended_at.is_(None), hosts.c.ended_at >= filters.done_since))
    return found


def is_within(column: Column[str], group: str) -> ColumnElement[bool]:
    """Return the condition that a column of groups has this one, or one below it."""
    return or_(column == group, column.startswith(f"{group}/", autoescape=True))


def _named(column: Column[str], machine: str) -> ColumnElement[bool]:
    if "*" not in machine and "?" not in machine:
        return column == machine
    return column.like("".join(_WILD.get(character, character) for character in machine), escape="\\")

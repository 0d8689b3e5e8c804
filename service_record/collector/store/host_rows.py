"""Read one host from the database: its builds, boots, latest steps, bundles, events and installation."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeVar

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Connection, Table, case, func, literal, select

from service_record.collector.assisted.host_states import describe_state
from service_record.collector.assisted.installation_rules import Installation
from service_record.collector.domain.progress import Progress, group_rounds
from service_record.collector.store.absences import read_absences
from service_record.collector.store.schema import (
    builds,
    bundles,
    events,
    hosts,
    installations,
    last_words,
    steps,
)
from service_record.collector.store.selecting import list_fields, row_as, rows_as, select_columns
from service_record.http.collector_answers import (
    BuildSummary,
    HostDetail,
    HostSummary,
    ShownBundle,
    ShownEvent,
    ShownInstallation,
    ShownLastWords,
    ShownStep,
)


@dataclass(frozen=True, slots=True)
class Boot:
    """A boot that steps of a build name."""

    id: str
    begin: float
    """The arrival of its first step, in seconds since 1970 by the collector's clock."""
    end: float
    """The arrival of its latest step."""


def read_boots(connection: Connection, host: str, build: int, first_step: int) -> tuple[Boot, ...]:
    """Return the boots of a build, in the order of their first steps, without steps before `first_step`."""
    begin, end = func.min(steps.c.received_at), func.max(steps.c.received_at)
    named = (
        select(steps.c.boot_id, begin, end)
        .join(hosts, hosts.c.id == steps.c.host_id)
        .where(hosts.c.name == host, steps.c.build == build, steps.c.id >= first_step, steps.c.boot_id != "")
        .group_by(steps.c.boot_id)
        .order_by(func.min(steps.c.id))
    )
    return tuple(Boot(*row) for row in connection.execute(named))


T = TypeVar("T")
LATEST_STEPS: Final = 500
EARLIER_BUILDS: Final = 20
"""Earlier builds of each host in a list of hosts."""
_LATEST_BUILDS: Final = 50
_LATEST_BUNDLES: Final = 50
_LATEST_EVENTS: Final = 100
_MAX_LOGS_CHARS: Final = 4_000
"""Maximum length of a step's logs in a list of steps. The end of longer logs is kept."""


def read_host(connection: Connection, name: str, now: float, build: int | None = None) -> HostDetail | None:
    """Return a host with the steps of a build, by default of its latest one.

    Returns None if the host or the build does not exist.
    """
    row = connection.execute(select(hosts).where(hosts.c.name == name)).one_or_none()
    if row is None:
        return None
    # Before the first build, a host may have undefined steps (`serve --steps`), stored as those of build 1.
    number = (row.build or 1) if build is None else build
    shown_builds = _read_latest(connection, BuildSummary, builds, row.id, _LATEST_BUILDS)
    if build is not None and all(each.number != build for each in shown_builds):
        requested = _read_build(connection, row.id, build)
        if requested is None:
            return None
        shown_builds = (*shown_builds, requested)
    return HostDetail(
        now=now,
        summary=row_as(HostSummary, row),
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        builds=shown_builds,
        shown_build=number if build is not None else row.build,
        steps=group_rounds(_read_steps(connection, row.id, number), lambda step: (step.label, step.status)),
        last_words=_read_last_words(connection, row.id, row.build if build is None else build),
        bundles=_read_latest(connection, ShownBundle, bundles, row.id, _LATEST_BUNDLES),
        events=_read_latest(connection, ShownEvent, events, row.id, _LATEST_EVENTS),
        installation=_read_installation(connection, row.id, now),
    )


def read_earlier_builds(
    connection: Connection, names: Collection[str], since: float
) -> dict[str, tuple[BuildSummary, ...]]:
    """Return the earlier builds of each host that reported after `since`, latest first.

    At most `EARLIER_BUILDS` builds of a host are returned, and no hosts without such builds.
    """
    rank = func.row_number().over(partition_by=builds.c.host_id, order_by=builds.c.number.desc())
    columns = (builds.c[name] for name in list_fields(BuildSummary))
    ranked = (
        select(hosts.c.name.label("host"), rank.label("rank"), *columns)
        .join(hosts, hosts.c.id == builds.c.host_id)
        .where(hosts.c.name.in_(names), builds.c.number < hosts.c.build, builds.c.updated_at >= since)
        .subquery()
    )
    latest = select(ranked).where(ranked.c.rank <= EARLIER_BUILDS).order_by(ranked.c.rank)
    by_host: dict[str, list[BuildSummary]] = {}
    for row in connection.execute(latest):
        by_host.setdefault(row.host, []).append(row_as(BuildSummary, row))
    return {name: tuple(summaries) for name, summaries in by_host.items()}


def read_step_logs(connection: Connection, name: str, step_id: int) -> str | None:
    """Return all stored logs of a host's step, or None if the host has no such step."""
    query = select(steps.c.logs).join(hosts, hosts.c.id == steps.c.host_id)
    return connection.execute(query.where(hosts.c.name == name, steps.c.id == step_id)).scalar_one_or_none()


def _read_build(connection: Connection, host_id: int, number: int) -> BuildSummary | None:
    # A client may ask for any number: as Integer, PostgreSQL would refuse one of more than 31 bits.
    is_asked = builds.c.number == literal(number, BigInteger)
    query = select_columns(BuildSummary, builds).where(builds.c.host_id == host_id, is_asked)
    return next(iter(rows_as(connection, BuildSummary, query)), None)


def _read_steps(connection: Connection, host_id: int, build: int) -> tuple[ShownStep, ...]:
    plain = [steps.c[name] for name in list_fields(ShownStep) if name not in {"logs", "logs_length"}]
    length = func.length(steps.c.logs)
    begin = case((length > _MAX_LOGS_CHARS, length - _MAX_LOGS_CHARS + 1), else_=1)
    latest = (
        select(*plain, func.substr(steps.c.logs, begin).label("logs"), length.label("logs_length"))
        .where(steps.c.host_id == host_id, steps.c.build == build)
        .order_by(steps.c.id.desc())
        .limit(LATEST_STEPS)
    )
    return rows_as(connection, ShownStep, latest)[::-1]


def _read_last_words(connection: Connection, host_id: int, build: int) -> tuple[ShownLastWords, ...]:
    query = select_columns(ShownLastWords, last_words).where(
        last_words.c.host_id == host_id, last_words.c.build == build
    )
    return rows_as(connection, ShownLastWords, query.order_by(last_words.c.received_at.desc()))


def _read_latest(
    connection: Connection, kind: type[T], table: Table, host_id: int, most: int
) -> tuple[T, ...]:
    """Return the latest rows of a host, latest first."""
    query = select_columns(kind, table).where(table.c.host_id == host_id)
    return rows_as(connection, kind, query.order_by(table.c.id.desc()).limit(most))


def _read_installation(connection: Connection, host_id: int, now: float) -> ShownInstallation | None:
    query = select_columns(Installation, installations).where(installations.c.host_id == host_id)
    installation = next(iter(rows_as(connection, Installation, query)), None)
    if installation is None:
        return None
    counted = installation.without_absences(read_absences(connection, now))
    status, info = counted.status_at(now), counted.status_info_at(now)
    document = {"status": status, "status_info": info, "meaning": describe_state(status)}
    return ShownInstallation(**{**asdict(installation), **document})


@dataclass(frozen=True, slots=True)
class HostInstallation:
    """An installation, with the name, group and progress of its host."""

    host: str
    group: str
    percentage: float | None
    """The progress that the pages of the fleet and of the host show."""
    installation: Installation


def read_installations(connection: Connection, condition: ColumnElement[bool]) -> Sequence[HostInstallation]:
    """Return the installations that meet a condition, in the order of their hosts' names."""
    columns = (installations.c[name] for name in list_fields(Installation))
    query = (
        select(hosts.c.name.label("host"), hosts.c.group.label("host_group"), hosts.c.percentage, *columns)
        .join(hosts, hosts.c.id == installations.c.host_id)
        .where(condition)
        .order_by(hosts.c.name)
    )
    return [
        HostInstallation(row.host, row.host_group, row.percentage, row_as(Installation, row))
        for row in connection.execute(query)
    ]


def read_cluster_installations(connection: Connection, cluster_id: str) -> Sequence[HostInstallation]:
    """Return the installations of a cluster, in the order of their hosts' names."""
    return read_installations(connection, installations.c.cluster_id == cluster_id)


def read_progress(connection: Connection, name: str) -> Progress | None:
    """Return the progress of a host's latest build, or None before its first build."""
    blob = connection.execute(select(hosts.c.progress).where(hosts.c.name == name)).scalar_one_or_none()
    return msgspec.json.decode(blob, type=Progress) if blob else None

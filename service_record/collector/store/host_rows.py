"""One host as readers see it: its builds, its boots, the latest steps of a build, and what else is known."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, case, func, select

from service_record.collector.domain.host_states import meaning_of
from service_record.collector.domain.installation_rules import Installation
from service_record.collector.domain.progress import Progress, Repeated, repeated
from service_record.collector.store.absences import read_absences
from service_record.collector.store.fleet import HostSummary
from service_record.collector.store.schema import builds, bundles, events, hosts, installations, steps
from service_record.collector.store.selecting import columns_of, names_of, row_as, rows_as


@dataclass(frozen=True, slots=True)
class Boot:
    """A boot, by the steps that name it; times are the collector's, in seconds since 1970."""

    id: str
    begin: float
    end: float


def boots_of(connection: Connection, host: str, build: int, first_step: int) -> tuple[Boot, ...]:
    """Return the boots of a build in the order of their first reports, from a step on."""
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
_LONGEST_LOGS: Final = 4_000
"""Characters of a step's logs that are shown with many others: their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSummary:
    """One build of a host."""

    number: int
    key: str
    action: str
    release: str
    started_at: float
    updated_at: float
    ended_at: float | None
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShown:
    """A step as it was reported."""

    id: int
    label: str
    name: str
    status: str
    priority: int
    percentage: float | None
    action: str
    logs: str
    """The end of them; `logs_of` has all."""
    logs_length: int
    """Characters of all of them."""
    notes: str
    boot_id: str
    host_time: float | None
    received_at: float
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleShown:
    """A bundle that came from the host."""

    id: int
    build: int
    kind: str
    name: str
    size: int
    sha256: str
    received_at: float
    is_indexed: bool
    verdict: str
    reason: str
    boots: str
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventShown:
    """A message of an assisted-service's client on a host or a cluster, in free words."""

    received_at: float
    severity: str
    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationShown:
    """The assisted-service's view of the host."""

    id: str
    cluster_id: str
    infra_env_id: str
    role: str
    is_bootstrap: bool
    is_single_node: bool
    status: str
    """The state now."""
    status_info: str
    meaning: str
    """The meaning of the state, in one sentence."""
    stage: str
    info: str
    stage_started_at: float
    stage_updated_at: float
    checked_in_at: float | None
    """The time of its agent's last call."""
    logs_state: str
    event_at: float | None
    """The time of the newest event that reported a state, by the assisted-service's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHostDetail:
    """Everything shown about a host at once."""

    now: float
    """The time of the collector's clock, which all times follow."""
    summary: HostSummary
    first_seen: float
    last_seen: float
    builds: tuple[BuildSummary, ...]
    """Latest first."""
    shown_build: int
    """The number of the build of these steps; 0 if there is none."""
    steps: tuple[Repeated[StepShown], ...]
    """The latest, oldest first; rounds that came again and again told once."""
    bundles: tuple[BundleShown, ...]
    """Latest first."""
    events: tuple[EventShown, ...]
    """Latest first."""
    installation: InstallationShown | None


def host(connection: Connection, name: str, now: float, build: int | None = None) -> StoredHostDetail | None:
    """Return a host and the steps of a build, the latest unless another is asked for.

    None where there is no such host, or it has no such build.
    """
    row = connection.execute(select(hosts).where(hosts.c.name == name)).one_or_none()
    if row is None:
        return None
    # Before its first build, a host has at most steps that are not among the defined ones.
    number = (row.build or 1) if build is None else build
    shown_builds = _latest(connection, BuildSummary, builds, row.id, _LATEST_BUILDS)
    if build is not None and all(one.number != build for one in shown_builds):
        requested = _build(connection, row.id, build)
        if requested is None:
            return None
        shown_builds = (*shown_builds, requested)
    return StoredHostDetail(
        now=now,
        summary=row_as(HostSummary, row),
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        builds=shown_builds,
        shown_build=number if build is not None else row.build,
        steps=repeated(_steps(connection, row.id, number), lambda step: (step.label, step.status)),
        bundles=_latest(connection, BundleShown, bundles, row.id, _LATEST_BUNDLES),
        events=_latest(connection, EventShown, events, row.id, _LATEST_EVENTS),
        installation=_installation(connection, row.id, now),
    )


def earlier_builds(
    connection: Connection, names: Collection[str], since: float
) -> dict[str, tuple[BuildSummary, ...]]:
    """Return the latest earlier builds of these hosts with a report since that time, latest first."""
    rank = func.row_number().over(partition_by=builds.c.host_id, order_by=builds.c.number.desc())
    columns = (builds.c[name] for name in names_of(BuildSummary))
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
    return {name: tuple(of_host) for name, of_host in by_host.items()}


def logs_of(connection: Connection, name: str, step_id: int) -> str | None:
    """Return all stored logs of a host's step; None if it has no such step."""
    of = select(steps.c.logs).join(hosts, hosts.c.id == steps.c.host_id)
    return connection.execute(of.where(hosts.c.name == name, steps.c.id == step_id)).scalar_one_or_none()


def _build(connection: Connection, host_id: int, number: int) -> BuildSummary | None:
    query = columns_of(BuildSummary, builds).where(builds.c.host_id == host_id, builds.c.number == number)
    return next(iter(rows_as(connection, BuildSummary, query)), None)


def _steps(connection: Connection, host_id: int, build: int) -> tuple[StepShown, ...]:
    plain = [steps.c[name] for name in names_of(StepShown) if name not in {"logs", "logs_length"}]
    length = func.length(steps.c.logs)
    begin = case((length > _LONGEST_LOGS, length - _LONGEST_LOGS + 1), else_=1)
    latest = (
        select(*plain, func.substr(steps.c.logs, begin).label("logs"), length.label("logs_length"))
        .where(steps.c.host_id == host_id, steps.c.build == build)
        .order_by(steps.c.id.desc())
        .limit(LATEST_STEPS)
    )
    return rows_as(connection, StepShown, latest)[::-1]


def _latest(connection: Connection, kind: type[T], table: Table, host_id: int, most: int) -> tuple[T, ...]:
    """Return the latest rows of a host, latest first."""
    query = columns_of(kind, table).where(table.c.host_id == host_id)
    return rows_as(connection, kind, query.order_by(table.c.id.desc()).limit(most))


def _installation(connection: Connection, host_id: int, now: float) -> InstallationShown | None:
    query = columns_of(Installation, installations).where(installations.c.host_id == host_id)
    installation = next(iter(rows_as(connection, Installation, query)), None)
    if installation is None:
        return None
    counted = installation.without_absences(read_absences(connection, now))
    status, info = counted.status_at(now), counted.status_info_at(now)
    document = {"status": status, "status_info": info, "meaning": meaning_of(status)}
    return InstallationShown(**{**asdict(installation), **document})


@dataclass(frozen=True, slots=True)
class HostInstallation:
    """An installation, and its host."""

    host: str
    """The host's name."""
    group: str
    installation: Installation


def select_installed(connection: Connection, condition: ColumnElement[bool]) -> Sequence[HostInstallation]:
    """Return installations with their hosts, by the names of these."""
    columns = (installations.c[name] for name in names_of(Installation))
    query = (
        select(hosts.c.name.label("host"), hosts.c.group.label("host_group"), *columns)
        .join(hosts, hosts.c.id == installations.c.host_id)
        .where(condition)
        .order_by(hosts.c.name)
    )
    return [
        HostInstallation(row.host, row.host_group, row_as(Installation, row))
        for row in connection.execute(query)
    ]


def of_cluster(connection: Connection, cluster_id: str) -> Sequence[HostInstallation]:
    """Return the installations of a cluster, by the names of their hosts."""
    return select_installed(connection, installations.c.cluster_id == cluster_id)


def progress_of(connection: Connection, name: str) -> Progress | None:
    """Return the progress of the latest build of a host; None before the first."""
    blob = connection.execute(select(hosts.c.progress).where(hosts.c.name == name)).scalar_one_or_none()
    return msgspec.json.decode(blob, type=Progress) if blob else None

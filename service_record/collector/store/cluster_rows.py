"""Clusters in the database: their states, what their controllers report, and their logs.

The state is written down when a host of the cluster is judged, and with each report of its controller.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Any, Final, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.assisted_reports import parse_cluster_state, parse_operator_event
from service_record.collector.domain.cluster_states import (
    BEFORE,
    CONTROL_PLANE,
    ClusterHost,
    ClusterSnapshot,
    ClusterState,
    Operator,
    next_state,
    reason_of,
)
from service_record.collector.domain.installation_rules import (
    CallRefused,
    Event,
    is_outdated,
)
from service_record.collector.domain.silence import Absence
from service_record.collector.store.absences import read_absences
from service_record.collector.store.dialects import inserting
from service_record.collector.store.fleet import SHOWN_DONE, is_within
from service_record.collector.store.host_rows import HostInstallation, read_cluster_installations
from service_record.collector.store.schema import (
    cluster_events,
    cluster_logs,
    cluster_operators,
    clusters,
    hosts,
    installations,
)
from service_record.collector.store.selecting import columns_of, rows_as
from service_record.http.collector_answers import ClusterSummary, ShownEvent

T = TypeVar("T")
MOST_LISTED: Final = 1000
_LATEST_EVENTS: Final = 100
_ORDER: Final = (
    ClusterState.ERROR,
    ClusterState.INSUFFICIENT,
    ClusterState.PENDING,
    ClusterState.CANCELLED,
    ClusterState.INSTALLING,
    ClusterState.FINALIZING,
    ClusterState.PREPARING,
    ClusterState.READY,
    ClusterState.INSTALLED,
)
"""The order of a list of clusters: those that need an action first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHostShown:
    """A host of a cluster."""

    name: str
    role: str
    is_bootstrap: bool
    status: str
    status_info: str
    stage: str
    info: str
    percentage: int
    stage_updated_at: float
    checked_in_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorShown:
    """An operator, as the controller last reported it."""

    name: str
    status: str
    version: str
    info: str
    updated_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLogsShown:
    """Logs of a cluster. Only the latest of each kind are kept."""

    kind: str
    name: str
    size: int
    sha256: str
    received_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetail:
    """Everything shown about a cluster at once."""

    summary: ClusterSummary
    hosts: tuple[ClusterHostShown, ...]
    """The control plane first, then by name."""
    operators: tuple[OperatorShown, ...]
    logs: tuple[ClusterLogsShown, ...]
    events: tuple[ShownEvent, ...]
    """Latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObject:
    """Logs of a cluster, or a bundle of a host, whose object is kept already."""

    kind: str
    name: str
    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefinition:
    """An administrator's definition of a cluster; None for what it leaves open."""

    name: str | None = None
    control_planes: int | None = None
    workers: int | None = None


# Reading


def list_clusters(
    connection: Connection,
    *,
    named: Sequence[str] = (),
    confined_to: str = "",
    done_since: float | None = None,
) -> tuple[ClusterSummary, ...]:
    """Return clusters, those that need an action first, without those installed before `done_since`.

    `named` are ids or names. A reader who is confined to a group sees clusters all of whose hosts are in it.
    """
    query = columns_of(ClusterSummary, clusters).where(_is_readable(confined_to))
    if named:
        query = query.where(is_named(named))
    elif done_since is not None:
        is_old = (clusters.c.status == ClusterState.INSTALLED.value) & (clusters.c.since < done_since)
        query = query.where(or_(clusters.c.since.is_(None), ~is_old))
    rank = case({state.value: place for place, state in enumerate(_ORDER)}, value=clusters.c.status, else_=0)
    query = query.order_by(rank, clusters.c.name, clusters.c.id).limit(MOST_LISTED)
    return rows_as(connection, ClusterSummary, query)


def shown_since(now: float) -> float:
    """Return the time before which a list leaves out installed clusters."""
    return now - SHOWN_DONE


def show_cluster(
    connection: Connection, cluster_id: str, now: float, confined_to: str = ""
) -> ClusterDetail | None:
    """Return a cluster by its id or name, or None if this reader may not see such a cluster."""
    query = columns_of(ClusterSummary, clusters).where(_is_readable(confined_to), is_named([cluster_id]))
    summaries = rows_as(connection, ClusterSummary, query.order_by(clusters.c.id).limit(1))
    if not summaries:
        return None
    summary, of = summaries[0], summaries[0].id
    in_order = sorted(
        read_cluster_installations(connection, of),
        key=lambda each: each.installation.role not in CONTROL_PLANE,
    )
    absences = read_absences(connection, now)
    return ClusterDetail(
        summary=summary,
        hosts=tuple(_host_shown(each, absences, now) for each in in_order),
        operators=_rows(connection, OperatorShown, cluster_operators, of, cluster_operators.c.name),
        logs=_rows(connection, ClusterLogsShown, cluster_logs, of, cluster_logs.c.kind),
        events=_rows(connection, ShownEvent, cluster_events, of, cluster_events.c.id.desc()),
    )


def key_of_logs(connection: Connection, cluster_id: str, kind: str) -> tuple[str, str, int] | None:
    """Return the object's key, the name and the size of the logs of a kind; None if there are none."""
    query = select(cluster_logs.c.key, cluster_logs.c.name, cluster_logs.c.size).where(
        cluster_logs.c.cluster_id == cluster_id, cluster_logs.c.kind == kind
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.key, row.name, row.size)


def count_by_status(connection: Connection) -> dict[str, int]:
    """Return the number of clusters in each state."""
    counted = select(clusters.c.status, func.count().label("number")).group_by(clusters.c.status)
    none = dict.fromkeys((state.value for state in ClusterState), 0)
    return none | {row.status: row.number for row in connection.execute(counted)}


def is_named(named: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that a cluster has one of these ids or names."""
    texts = [name.lower() for name in named]
    return or_(clusters.c.id.in_(texts), func.lower(clusters.c.name).in_(texts))


# Writing


def define(connection: Connection, cluster_id: str, definition: ClusterDefinition, now: float) -> bool:
    """Store an administrator's definition of a cluster. Return True if the cluster is new."""
    is_new = _ensure(connection, cluster_id)
    values = {name: value for name, value in asdict(definition).items() if value is not None}
    if values:
        _change(connection, cluster_id, values, now)
    refresh(connection, {cluster_id}, now)
    return is_new


def report(connection: Connection, cluster_id: str, values: dict[str, Any], grant: Grant, now: float) -> None:
    """Store a report of a cluster's controller. Raises Refused, Forbidden."""
    _check(connection, cluster_id, grant)
    _change(connection, cluster_id, values, now)
    refresh(connection, {cluster_id}, now)


def report_operator(
    connection: Connection, cluster_id: str, operator: Operator, grant: Grant, now: float
) -> None:
    """Store the status of an operator. Raises Refused, Forbidden."""
    _check(connection, cluster_id, grant)
    _put_operator(connection, cluster_id, operator, now)
    _change(connection, cluster_id, {}, now)
    refresh(connection, {cluster_id}, now)


def add_event(connection: Connection, event: Event, grant: Grant, now: float) -> None:
    """Store an event of a cluster, and the state that it reports. Raises Refused, Forbidden."""
    _check(connection, event.cluster_id, grant)
    if not insert_event(connection, cluster_events, {"cluster_id": event.cluster_id}, event, now):
        return
    before = connection.execute(select(clusters).where(clusters.c.id == event.cluster_id)).one()
    values: dict[str, Any] = {}
    if event.csrs_approved is not None:  # a count that only grows, in whatever order the events come
        values["csrs_approved"] = max(event.csrs_approved, before.csrs_approved or 0)
    state = parse_cluster_state(event)
    if state is not None and not is_outdated(event, before.event_at, before.since):
        values |= {"status": state.value, "is_told": True, "event_at": event.time}
        if before.status != state:
            values["since"] = now
        values["completion_info"] = event.message if state is ClusterState.ERROR else ""
        if state in {ClusterState.PREPARING, ClusterState.INSTALLING}:  # another try
            values["completion"] = ""
    if (operator := parse_operator_event(event)) is not None:
        _put_operator(connection, event.cluster_id, operator, now, event)
    _change(connection, event.cluster_id, values, now)
    refresh(connection, {event.cluster_id}, now)


MOST_EVENTS: Final = 2_000
"""Number of latest events of a host or a cluster that are kept."""


def insert_event(
    connection: Connection, table: Table, of: Mapping[str, Any], event: Event, now: float
) -> bool:
    """Store an event. Return False if it was stored before: the assisted-service may send it again.

    `of` is the column that names its host or cluster, whose row is locked.
    """
    row = {**of, "event_time": event.time, "name": event.name, "message": event.message}
    if connection.execute(select(table.c.id).filter_by(**row).limit(1)).first() is not None:
        return False
    connection.execute(insert(table).values(**row, received_at=now, severity=event.severity))
    kept = select(table.c.id).filter_by(**of).order_by(table.c.id.desc())
    oldest = connection.execute(kept.offset(MOST_EVENTS - 1).limit(1)).scalar()
    if oldest is not None:
        name, number = next(iter(of.items()))
        connection.execute(delete(table).where(table.c[name] == number, table.c.id < oldest))
    return True


def add_logs(connection: Connection, cluster_id: str, new: NewObject, grant: Grant, now: float) -> str | None:
    """Replace a cluster's logs of that kind; return the earlier ones' key. Raises Refused, Forbidden."""
    _check(connection, cluster_id, grant)
    of_kind = (cluster_logs.c.cluster_id == cluster_id) & (cluster_logs.c.kind == new.kind)
    before: str | None = connection.execute(select(cluster_logs.c.key).where(of_kind)).scalar_one_or_none()
    connection.execute(delete(cluster_logs).where(of_kind))
    connection.execute(insert(cluster_logs).values(cluster_id=cluster_id, received_at=now, **asdict(new)))
    _change(connection, cluster_id, {"logs_state": "collecting"}, now)
    return before


def may_write(connection: Connection, cluster_id: str, grant: Grant) -> bool:
    """Return whether a token may report for a cluster: it may for one of its control-plane hosts.

    There the controller runs. Workers may not speak for the cluster.
    """
    if grant.may_administer:
        return True
    of = select(hosts.c.name, hosts.c.group).join(installations, installations.c.host_id == hosts.c.id)
    rows = connection.execute(
        of.where(installations.c.cluster_id == cluster_id, installations.c.role.in_(CONTROL_PLANE))
    )
    return any(grant.may_write(row.name, row.group) for row in rows)


def check_writable(connection: Connection, cluster_id: str, grant: Grant) -> None:
    """Raise Forbidden or Refused if a token may not report for a cluster."""
    if not may_write(connection, cluster_id, grant):
        raise Forbidden(f"this token may not write for cluster {cluster_id}")
    is_known = select(
        or_(
            exists().where(clusters.c.id == cluster_id),
            exists().where(installations.c.cluster_id == cluster_id),
        )
    )
    if not connection.execute(is_known).scalar_one():
        raise CallRefused(HTTPStatus.NOT_FOUND, f"cluster {cluster_id} was not found")


def refresh(connection: Connection, cluster_ids: Collection[str], now: float) -> None:
    """Store the states of clusters by their hosts; delete those without hosts."""
    for cluster_id in sorted(cluster_ids):
        _refresh(connection, cluster_id, now)


def _refresh(connection: Connection, cluster_id: str, now: float) -> None:
    row = _hold(connection, cluster_id)  # first: then the hosts are as the latest process left them
    installed = read_cluster_installations(connection, cluster_id)
    if not installed and (row is None or row.hosts):
        connection.execute(delete(clusters).where(clusters.c.id == cluster_id))
        return
    if row is None:
        _ensure(connection, cluster_id)
        row, installed = _hold(connection, cluster_id), read_cluster_installations(connection, cluster_id)
    snapshot = _snapshot(connection, row, installed, now)
    before = ClusterState(row.status)
    state = next_state(before, snapshot)
    if state is not before and snapshot.is_told:
        snapshot = replace(snapshot, is_told=False)  # from here on the hosts lead
        state = next_state(state, snapshot)
    values = {
        "status": state.value,
        "reason": row.completion_info or reason_of(state, snapshot),
        "is_told": snapshot.is_told,
        "since": row.since if row.since is not None and state is before else now,
        "hosts": len(snapshot.hosts),
        "needed_control_planes": snapshot.needed_control_planes,
        "installed_control_planes": snapshot.installed_control_planes,
        "defined_workers": snapshot.defined_workers,
        "installed_workers": snapshot.installed_workers,
        "joined": snapshot.joined,
    }
    if state in BEFORE:  # what a controller reported was of an earlier installation
        values |= {"csrs_approved": None, "finalizing_stage": "", "completion": "", "completion_info": ""}
        connection.execute(delete(cluster_operators).where(cluster_operators.c.cluster_id == cluster_id))
    if any(getattr(row, name) != value for name, value in values.items()):
        _change(connection, cluster_id, values, now)


def _snapshot(
    connection: Connection, row: Any, installed: Iterable[HostInstallation], now: float
) -> ClusterSnapshot:
    operators = connection.execute(select(cluster_operators).where(cluster_operators.c.cluster_id == row.id))
    absences = read_absences(connection, now)
    return ClusterSnapshot(
        hosts=[
            ClusterHost(
                name=each.host,
                role=each.installation.role,
                status=each.installation.without_absences(absences).status_at(now),
                stage=each.installation.stage,
                is_single_node=each.installation.is_single_node,
            )
            for each in installed
        ],
        control_planes=row.control_planes,
        workers=row.workers,
        operators=[Operator(name=each.name, status=each.status) for each in operators],
        finalizing_stage=row.finalizing_stage,
        completion=row.completion,
        is_told=row.is_told,
    )


def _check(connection: Connection, cluster_id: str, grant: Grant) -> None:
    check_writable(connection, cluster_id, grant)
    _ensure(connection, cluster_id)


def _ensure(connection: Connection, cluster_id: str) -> bool:
    """Create the row of a cluster if it is missing, and lock it. Return True if it was missing."""
    new = inserting(connection, clusters).values(id=cluster_id).returning(clusters.c.id)
    row = connection.execute(new.on_conflict_do_nothing(index_elements=["id"])).first()
    _hold(connection, cluster_id)
    return row is not None


def _hold(connection: Connection, cluster_id: str) -> Any:
    """Lock and return the row of a cluster, or None if it does not exist."""
    row = select(clusters).where(clusters.c.id == cluster_id)
    return connection.execute(row.with_for_update()).one_or_none()


def _change(connection: Connection, cluster_id: str, values: dict[str, Any], now: float) -> None:
    changed = {**values, "updated_at": now, "revision": clusters.c.revision + 1}
    connection.execute(update(clusters).where(clusters.c.id == cluster_id).values(changed))


def _put_operator(
    connection: Connection, cluster_id: str, operator: Operator, now: float, event: Event | None = None
) -> None:
    """Store the status of an operator; `event` reported it, unless it is older than the stored status."""
    of = (cluster_operators.c.cluster_id == cluster_id) & (cluster_operators.c.name == operator.name)
    before = connection.execute(select(cluster_operators).where(of)).one_or_none() if event else None
    if event and before:
        reported_at = before.updated_at if before.event_at is None else None
        if is_outdated(event, before.event_at, reported_at):
            return
    values: dict[str, Any] = {"status": operator.status, "info": operator.info, "updated_at": now}
    values["event_at"] = event.time if event else None
    if operator.version:  # an event of the service tells none
        values["version"] = operator.version
    if not connection.execute(update(cluster_operators).where(of).values(values)).rowcount:
        row = {"cluster_id": cluster_id, "name": operator.name, **values}
        connection.execute(insert(cluster_operators).values(row))


def _host_shown(host: HostInstallation, absences: Sequence[Absence], now: float) -> ClusterHostShown:
    installation = host.installation
    counted = installation.without_absences(absences)
    return ClusterHostShown(
        name=host.host,
        role=installation.role,
        is_bootstrap=installation.is_bootstrap,
        status=counted.status_at(now),
        status_info=counted.status_info_at(now),
        stage=installation.stage,
        info=installation.info,
        percentage=round(installation.percentage if host.percentage is None else host.percentage),
        stage_updated_at=installation.stage_updated_at,
        checked_in_at=installation.checked_in_at,
    )


def _is_readable(confined_to: str) -> ColumnElement[bool]:
    if not confined_to:
        return clusters.c.id == clusters.c.id
    of = select(hosts.c.id).join(installations, installations.c.host_id == hosts.c.id)
    of = of.where(installations.c.cluster_id == clusters.c.id)
    inside = is_within(hosts.c.group, confined_to)
    return of.where(inside).exists() & ~of.where(~inside).exists()


def _rows(connection: Connection, kind: type[T], table: Table, of: str, order: Any) -> tuple[T, ...]:
    query = columns_of(kind, table).where(table.c.cluster_id == of)
    return rows_as(connection, kind, query.order_by(order).limit(_LATEST_EVENTS))

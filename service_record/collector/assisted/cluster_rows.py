"""Clusters in the database: their states, the reports of their controllers, and their logs.

A cluster's stored state is updated when one of its hosts is judged, and with each report of its controller.
It is not computed when it is read: a state depends on the one before it, and lists are sorted, and metrics
counted, by state in SQL.
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

from service_record.collector.assisted.assisted_reports import parse_cluster_state, parse_operator_event
from service_record.collector.assisted.cluster_states import (
    BEFORE,
    CONTROL_PLANE,
    ClusterHost,
    ClusterSnapshot,
    ClusterState,
    Operator,
    explain_state,
    next_state,
)
from service_record.collector.assisted.installation_rules import (
    CLOCK_DIFFERENCE_SECONDS,
    CallRefused,
    Event,
    is_outdated,
)
from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.silence import Absence
from service_record.collector.store.absences import read_absences
from service_record.collector.store.dialects import insert_into
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
from service_record.collector.store.selecting import rows_as, select_columns
from service_record.http.collector_answers import ClusterSummary, ShownEvent

T = TypeVar("T")
MOST_LISTED: Final = 1000
_MAX_ROWS: Final = 100
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
"""Sort order of a list of clusters: clusters that need an action first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHostShown:
    """A host, as the details of its cluster show it. Times are seconds since 1970."""

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
    """All data of a cluster that its page and the API show."""

    summary: ClusterSummary
    hosts: tuple[ClusterHostShown, ...]
    """Control-plane hosts first; each part is sorted by name."""
    operators: tuple[OperatorShown, ...]
    logs: tuple[ClusterLogsShown, ...]
    events: tuple[ShownEvent, ...]
    """Latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObject:
    """Logs of a cluster, or a bundle of a host, whose content is already in the object store."""

    kind: str
    name: str
    key: str
    """The key in the object store."""
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefinition:
    """An administrator's definition of a cluster. A field is None if the definition does not set it."""

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
    """Return at most 1,000 clusters. Clusters that need an action come first.

    `named`: ids or names of the clusters to return; if empty, all clusters except those that were installed
    before the time `done_since`. `confined_to`: a group; clusters with a host outside of it are left out.
    """
    query = select_columns(ClusterSummary, clusters).where(_is_readable(confined_to))
    if named:
        query = query.where(is_named(named))
    elif done_since is not None:
        is_old = (clusters.c.status == ClusterState.INSTALLED.value) & (clusters.c.since < done_since)
        query = query.where(or_(clusters.c.since.is_(None), ~is_old))
    rank = case({state.value: place for place, state in enumerate(_ORDER)}, value=clusters.c.status, else_=0)
    query = query.order_by(rank, clusters.c.name, clusters.c.id).limit(MOST_LISTED)
    return rows_as(connection, ClusterSummary, query)


def find_oldest_shown(now: float) -> float:
    """Return the time before which an installed cluster is too old for a list."""
    return now - SHOWN_DONE


def show_cluster(
    connection: Connection, cluster_id: str, now: float, confined_to: str = ""
) -> ClusterDetail | None:
    """Return a cluster by its id or name.

    Returns None if there is no such cluster, or if not all of its hosts are in the group `confined_to`.
    """
    query = select_columns(ClusterSummary, clusters).where(_is_readable(confined_to), is_named([cluster_id]))
    summaries = rows_as(connection, ClusterSummary, query.order_by(clusters.c.id).limit(1))
    if not summaries:
        return None
    summary, found_id = summaries[0], summaries[0].id  # `cluster_id` may be a name
    in_order = sorted(  # stable: the rows are already sorted by name
        read_cluster_installations(connection, found_id),
        key=lambda each: each.installation.role not in CONTROL_PLANE,
    )
    absences = read_absences(connection, now)
    return ClusterDetail(
        summary=summary,
        hosts=tuple(_show_host(each, absences, now) for each in in_order),
        operators=_read_rows(
            connection, OperatorShown, cluster_operators, found_id, cluster_operators.c.name
        ),
        logs=_read_rows(connection, ClusterLogsShown, cluster_logs, found_id, cluster_logs.c.kind),
        events=_read_rows(connection, ShownEvent, cluster_events, found_id, cluster_events.c.id.desc()),
    )


def find_logs(connection: Connection, cluster_id: str, kind: str) -> tuple[str, str, int] | None:
    """Return the object key, the file name and the size in bytes of a cluster's logs of one kind.

    Returns None if there are no such logs.
    """
    query = select(cluster_logs.c.key, cluster_logs.c.name, cluster_logs.c.size).where(
        cluster_logs.c.cluster_id == cluster_id, cluster_logs.c.kind == kind
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.key, row.name, row.size)


def count_by_status(connection: Connection) -> dict[str, int]:
    """Return the number of clusters in each state, including states without clusters."""
    counted = select(clusters.c.status, func.count().label("number")).group_by(clusters.c.status)
    zeros = dict.fromkeys((state.value for state in ClusterState), 0)
    return zeros | {row.status: row.number for row in connection.execute(counted)}


def is_named(named: Iterable[str]) -> ColumnElement[bool]:
    """Return an SQL condition: the cluster has one of these ids or names. Case is ignored."""
    texts = [name.lower() for name in named]
    return or_(clusters.c.id.in_(texts), func.lower(clusters.c.name).in_(texts))


# Writing


def define(connection: Connection, cluster_id: str, definition: ClusterDefinition, now: float) -> bool:
    """Store an administrator's definition of a cluster. Return True if the cluster is new."""
    is_new = _create_and_lock(connection, cluster_id)
    values = {name: value for name, value in asdict(definition).items() if value is not None}
    if values:
        _update_row(connection, cluster_id, values, now)
    refresh(connection, {cluster_id}, now)
    return is_new


def report(connection: Connection, cluster_id: str, values: dict[str, Any], grant: Grant, now: float) -> None:
    """Store column values that a cluster's controller reported. Raises CallRefused or Forbidden."""
    _check_and_lock(connection, cluster_id, grant)
    _update_row(connection, cluster_id, values, now)
    refresh(connection, {cluster_id}, now)


def report_operator(
    connection: Connection, cluster_id: str, operator: Operator, grant: Grant, now: float
) -> None:
    """Store the status of an operator that the controller reported. Raises CallRefused or Forbidden."""
    _check_and_lock(connection, cluster_id, grant)
    _store_operator(connection, cluster_id, operator, now)
    _update_row(connection, cluster_id, {}, now)
    refresh(connection, {cluster_id}, now)


def add_event(connection: Connection, event: Event, grant: Grant, now: float) -> None:
    """Store an event of a cluster, and any state or operator status that it reports.

    Raises CallRefused or Forbidden.
    """
    _check_and_lock(connection, event.cluster_id, grant)
    if not insert_event(connection, cluster_events, {"cluster_id": event.cluster_id}, event, now):
        return
    before = connection.execute(select(clusters).where(clusters.c.id == event.cluster_id)).one()
    values: dict[str, Any] = {}
    if event.csrs_approved is not None:  # a running total; events may arrive out of order
        values["csrs_approved"] = max(event.csrs_approved, before.csrs_approved or 0)
    state = parse_cluster_state(event)
    if state is not None and not is_outdated(event, before.event_at, before.since):
        values |= _apply_state_event(state, event, before, now)
    if (operator := parse_operator_event(event)) is not None:
        _store_operator(connection, event.cluster_id, operator, now, event)
    _update_row(connection, event.cluster_id, values, now)
    refresh(connection, {event.cluster_id}, now)


def _apply_state_event(state: ClusterState, event: Event, before: Any, now: float) -> dict[str, Any]:
    """Return the changed columns of a cluster after an event that reports its state. `before` is its row."""
    has_failed = before.completion == "failure"
    if (
        state is ClusterState.FINALIZING
        and has_failed
        and event.time < before.since + CLOCK_DIFFERENCE_SECONDS
    ):
        return {}  # a late event of the attempt whose failure the controller reported
    values = {"status": state.value, "is_told": True, "event_at": event.time}
    if before.status != state:
        values["since"] = now
    values["completion_info"] = event.message if state is ClusterState.ERROR else ""
    is_new_attempt = state in {ClusterState.PREPARING, ClusterState.INSTALLING}
    if is_new_attempt or (state is ClusterState.FINALIZING and has_failed):
        values["completion"] = ""  # the result of an earlier attempt
    return values


MOST_EVENTS: Final = 2_000
"""Number of events kept for each host and each cluster. The oldest are deleted."""


def insert_event(
    connection: Connection, table: Table, owner: Mapping[str, Any], event: Event, now: float
) -> bool:
    """Store an event. Return False if it is already stored: the assisted-service may send an event again.

    `owner`: the column of `table` that refers to the event's host or cluster, and its value. The caller has
    locked the row of that host or cluster.
    """
    row = {**owner, "event_time": event.time, "name": event.name, "message": event.message}
    if connection.execute(select(table.c.id).filter_by(**row).limit(1)).first() is not None:
        return False
    connection.execute(insert(table).values(**row, received_at=now, severity=event.severity))
    newest_first = select(table.c.id).filter_by(**owner).order_by(table.c.id.desc())
    oldest_kept = connection.execute(newest_first.offset(MOST_EVENTS - 1).limit(1)).scalar()
    if oldest_kept is not None:
        column, value = next(iter(owner.items()))
        connection.execute(delete(table).where(table.c[column] == value, table.c.id < oldest_kept))
    return True


def add_logs(connection: Connection, cluster_id: str, new: NewObject, grant: Grant, now: float) -> str | None:
    """Replace a cluster's logs of one kind. Return the object key of the replaced logs, or None.

    Raises CallRefused or Forbidden.
    """
    _check_and_lock(connection, cluster_id, grant)
    of_kind = (cluster_logs.c.cluster_id == cluster_id) & (cluster_logs.c.kind == new.kind)
    before: str | None = connection.execute(select(cluster_logs.c.key).where(of_kind)).scalar_one_or_none()
    connection.execute(delete(cluster_logs).where(of_kind))
    connection.execute(insert(cluster_logs).values(cluster_id=cluster_id, received_at=now, **asdict(new)))
    _update_row(connection, cluster_id, {"logs_state": "collecting"}, now)
    return before


def may_write(connection: Connection, cluster_id: str, grant: Grant) -> bool:
    """Return True if a token may report for a cluster.

    The token needs write access to one of the cluster's control-plane hosts, because the controller runs on
    those. The token of a worker is not enough.
    """
    if grant.may_administer:
        return True
    query = select(hosts.c.name, hosts.c.group).join(installations, installations.c.host_id == hosts.c.id)
    rows = connection.execute(
        query.where(installations.c.cluster_id == cluster_id, installations.c.role.in_(CONTROL_PLANE))
    )
    return any(grant.may_write(row.name, row.group) for row in rows)


def check_writable(connection: Connection, cluster_id: str, grant: Grant) -> None:
    """Raise Forbidden if a token may not report for a cluster, CallRefused if the cluster is unknown."""
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
    """Update the stored states of clusters from their hosts. Delete clusters whose last host has left."""
    for cluster_id in sorted(cluster_ids):  # one order for all processes: their row locks cannot deadlock
        _refresh(connection, cluster_id, now)


def _refresh(connection: Connection, cluster_id: str, now: float) -> None:
    # Lock before the hosts are read: the read then sees the hosts that another process has just stored.
    row = _lock_row(connection, cluster_id)
    installed = read_cluster_installations(connection, cluster_id)
    # A cluster that an administrator defined has no hosts yet (row.hosts is 0): it stays.
    if not installed and (row is None or row.hosts):
        connection.execute(delete(clusters).where(clusters.c.id == cluster_id))
        return
    if row is None:
        _create_and_lock(connection, cluster_id)
        row, installed = _lock_row(connection, cluster_id), read_cluster_installations(connection, cluster_id)
    snapshot = _make_snapshot(connection, row, installed, now)
    before = ClusterState(row.status)
    state = next_state(before, snapshot)
    if state is not before and snapshot.is_told:
        # The hosts have left the state that the service reported; from now on they decide alone.
        snapshot = replace(snapshot, is_told=False)
        state = next_state(state, snapshot)
    failure = "" if state in BEFORE else row.completion_info
    values = {
        "status": state.value,
        "reason": failure or explain_state(state, snapshot),
        "is_told": snapshot.is_told,
        "since": row.since if row.since is not None and state is before else now,
        "hosts": len(snapshot.hosts),
        "needed_control_planes": snapshot.needed_control_planes,
        "installed_control_planes": snapshot.installed_control_planes,
        "defined_workers": snapshot.defined_workers,
        "installed_workers": snapshot.installed_workers,
        "joined": snapshot.joined,
    }
    if state in BEFORE:  # the controller's reports are about an earlier installation
        values |= {"csrs_approved": None, "finalizing_stage": "", "completion": "", "completion_info": ""}
        connection.execute(delete(cluster_operators).where(cluster_operators.c.cluster_id == cluster_id))
    if any(getattr(row, name) != value for name, value in values.items()):
        _update_row(connection, cluster_id, values, now)


def _make_snapshot(
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


def _check_and_lock(connection: Connection, cluster_id: str, grant: Grant) -> None:
    """Check that a token may report for a cluster, and lock the cluster's row.

    Raises CallRefused or Forbidden.
    """
    check_writable(connection, cluster_id, grant)
    _create_and_lock(connection, cluster_id)


def _create_and_lock(connection: Connection, cluster_id: str) -> bool:
    """Create the row of a cluster if it is missing, and lock it. Return True if it was missing."""
    new = insert_into(connection, clusters).values(id=cluster_id).returning(clusters.c.id)
    row = connection.execute(new.on_conflict_do_nothing(index_elements=["id"])).first()
    _lock_row(connection, cluster_id)
    return row is not None


def _lock_row(connection: Connection, cluster_id: str) -> Any:
    """Lock and return the row of a cluster, or None if it does not exist."""
    query = select(clusters).where(clusters.c.id == cluster_id)
    return connection.execute(query.with_for_update()).one_or_none()


def _update_row(connection: Connection, cluster_id: str, values: dict[str, Any], now: float) -> None:
    """Store column values of a cluster. Its revision always grows, so that open pages are updated."""
    changed = {**values, "updated_at": now, "revision": clusters.c.revision + 1}
    connection.execute(update(clusters).where(clusters.c.id == cluster_id).values(changed))


def _store_operator(
    connection: Connection, cluster_id: str, operator: Operator, now: float, event: Event | None = None
) -> None:
    """Store the status of an operator.

    `event`: the event that reported the status, or None for a report of the controller. An event that is
    older than the stored status changes nothing.
    """
    is_same = (cluster_operators.c.cluster_id == cluster_id) & (cluster_operators.c.name == operator.name)
    before = connection.execute(select(cluster_operators).where(is_same)).one_or_none() if event else None
    if event and before:
        reported_at = before.updated_at if before.event_at is None else None
        if is_outdated(event, before.event_at, reported_at):
            return
    values: dict[str, Any] = {"status": operator.status, "info": operator.info, "updated_at": now}
    values["event_at"] = event.time if event else None
    if operator.version:  # events do not have the version: keep the stored one
        values["version"] = operator.version
    if not connection.execute(update(cluster_operators).where(is_same).values(values)).rowcount:
        row = {"cluster_id": cluster_id, "name": operator.name, **values}
        connection.execute(insert(cluster_operators).values(row))


def _show_host(host: HostInstallation, absences: Sequence[Absence], now: float) -> ClusterHostShown:
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
    """Return an SQL condition: the cluster has hosts, and all of them are in the group `confined_to`.

    Without a group, the condition holds for every cluster.
    """
    if not confined_to:
        return clusters.c.id == clusters.c.id
    its_hosts = select(hosts.c.id).join(installations, installations.c.host_id == hosts.c.id)
    its_hosts = its_hosts.where(installations.c.cluster_id == clusters.c.id)
    inside = is_within(hosts.c.group, confined_to)
    return its_hosts.where(inside).exists() & ~its_hosts.where(~inside).exists()


def _read_rows(
    connection: Connection, kind: type[T], table: Table, cluster_id: str, order: Any
) -> tuple[T, ...]:
    """Return the first 100 rows of a cluster in a table, as objects of the type `kind`."""
    query = select_columns(kind, table).where(table.c.cluster_id == cluster_id)
    return rows_as(connection, kind, query.order_by(order).limit(_MAX_ROWS))

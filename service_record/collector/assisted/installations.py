"""Installations in the database: the assisted-service's view of hosts.

A new stage is also stored as a step of the host's build, so that a host has one history. For reports
other than steps, this module also finds or creates the host, and stores the time of the report.
"""

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, case, func, insert, select, update

from service_record.collector.assisted.assisted_reports import apply_event
from service_record.collector.assisted.cluster_rows import insert_event, refresh
from service_record.collector.assisted.host_states import DISCOVERY, PREPARATION, HostState
from service_record.collector.assisted.installation_rules import (
    CallRefused,
    Event,
    Installation,
    Mapped,
    apply_registration,
)
from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.steps import LONGEST_LOGS, ReportedStep, StepStatus, make_label
from service_record.collector.store.administration import begin_build
from service_record.collector.store.dialects import insert_into
from service_record.collector.store.host_rows import HostInstallation, read_installations
from service_record.collector.store.reporting import Report, record_steps
from service_record.collector.store.schema import events, hosts, installations
from service_record.collector.store.tokens import select_bad


@dataclass(frozen=True, slots=True)
class Arrival:
    """The host of a report, the rights of its token, and its time."""

    host: str
    grant: Grant
    at: float


@dataclass(frozen=True, slots=True)
class HostRef:
    """The key of a host in the database, with some of its columns."""

    id: int
    name: str
    group: str
    build: int


def admit_host(connection: Connection, arrival: Arrival) -> HostRef:
    """Lock or create the host of a report, store the report's time, and have the host judged again soon.

    Raises Forbidden if the token may not write for the host.
    """
    host = lock_or_create_host(connection, arrival)
    times = {
        "last_seen": _keep_later_time(hosts.c.last_seen, arrival.at),
        "updated_at": _keep_later_time(hosts.c.updated_at, arrival.at),
        "due_at": 0.0,
    }
    connection.execute(
        update(hosts).where(hosts.c.id == host.id).values(**times, revision=hosts.c.revision + 1)
    )
    return host


def lock_or_create_host(connection: Connection, arrival: Arrival) -> HostRef:
    """Lock a host, or create it. Raises Forbidden if the token may not write for it."""
    host = locked_host(connection, arrival.host)
    if host is None:
        return _create_host(connection, arrival)
    if not arrival.grant.may_write(host.name, host.group):
        raise _forbidden(arrival)
    return host


def _keep_later_time(column: Column[float], at: float) -> ColumnElement[float]:
    """Return the later of a time and the stored one: the clock may have been set back."""
    return case((column > at, column), else_=at)


def locked_host(connection: Connection, name: str) -> HostRef | None:
    """Return and lock the row of a host, or None."""
    row = connection.execute(
        select(hosts.c.id, hosts.c.name, hosts.c.group, hosts.c.build)
        .where(hosts.c.name == name)
        .with_for_update()
    ).one_or_none()
    return None if row is None else HostRef(row.id, row.name, row.group, row.build)


def read_group(connection: Connection, name: str) -> str | None:
    """Return the group of a host, or None if the host does not exist."""
    return connection.execute(select(hosts.c.group).where(hosts.c.name == name)).scalar_one_or_none()


def _create_host(connection: Connection, arrival: Arrival) -> HostRef:
    group = arrival.grant.group_of_new_host("")
    is_bad = select_bad(connection, {arrival.grant.token_id}, arrival.at)
    if is_bad or not arrival.grant.may_write(arrival.host, group):
        raise _forbidden(arrival)
    row = {"name": arrival.host, "group": group, "first_seen": arrival.at, "last_seen": arrival.at}
    new = insert_into(connection, hosts)
    connection.execute(new.values(row).on_conflict_do_nothing(index_elements=["name"]))
    host = locked_host(connection, arrival.host)
    assert host is not None  # noqa: S101  # just created, here or by another process
    return host


def _forbidden(arrival: Arrival) -> Forbidden:
    return Forbidden(f"this token may not write for {arrival.host}")


_ACTION: Final = "install"


class IdInUse(Exception):  # noqa: N818  # an answer, not a fault
    """Another host already has this id."""


def put(connection: Connection, host_id: int, mapped: Mapped, now: float) -> Installation:
    """Store the assisted-service's ids of a host. Its stage is kept unless the cluster changes.

    Raises IdInUse.
    """
    other = select(installations.c.host_id).where(
        installations.c.id == mapped.id, installations.c.host_id != host_id
    )
    if connection.execute(other).first() is not None:
        raise IdInUse(f"another host has the id {mapped.id} already")
    installed = read_installations(connection, installations.c.host_id == host_id)
    before = installed[0].installation if installed else None
    facts: dict[str, Any] = asdict(mapped)
    if not mapped.status:
        facts.pop("status")
    if before is None or (before.id, before.cluster_id) != (mapped.id, mapped.cluster_id):
        if mapped.status in DISCOVERY | PREPARATION:
            facts["stage"] = ""
        after = Installation(**facts, stage_started_at=now, stage_updated_at=now)
    else:
        after = replace(before, **facts)
    _save(connection, host_id, after)
    if before is not None and before.cluster_id != after.cluster_id:
        refresh(connection, {before.cluster_id}, now)
    return after


def map_host(connection: Connection, host: str, mapped: Mapped, now: float) -> None:
    """Store the assisted-service's ids of an existing host, by its name. Raises IdInUse."""
    ref = locked_host(connection, host)
    if ref is not None:
        put(connection, ref.id, mapped, now)


def find(connection: Connection, installed_id: str) -> HostInstallation | None:
    """Return the installation of the host with this id, or None."""
    return next(iter(read_installations(connection, installations.c.id == installed_id)), None)


def register(connection: Connection, arrival: Arrival, cluster_id: str) -> None:
    """Create the installation of a host in the stage `Rebooting`, unless it exists in that cluster.

    Its name is its id. Raises Forbidden.
    """
    before = find(connection, arrival.host)
    if before is not None and before.installation.cluster_id == cluster_id:
        return
    host = admit_host(connection, arrival)
    before = find(connection, arrival.host)  # another process may have registered it meanwhile
    if before is not None and before.installation.cluster_id == cluster_id:
        return
    mapped = Mapped(id=arrival.host, cluster_id=cluster_id)
    installation = put(connection, host.id, mapped, arrival.at)
    if before is not None:  # also if the host was in that cluster before
        begin_build(connection, arrival.host, cluster_id, _ACTION, arrival.at)
    build = cluster_id if before is not None or not host.build else ""
    _report(connection, arrival, installation, build)


def change(
    connection: Connection,
    installed_id: str,
    grant: Grant,
    now: float,
    do: Callable[[Installation], Installation],
) -> Installation:
    """Change an installation, and store a new stage as a step. Raises CallRefused or Forbidden."""
    installation = find(connection, installed_id)
    if installation is None or not grant.may_write(installation.host, installation.group):
        raise _unknown(installed_id, grant)
    locked_host(connection, installation.host)  # no other process changes it before the transaction ends
    before = (find(connection, installed_id) or installation).installation
    after = do(before)
    if after == before:
        return after
    arrival = Arrival(installation.host, grant, now)
    _save(connection, admit_host(connection, arrival).id, after)
    has_failed = after.status == HostState.ERROR and before.status != HostState.ERROR
    if has_failed or ((after.stage, after.info) != (before.stage, before.info) and after.stage):
        _report(connection, arrival, after)
    return after


def register_agent(connection: Connection, arrival: Arrival, infra_env_id: str) -> Installation:
    """Store that the agent of a host registered: it booted the discovery image.

    An unknown host is added to the cluster whose hosts are in that infra-env.

    Raises CallRefused or Forbidden.
    """
    if find(connection, arrival.host) is None:
        of_env = select(installations.c.cluster_id).where(installations.c.infra_env_id == infra_env_id)
        cluster_id = connection.execute(of_env.limit(1)).scalar_one_or_none()
        if cluster_id is None:
            raise CallRefused(HTTPStatus.NOT_FOUND, f"infra-env {infra_env_id} was not found")
        mapped = Mapped(
            id=arrival.host,
            cluster_id=cluster_id,
            infra_env_id=infra_env_id,
            role="auto-assign",
            status=HostState.DISCOVERING.value,
        )
        put(connection, admit_host(connection, arrival).id, mapped, arrival.at)
    return change(
        connection, arrival.host, arrival.grant, arrival.at, lambda host: apply_registration(host, arrival.at)
    )


def add_event(connection: Connection, event: Event, grant: Grant, now: float) -> None:
    """Store an event of a host, looked up by id or name. Raises CallRefused or Forbidden."""
    installation = find(connection, event.host_id)
    if installation is None and not grant.scope:
        raise _unknown(event.host_id, grant)
    host = admit_host(connection, Arrival(installation.host if installation else event.host_id, grant, now))
    if not insert_event(connection, events, {"host_id": host.id}, event, now):
        return
    if installation is not None:
        change(connection, event.host_id, grant, now, lambda host: apply_event(host, event, now))


def _unknown(installed_id: str, grant: Grant) -> Exception:
    """Return the refusal for an unknown host.

    Only an administrator learns that the host does not exist. Other tokens get the same answer as for a host
    for which they may not write.
    """
    if not grant.may_administer:
        return Forbidden(f"this token may not write for {installed_id}")
    return CallRefused(HTTPStatus.NOT_FOUND, f"host {installed_id} was not found")


def _save(connection: Connection, host_id: int, installation: Installation) -> None:
    values = asdict(installation)
    if not connection.execute(
        update(installations).where(installations.c.host_id == host_id).values(values)
    ).rowcount:
        connection.execute(insert(installations).values(host_id=host_id, **values))
    # Until the host reports a progress, that of its stage counts. Judging the host judges its cluster, too.
    progress = func.coalesce(hosts.c.percentage, float(installation.percentage))
    connection.execute(update(hosts).where(hosts.c.id == host_id).values(due_at=0.0, percentage=progress))


def _report(connection: Connection, arrival: Arrival, installation: Installation, build: str = "") -> None:
    has_failed = installation.status == HostState.ERROR
    name = "Installation failed" if has_failed else installation.stage
    step = ReportedStep(
        label=make_label(name),
        name=name,
        status=StepStatus.FAILED if has_failed else StepStatus.REPORTED,
        percentage=None if has_failed else float(installation.percentage),
        action=_ACTION,
        logs=(installation.info or installation.status_info)[:LONGEST_LOGS],
        build=build,
    )
    (result,) = record_steps(
        # A stage becomes a step when it changes, so it is never a repeated report.
        connection,
        [Report(arrival.host, step, arrival.at, arrival.grant, key=secrets.token_hex(16))],
    )
    if isinstance(result, Exception):
        raise result

"""Steps as they come, written down many at once: the steps, and how far the build of each host has come."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service_record.collector.access import Forbidden, Grant
from service_record.collector.progress import Ended, Progress, advance, begins_build, ended, first
from service_record.collector.steps import Step
from service_record.collector.store.schema import builds, counters, durations, hosts, steps
from service_record.diagnosis.signature import signature

_LONGEST_MESSAGE: Final = 500
"""Characters of what a fleet's table says of a host."""


@dataclass(frozen=True, slots=True)
class Report:
    """A step that a host reports."""

    host: str
    step: Step
    received_at: float
    grant: Grant
    is_last: bool = False
    """Whether it is the last of those that an operator defined."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Where a report went."""

    id: int
    build: int


@dataclass(slots=True)
class _Host:
    """A host while its reports are taken in."""

    row: Any
    progress: Progress | None
    last: Report | None = None
    revision: int = 0
    new_builds: list[Progress] = field(default_factory=list)


def record_steps(connection: Connection, reports: Sequence[Report], /) -> Sequence[Accepted | Exception]:
    """Write reports down, in order; a `Forbidden` in the place of one that may not be made."""
    found = _hosts(connection, reports)
    rows: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    results: list[Accepted | Exception] = []
    number = _first_number(connection, len(reports)) - 1
    for report in reports:
        host = found.get(report.host)
        if host is None or not report.grant.may_write(report.host, host.row.group):
            results.append(Forbidden(f"this token may not write for {report.host}"))
            continue
        finished = _advance(host, report)
        number += 1
        build = host.progress.number if host.progress else 0
        rows.append(_step_row(number, host.row.id, build, report))
        ends.extend(_duration_row(host, build, report, finish) for finish in finished)
        results.append(Accepted(number, build))
    touched = [host for host in found.values() if host.last is not None]
    _write(connection, touched, rows, ends)
    return results


def _hosts(connection: Connection, reports: Iterable[Report]) -> dict[str, _Host]:
    """The hosts of these reports, made where they are new, and kept from other processes meanwhile."""
    firsts = {report.host: report for report in reversed(list(reports))}
    wanted = select(hosts).where(hosts.c.name.in_(firsts)).order_by(hosts.c.id).with_for_update()
    rows = {row.name: row for row in connection.execute(wanted)}
    missing = [report for name, report in firsts.items() if name not in rows and _may_begin(report)]
    if missing:
        insert_new = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(hosts)
        connection.execute(
            insert_new.on_conflict_do_nothing(index_elements=["name"]),
            [_new_host(report) for report in missing],
        )
        rows = {row.name: row for row in connection.execute(wanted)}
    return {
        name: _Host(row, msgspec.json.decode(row.progress, type=Progress) if row.progress else None)
        for name, row in rows.items()
    }


def _may_begin(report: Report) -> bool:
    return report.grant.may_write(report.host, report.grant.group_of_new_host(report.step.group))


def _new_host(report: Report) -> dict[str, Any]:
    return {
        "name": report.host,
        "group": report.grant.group_of_new_host(report.step.group),
        "release": report.step.release,
        "first_seen": report.received_at,
        "last_seen": report.received_at,
    }


def _first_number(connection: Connection, count: int) -> int:
    """The first of so many numbers of steps that nobody has, or ever had."""
    taken = update(counters).where(counters.c.name == "steps").values(latest=counters.c.latest + count)
    latest: int = connection.execute(taken.returning(counters.c.latest)).scalar_one()
    return latest - count + 1


def _advance(host: _Host, report: Report) -> tuple[Ended, ...]:
    """Take a report in; what it ended."""
    step, now = report.step, report.received_at
    if host.progress is None or begins_build(host.progress, step, now):
        host.progress = first(step, (host.progress.number if host.progress else 0) + 1, now)
        host.new_builds.append(host.progress)
    finished = ended(host.progress, step, now)
    host.progress = advance(host.progress, step, now, is_last=report.is_last)
    host.last = report
    return finished


def _step_row(number: int, host_id: int, build: int, report: Report) -> dict[str, Any]:
    step = report.step
    return {
        "id": number,
        "host_id": host_id,
        "build": build,
        "label": step.label,
        "name": step.name,
        "status": step.status.value,
        "priority": step.priority,
        "percentage": step.percentage,
        "action": step.action,
        "logs": step.logs,
        "notes": "\n".join(step.notes),
        "boot_id": step.boot_id,
        "host_time": step.time,
        "received_at": report.received_at,
        "is_known": step.is_known,
    }


def _duration_row(host: _Host, build: int, report: Report, finish: Ended) -> dict[str, Any]:
    return {
        "host_id": host.row.id,
        "build": build,
        "label": finish.label,
        "group": host.row.group,
        "release": report.step.release or host.row.release,
        "seconds": finish.seconds,
        "status": finish.status.value,
        "signature": signature(finish.logs) if finish.status == "failed" else "",
        "ended_at": report.received_at,
    }


def _write(
    connection: Connection,
    touched: Sequence[_Host],
    step_rows: list[dict[str, Any]],
    duration_rows: list[dict[str, Any]],
) -> None:
    if step_rows:
        connection.execute(insert(steps), step_rows)
    if duration_rows:
        connection.execute(insert(durations), duration_rows)
    if not touched:
        return
    if new := [_build_row(host, progress) for host in touched for progress in host.new_builds]:
        connection.execute(insert(builds), new)
    connection.execute(_UPDATE_HOST, [_host_row(host) for host in touched])
    connection.execute(_UPDATE_BUILD, [_build_update(host) for host in touched])


def _build_row(host: _Host, progress: Progress) -> dict[str, Any]:
    return {
        "host_id": host.row.id,
        "number": progress.number,
        "key": progress.key,
        "action": progress.action,
        "release": host.last.step.release if host.last else "",
        "started_at": progress.started_at,
        "updated_at": progress.started_at,
    }


def _host_row(host: _Host) -> dict[str, Any]:
    progress, report = host.progress, host.last
    assert progress is not None  # noqa: S101  # a host that was touched has one
    assert report is not None  # noqa: S101
    said = report.step.name if not report.step.logs else f"{report.step.name}: {report.step.logs}"
    return {
        "of": host.row.id,
        "last_seen": report.received_at,
        "release": report.step.release or host.row.release,
        "build": progress.number,
        "action": progress.action,
        "percentage": progress.percentage,
        "message": said[:_LONGEST_MESSAGE],
        "started_at": progress.started_at,
        "updated_at": progress.updated_at,
        "ended_at": progress.ended_at,
        "progress": msgspec.json.encode(progress),
    }


def _build_update(host: _Host) -> dict[str, Any]:
    progress = host.progress
    assert progress is not None  # noqa: S101
    return {
        "of": host.row.id,
        "in": progress.number,
        "action": progress.action,
        "key": progress.key,
        "updated_at": progress.updated_at,
        "ended_at": progress.ended_at,
    }


def _columns(*names: str) -> Callable[[], dict[str, Any]]:
    return lambda: {name: bindparam(name) for name in names}


_UPDATE_HOST: Final = (
    update(hosts)
    .where(hosts.c.id == bindparam("of"))
    .values(
        **_columns(
            "last_seen",
            "release",
            "build",
            "action",
            "percentage",
            "message",
            "started_at",
            "updated_at",
            "ended_at",
            "progress",
        )(),
        due_at=0.0,  # judged again at once
        revision=hosts.c.revision + 1,
    )
)
_UPDATE_BUILD: Final = (
    update(builds)
    .where(builds.c.host_id == bindparam("of"), builds.c.number == bindparam("in"))
    .values(**_columns("action", "key", "updated_at", "ended_at")())
)

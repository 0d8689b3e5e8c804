"""Writes steps as they come, many at once: the steps, and how far builds are, late reports among them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Select, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.progress import (
    Progress,
    StepFinished,
    advance,
    begins_build,
    ended,
    first,
)
from service_record.collector.domain.steps import ReportedStep
from service_record.collector.store.judging import UPDATE_VERDICT, final_verdict
from service_record.collector.store.report_rows import (
    TELL_OF_HOST,
    UPDATE_BUILD,
    UPDATE_EARLIER_BUILD,
    UPDATE_HOST,
    build_change,
    build_row,
    duration_row,
    host_change,
    new_host,
    step_row,
)
from service_record.collector.store.schema import builds, counters, durations, hosts, steps
from service_record.collector.store.tokens import select_bad

_LATE: Final = 3600.0
"""Seconds without a report of a build after which a word for what is done to a host is not late any more."""


def earlier_build(
    connection: Connection, host_id: int, builds_here: Sequence[Progress], step: ReportedStep, now: float
) -> int | None:
    """The earlier build that a step is of; None where it is of the present one, or begins a new one.

    `builds_here` are the present one, last, and those before it of which the tables do not have everything
    yet. A build is known by its name, whenever that comes. Actions come again on purpose: a report that names
    nothing else is late when the latest build of that action was heard of within the hour, and did not have
    it yet; one that it had is of a host that starts over.
    """
    present = builds_here[-1]
    if not present.seen and not present.key:
        return None  # an administrator has begun it, for whatever comes next
    if step.build:
        return _named(connection, host_id, builds_here, step.build)
    if not step.action or step.action == present.action or not present.seen:
        return None
    return _late(connection, host_id, builds_here, step, now)


def _named(connection: Connection, host_id: int, builds_here: Sequence[Progress], name: str) -> int | None:
    for build in builds_here[-2::-1]:
        if build.key == name:
            return build.number
    before = _latest(host_id, builds_here[0].number)
    return connection.execute(before.where(builds.c.key == name)).scalars().first()


def _late(
    connection: Connection, host_id: int, builds_here: Sequence[Progress], step: ReportedStep, now: float
) -> int | None:
    """The latest build of the action of a step, if that is late for it."""
    for build in builds_here[-2::-1]:
        if build.action == step.action:
            is_late = now - build.updated_at <= _LATE and f"{step.label}:{step.status}" not in build.seen
            return build.number if is_late else None
    before = _latest(host_id, builds_here[0].number)
    row = connection.execute(before.where(builds.c.action == step.action)).first()
    if row is None or now - row.updated_at > _LATE or _has(connection, host_id, row.number, step):
        return None
    return int(row.number)


def _latest(host_id: int, before: int) -> Select[Any]:
    of_host = (builds.c.host_id == host_id) & (builds.c.number < before)
    return (
        select(builds.c.number, builds.c.updated_at).where(of_host).order_by(builds.c.number.desc()).limit(1)
    )


def _has(connection: Connection, host_id: int, build: int, step: ReportedStep) -> bool:
    of_build = (steps.c.host_id == host_id) & (steps.c.build == build)
    alike = (steps.c.label == step.label) & (steps.c.status == step.status.value)
    return connection.execute(select(steps.c.id).where(of_build, alike).limit(1)).first() is not None


@dataclass(frozen=True, slots=True)
class Report:
    """A step that a host reports."""

    host: str
    step: ReportedStep
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
    """The latest of its present build."""
    left: list[Progress] = field(default_factory=list)
    """Builds that were the present one before."""
    new_builds: list[dict[str, Any]] = field(default_factory=list)
    """Rows."""
    late: dict[int, float] = field(default_factory=dict)
    """Earlier build -> when it was heard of."""


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
        build, finished = _take(connection, host, report)
        number += 1
        step, now = report.step, report.received_at
        rows.append(step_row(number, host.row.id, build, step, now, notes=_notes(host, build)))
        ends.extend(duration_row(host.row, build, step.release, finish, now) for finish in finished)
        results.append(Accepted(number, build))
    _write(connection, found.values(), rows, ends)
    return results


def _hosts(connection: Connection, reports: Iterable[Report]) -> dict[str, _Host]:
    """The hosts of these reports, made where they are new, and kept from other processes meanwhile."""
    firsts = {report.host: report for report in reversed(list(reports))}
    wanted = select(hosts).where(hosts.c.name.in_(firsts)).order_by(hosts.c.id).with_for_update()
    rows = {row.name: row for row in connection.execute(wanted)}
    missing = [report for name, report in firsts.items() if name not in rows and _may_begin(report)]
    if missing:
        bad = select_bad(connection, {report.grant.token_id for report in missing}, missing[0].received_at)
        missing = [report for report in missing if report.grant.token_id not in bad]
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
    step = report.step
    return new_host(report.host, report.grant.group_of_new_host(step.group), step.release, report.received_at)


def _first_number(connection: Connection, count: int) -> int:
    """The first of so many numbers of steps that nobody has, or ever had."""
    taken = update(counters).where(counters.c.name == "steps").values(latest=counters.c.latest + count)
    latest: int = connection.execute(taken.returning(counters.c.latest)).scalar_one()
    return latest - count + 1


def _take(connection: Connection, host: _Host, report: Report) -> tuple[int, tuple[StepFinished, ...]]:
    """Take a report in: the build that it is of, and what it ended there."""
    step, now = report.step, report.received_at
    present = host.progress
    if present is None:
        host.progress = present = _begin(host, report, 1)
    elif (is_new := begins_build(present, step, now)) or (step.build and not present.key):
        earlier = earlier_build(connection, host.row.id, (*host.left, present), step, now)
        if earlier is not None:
            host.late[earlier] = now
            return earlier, ended(first(step, earlier, now), step, now)
        if is_new:
            host.left.append(present)
            present = _begin(host, report, present.number + 1)
    finished = ended(present, step, now)
    host.progress = advance(present, step, now, is_last=report.is_last)
    host.last = report
    return present.number, finished


def _begin(host: _Host, report: Report, number: int) -> Progress:
    progress = first(report.step, number, report.received_at)
    host.new_builds.append(build_row(host.row.id, progress, report.step.release))
    return progress


def _notes(host: _Host, build: int) -> tuple[str, ...]:
    latest = host.progress.number if host.progress else build
    return () if build == latest else (f"it came when build {latest} had begun",)


def _write(
    connection: Connection,
    found: Collection[_Host],
    step_rows: list[dict[str, Any]],
    duration_rows: list[dict[str, Any]],
) -> None:
    if step_rows:
        connection.execute(insert(steps), step_rows)
    if duration_rows:
        connection.execute(insert(durations), duration_rows)
    new_builds: list[dict[str, Any]] = []
    changed_hosts: list[dict[str, Any]] = []
    changed_builds: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    overtaken = [final_verdict(connection, host.row, build) for host in found for build in host.left]
    for host in found:
        new_builds += host.new_builds
        if host.progress is not None and host.last is not None:
            step, now = host.last.step, host.last.received_at
            changed_hosts.append(host_change(host.row, host.progress, step, now))
            changed_builds += (build_change(host.row.id, build) for build in (*host.left, host.progress))
        late += ({"of": host.row.id, "in": build, "updated_at": at} for build, at in host.late.items())
    if new_builds:
        connection.execute(insert(builds), new_builds)
    if changed_hosts:
        connection.execute(UPDATE_HOST, changed_hosts)
        connection.execute(UPDATE_BUILD, changed_builds)
    if overtaken:
        connection.execute(UPDATE_VERDICT, overtaken)
    if late:
        connection.execute(UPDATE_EARLIER_BUILD, late)
        connection.execute(TELL_OF_HOST, [{"of": host_id} for host_id in {row["of"] for row in late}])

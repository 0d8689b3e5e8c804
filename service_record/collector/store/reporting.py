"""Store batches of reported steps, and update the builds and hosts that they belong to.

This is the hot path of the collector. Do not add a query for each report: the number of statements must not
grow with the batch. Only late reports without a build name cost one query each.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import Column, Connection, Select, bindparam, delete, func, select, update

from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.progress import (
    Progress,
    StepFinished,
    advance,
    begin_progress,
    begins_build,
    list_finished_steps,
)
from service_record.collector.domain.retention import FAILURES
from service_record.collector.domain.steps import (
    REPEAT_SECONDS,
    ReportedStep,
    ReportIdentity,
    identify_report,
)
from service_record.collector.store.dialects import (
    ManyRows,
    among,
    ask,
    insert_into,
    is_among,
    is_sqlite,
    query_with_numbers,
    write_rows,
)
from service_record.collector.store.judging import UPDATE_VERDICTS, final_verdicts
from service_record.collector.store.schema import builds, bundles, durations, hosts, steps
from service_record.collector.store.tokens import select_bad
from service_record.diagnosis.failures import signature

_MAX_MESSAGE_CHARS: Final = 500
"""Length of the latest message of a host, as the table of the fleet shows it."""


def _step_row(
    accepted: "Accepted",
    report: "Report",
    identity: ReportIdentity,
    notes: tuple[str, ...],
) -> dict[str, Any]:
    """Return the row of a report. `notes` are added to the notes of the step itself."""
    step = report.step
    return {
        "id": accepted.id,
        "host_id": accepted.host_id,
        "build": accepted.build,
        "label": step.label,
        "name": step.name,
        "status": step.status.value,
        "priority": step.priority,
        "percentage": step.percentage,
        "action": step.action,
        "logs": step.logs,
        "notes": "\n".join((*step.notes, *notes)),
        "boot_id": step.boot_id,
        "host_time": step.time,
        "received_at": report.received_at,
        "is_known": step.is_known,
        "identity": identity.number,
    }


def _duration_row(host: Any, build: int, release: str, finish: StepFinished, now: float) -> dict[str, Any]:
    """Return a row of `durations` for a finished step. Time limits are learned from them; `host` is a row."""
    return {
        "host_id": host.id,
        "build": build,
        "label": finish.label,
        "group": host.group,
        "release": release or host.release,
        "seconds": finish.seconds,
        "status": finish.status.value,
        "signature": signature(finish.logs) if finish.status == "failed" else "",
        "ended_at": now,
    }


def build_row(host_id: int, progress: Progress, release: str) -> dict[str, Any]:
    """Return the row of a new build."""
    return {
        "host_id": host_id,
        "number": progress.number,
        "key": progress.key,
        "action": progress.action,
        "release": release,
        "started_at": progress.started_at,
        "updated_at": progress.started_at,
    }


def _build_change(host_id: int, progress: Progress) -> dict[str, Any]:
    """Return the parameters of `_UPDATE_BUILDS`."""
    return {
        "of": host_id,
        "in": progress.number,
        "action": progress.action,
        "key": progress.key,
        "updated_at": progress.updated_at,
        "ended_at": progress.ended_at,
    }


def _host_change(
    host: Any, progress: Progress, step: ReportedStep, now: float, due_at: float
) -> dict[str, Any]:
    """Return the parameters of `_UPDATE_HOSTS`. `host` is its row before the batch, `step` its last step."""
    message = step.name if not step.logs else f"{step.name}: {step.logs}"
    is_due = host.due_at is not None and host.due_at <= due_at
    return {
        "of": host.id,
        "last_seen": max(now, host.last_seen),
        "release": step.release or host.release,
        "build": progress.number,
        "action": progress.action,
        "percentage": progress.percentage,
        "message": message[:_MAX_MESSAGE_CHARS],
        "started_at": progress.started_at,
        "updated_at": progress.updated_at,
        "ended_at": progress.ended_at,
        "progress": _ENCODER.encode(progress),
        # A host that is due already stays so: an unchanged value saves PostgreSQL an index update.
        "due_at": host.due_at if is_due else due_at,
    }


_ENCODER: Final = msgspec.json.Encoder()
_PROGRESS: Final = msgspec.json.Decoder(Progress)
_INSERT_STEPS: Final = ManyRows(steps, steps.columns.keys())
_INSERT_DURATIONS: Final = ManyRows(
    durations, ["host_id", "build", "label", "group", "release", "seconds", "status", "signature", "ended_at"]
)
_INSERT_BUILDS: Final = ManyRows(
    builds, ["host_id", "number", "key", "action", "release", "started_at", "updated_at"]
)
_BUILD_KEYS: Final = {"host_id": "of", "number": "in"}
_UPDATE_BUILDS: Final = ManyRows(builds, ["action", "key", "updated_at", "ended_at"], keys=_BUILD_KEYS)
_UPDATE_EARLIER_BUILDS: Final = ManyRows(builds, ["updated_at"], keys=_BUILD_KEYS)
_NEXT_REVISION: Final = '"revision" = hosts."revision" + 1'
_UPDATE_HOSTS: Final = ManyRows(
    hosts,
    [
        *("last_seen", "release", "build", "action", "percentage", "message", "started_at", "updated_at"),
        *("ended_at", "progress", "due_at"),
    ],
    keys={"id": "of"},
    also=_NEXT_REVISION,
)
_UPDATE_HARDWARE: Final = ManyRows(hosts, ["hardware"], keys={"id": "of"}, also=_NEXT_REVISION)
_INCREASE_REVISION: Final = (
    update(hosts).where(hosts.c.id == bindparam("of")).values(revision=hosts.c.revision + 1)
)
"""Makes open pages of the host reload, for changes outside of its latest build."""


_LATE_SECONDS: Final = 3600.0
"""A report without a build name belongs to an earlier build only if that build reported within this time."""


class _EarlierBuilds:
    """The earlier builds that the reports of a batch may belong to, found with at most two queries."""

    def __init__(
        self, connection: Connection, by_name: "Mapping[str, _Host]", reports: Sequence["Report"]
    ) -> None:
        by_key: set[tuple[int, str]] = set()
        by_action: set[tuple[int, str]] = set()
        for report in reports:
            host = by_name.get(report.host)
            present = host.progress if host is not None else None
            if host is None or present is None:
                continue
            if report.step.build and report.step.build != present.key:
                by_key.add((host.row.id, report.step.build))
            elif not report.step.build and report.step.action not in {"", present.action}:
                by_action.add((host.row.id, report.step.action))
        self._named = _latest_builds(connection, builds.c.key, by_key)
        self._latest = _latest_builds(connection, builds.c.action, by_action)
        self._connection = connection

    def find_build(
        self, host_id: int, builds_here: Sequence[Progress], step: ReportedStep, now: float
    ) -> int | None:
        """Return the number of the earlier build that a step belongs to.

        Returns None if the step belongs to the present build or begins a new one. `builds_here` are builds of
        this batch that are not in the tables yet, in order; the last one is the present build.

        A step with a build name belongs to the build of that name, however late it is. An action, such as
        `install`, is repeated on purpose. So a step with only an action is late if the latest build of that
        action reported within the hour and did not have this step yet; otherwise the host starts over.
        """
        present = builds_here[-1]
        if not present.seen and not present.key:
            return None  # an administrator began this build for the next report
        if step.build:
            here = (build.number for build in builds_here[-2::-1] if build.key == step.build)
            before = self._named.get((host_id, step.build))
            return next(here, None if before is None else before[0])
        if not step.action or step.action == present.action or not present.seen:
            return None
        return self._find_late_build(host_id, builds_here, step, now)

    def _find_late_build(
        self, host_id: int, builds_here: Sequence[Progress], step: ReportedStep, now: float
    ) -> int | None:
        """Return the number of the latest build with the step's action if the step is late for it."""
        for build in builds_here[-2::-1]:
            if build.action == step.action:
                is_late = (
                    now - build.updated_at <= _LATE_SECONDS
                    and f"{step.label}:{step.status}" not in build.seen
                )
                return build.number if is_late else None
        number, updated_at = self._latest.get((host_id, step.action), (0, 0.0))
        if not number or now - updated_at > _LATE_SECONDS or self._has_step(host_id, number, step):
            return None
        return number

    def _has_step(self, host_id: int, build: int, step: ReportedStep) -> bool:
        values = {"host": host_id, "build": build, "label": step.label, "status": step.status.value}
        return self._connection.execute(_HAS_STEP, values).first() is not None


_HAS_STEP: Final = (
    select(steps.c.id)
    .where(
        steps.c.host_id == bindparam("host"),
        steps.c.build == bindparam("build"),
        steps.c.label == bindparam("label"),
        steps.c.status == bindparam("status"),
    )
    .limit(1)
)


def _latest_builds(
    connection: Connection, column: Column[str], pairs: Collection[tuple[int, str]]
) -> dict[tuple[int, str], tuple[int, float]]:
    """Return {(host id, text): (number, updated_at)} of each host's latest earlier build with that text.

    The text is compared with `column`, the key or the action of a build.
    """
    if not pairs:
        return {}
    host_ids, texts = zip(*sorted(pairs), strict=True)
    values = {"hosts": among(connection, host_ids), "texts": among(connection, texts)}
    (rows,) = ask(connection, (_latest_statement(is_sqlite(connection), column.name), values))
    return {(row.host_id, row.text): (row.number, row.updated_at) for row in rows}


@cache
def _latest_statement(is_on_sqlite: bool, name: str) -> Select[Any]:
    column = builds.c[name]
    latest = (
        select(builds.c.host_id, column.label("text"), func.max(builds.c.number).label("number"))
        .join(hosts, hosts.c.id == builds.c.host_id)
        .where(
            is_among(is_on_sqlite, builds.c.host_id, "hosts"),
            is_among(is_on_sqlite, column, "texts"),
            builds.c.number < hosts.c.build,
        )
        .group_by(builds.c.host_id, column)
        .subquery()
    )
    is_latest = (builds.c.host_id == latest.c.host_id) & (builds.c.number == latest.c.number)
    return select(latest, builds.c.updated_at).join(builds, is_latest)


class Report(msgspec.Struct, frozen=True, gc=False):
    """A reported step, with the context of its request."""

    host: str
    step: ReportedStep
    received_at: float
    grant: Grant
    is_last: bool = False
    """True if an operator defined this step as the last one of a build."""
    due_at: float = 0.0
    """The time from which any process may judge the host; 0 means at once. This process judges it at once."""
    key: str = ""
    """The sender's id of this report, or empty."""


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The ids of an accepted report."""

    id: int
    build: int
    host_id: int


class ReusedKeyError(Exception):
    """A report has the id of a different report of its host. It is not stored."""


@dataclass(slots=True)
class _Host:
    """A host and its changes while a batch is processed."""

    row: Any
    progress: Progress | None
    last: Report | None = None
    """The latest report of the present build."""
    left: list[Progress] = field(default_factory=list)
    """Builds that were replaced by a newer one in this batch."""
    new_builds: list[dict[str, Any]] = field(default_factory=list)
    """The rows of builds that began in this batch."""
    late: dict[int, float] = field(default_factory=dict)
    """Number of an earlier build -> time of its late report."""
    has_unknown: bool = False
    """True if the batch has a step that no operator defined."""
    hardware: str = ""
    """The hardware that a report of the batch names."""


def record_steps(connection: Connection, reports: Sequence[Report], /) -> Sequence[Accepted | Exception]:
    """Store reports and return their results in the same order.

    The result of a report that is not stored is an exception: `Forbidden` or `ReusedKeyError`.
    """
    identities = [identify_report(report.host, report.step, report.key) for report in reports]
    by_name, numbers, seen = _lock_hosts(connection, reports, identities)
    earlier = _EarlierBuilds(connection, by_name, reports)
    rows: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    results: list[Accepted | Exception] = []
    for number, report, identity in zip(numbers, reports, identities, strict=True):
        host = by_name.get(report.host)
        if host is None or not report.grant.may_write(report.host, host.row.group):
            results.append(Forbidden(f"this token may not write for {report.host}"))
            continue
        if (answer := seen.find(host, report, identity)) is not None:
            results.append(answer)
            continue
        host.hardware = report.step.hardware or host.hardware
        if not report.step.is_known:
            # The answer will be a refusal: the step is stored, but changes neither verdicts nor deadlines.
            accepted = Accepted(number, host.progress.number if host.progress else 1, host.row.id)
            rows.append(_step_row(accepted, report, identity, ()))
            host.has_unknown = True
        else:
            build, finished = _apply(earlier, host, report)
            step, now = report.step, report.received_at
            accepted = Accepted(number, build, host.row.id)
            rows.append(_step_row(accepted, report, identity, _note_late_report(host, build)))
            ends.extend(_duration_row(host.row, build, step.release, finish, now) for finish in finished)
        results.append(accepted)
        seen.add(accepted, report, identity)
    _write(connection, by_name.values(), rows, ends)
    return results


class _StoredReport(msgspec.Struct, frozen=True, gc=False):
    accepted: Accepted
    label: str
    status: str
    received_at: float


class _Seen:
    """Finds repeated reports: earlier reports with the same identity, all found with one query.

    The query runs while the hosts are locked, so no other process can store a report of them meanwhile.
    """

    def __init__(self, rows: Sequence[Any]) -> None:
        self._reports = {
            # Ordered by id: the latest report of an identity wins.
            (row.host_id, row.identity): _StoredReport(
                Accepted(row.id, row.build, row.host_id), row.label, row.status, row.received_at
            )
            for row in rows
        }

    def find(
        self, host: "_Host", report: "Report", identity: ReportIdentity
    ) -> "Accepted | ReusedKeyError | None":
        """Return the answer that a repeated report got the first time, or None if the report is new.

        A report without an id and without a time is a repetition only of the latest report of its host. After
        another report it may be a step that starts over.
        """
        earlier = self._reports.get((host.row.id, identity.number))
        if earlier is None:
            return None
        if not identity.has_id:
            is_recent = abs(report.received_at - earlier.received_at) <= REPEAT_SECONDS
            latest_at = host.progress.updated_at if host.progress else 0.0
            is_repeat = is_recent and (report.step.time is not None or latest_at <= earlier.received_at)
            return earlier.accepted if is_repeat else None
        if (earlier.label, earlier.status) != (report.step.label, report.step.status.value):
            return ReusedKeyError(
                f"step {earlier.accepted.id} ({earlier.label}) of {report.host} has this id"
            )
        return earlier.accepted

    def add(self, accepted: Accepted, report: "Report", identity: ReportIdentity) -> None:
        """Add a report, for later reports of the same batch."""
        step = report.step
        self._reports[accepted.host_id, identity.number] = _StoredReport(
            accepted, step.label, step.status.value, report.received_at
        )


@cache
def _seen_statement(is_on_sqlite: bool) -> Select[Any]:
    columns = (
        steps.c[name] for name in ("id", "host_id", "build", "label", "status", "received_at", "identity")
    )
    return select(*columns).where(is_among(is_on_sqlite, steps.c.identity, "identities")).order_by(steps.c.id)


def _lock_hosts(
    connection: Connection, reports: Sequence[Report], identities: Sequence[ReportIdentity]
) -> tuple[dict[str, _Host], Sequence[int], _Seen]:
    """Lock the hosts of these reports, and create missing ones.

    Returns the hosts by name, one new step number for each report, and the earlier reports with the same
    identities. A host is missing from the result if the sender may not create it.
    """
    is_on_sqlite = is_sqlite(connection)
    firsts = {report.host: report for report in reversed(reports)}
    query, names = _lock_statement(is_on_sqlite), {"names": among(connection, list(firsts))}
    numbers_of_identities = among(connection, [identity.number for identity in identities])
    seen_query = (_seen_statement(is_on_sqlite), {"identities": numbers_of_identities})
    rows, numbers, seen = query_with_numbers(connection, (query, names), len(reports), seen_query)
    rows_by_name = {row.name: row for row in rows}
    missing = [report for name, report in firsts.items() if name not in rows_by_name and _may_create(report)]
    if missing:
        bad = select_bad(connection, {report.grant.token_id for report in missing}, missing[0].received_at)
        missing = [report for report in missing if report.grant.token_id not in bad]
    if missing:
        # Sorted: processes that create the same hosts at the same time would deadlock otherwise.
        new = sorted((_new_host(report) for report in missing), key=lambda row: str(row["name"]))
        making = insert_into(connection, hosts).on_conflict_do_nothing(index_elements=["name"])
        new_ids = connection.execute(making.returning(hosts.c.id), new).all()
        # If another process created a host meanwhile, its steps may have higher numbers than those drawn
        # above, and may be the same reports. New numbers keep the steps of each host in order.
        count = len(reports) if len(new_ids) < len(new) else 0
        names = {"names": among(connection, [str(row["name"]) for row in new])}
        rows, later_numbers, seen = query_with_numbers(connection, (query, names), count, seen_query)
        rows_by_name |= {row.name: row for row in rows}
        numbers = later_numbers or numbers
    by_name = {
        name: _Host(row, _PROGRESS.decode(row.progress) if row.progress else None)
        for name, row in rows_by_name.items()
    }
    return by_name, numbers, _Seen(seen)


@cache
def _lock_statement(is_on_sqlite: bool) -> Select[Any]:
    """Return the query that locks hosts. Ordered by id: a common order prevents deadlocks."""
    names = ("id", "name", "group", "release", "last_seen", "build", "progress", "hardware")
    judged = ("verdict", "reason", "verdict_since", "due_at", "records_verdict")
    columns = (hosts.c[name] for name in (*names, *judged))  # rows of hosts are long
    named = is_among(is_on_sqlite, hosts.c.name, "names")
    return select(*columns).where(named).order_by(hosts.c.id).with_for_update()


def _may_create(report: Report) -> bool:
    return report.grant.may_write(report.host, report.grant.group_of_new_host(report.step.group))


def _new_host(report: Report) -> dict[str, Any]:
    """Return the row of a new host."""
    group, now = report.grant.group_of_new_host(report.step.group), report.received_at
    names = {"name": report.host, "group": group, "release": report.step.release}
    return {**names, "first_seen": now, "last_seen": now, "due_at": report.due_at}


def _apply(earlier: _EarlierBuilds, host: _Host, report: Report) -> tuple[int, tuple[StepFinished, ...]]:
    """Apply a report to its host. Return the number of its build, and the steps that it finished there."""
    step, now = report.step, report.received_at
    present = host.progress
    if present is None:
        host.progress = present = _begin_build(host, report, 1)
    elif (is_new := begins_build(present, step, now)) or (step.build and not present.key):
        number = earlier.find_build(host.row.id, (*host.left, present), step, now)
        if number is not None:
            host.late[number] = now
            return number, list_finished_steps(begin_progress(step, number, now), step, now)
        if is_new:
            host.left.append(present)
            present = _begin_build(host, report, present.number + 1)
    finished = list_finished_steps(present, step, now)
    host.progress = advance(present, step, now, is_last=report.is_last)
    host.last = report
    return present.number, finished


def _begin_build(host: _Host, report: Report, number: int) -> Progress:
    progress = begin_progress(report.step, number, report.received_at)
    host.new_builds.append(build_row(host.row.id, progress, report.step.release))
    return progress


def _note_late_report(host: _Host, build: int) -> tuple[str, ...]:
    latest = host.progress.number if host.progress else build
    return () if build == latest else (f"it came when build {latest} had begun",)


def _write(
    connection: Connection,
    host_rows: Collection[_Host],
    step_rows: list[dict[str, Any]],
    duration_rows: list[dict[str, Any]],
) -> None:
    new_builds: list[dict[str, Any]] = []
    changed_hosts: list[dict[str, Any]] = []
    changed_builds: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    overtaken = final_verdicts(connection, [(host.row, build) for host in host_rows for build in host.left])
    for host in host_rows:
        new_builds += host.new_builds
        if host.progress is not None and host.last is not None:
            step, now = host.last.step, host.last.received_at
            changed_hosts.append(_host_change(host.row, host.progress, step, now, host.last.due_at))
            changed_builds += (_build_change(host.row.id, build) for build in (*host.left, host.progress))
        late += ({"of": host.row.id, "in": build, "updated_at": at} for build, at in host.late.items())
    changed_hardware = [
        {"of": host.row.id, "hardware": host.hardware}
        for host in host_rows
        if host.hardware not in {"", host.row.hardware}
    ]
    write_rows(
        connection,
        (_INSERT_STEPS, step_rows),
        (_INSERT_DURATIONS, duration_rows),
        (_INSERT_BUILDS, new_builds),
        (_UPDATE_HOSTS, changed_hosts),
        (_UPDATE_BUILDS, changed_builds),
        (UPDATE_VERDICTS, overtaken),
        (_UPDATE_EARLIER_BUILDS, late),
        (_UPDATE_HARDWARE, changed_hardware),
    )
    changed = {host.row.id for host in host_rows if host.late or host.has_unknown}
    if changed:
        connection.execute(_INCREASE_REVISION, [{"of": host_id} for host_id in sorted(changed)])
    # Checking the quota is expensive, so only every 100th step number triggers it. This needs no counter.
    for host_id, build in {(row["host_id"], row["build"]) for row in step_rows if row["id"] % 100 == 0}:
        _delete_middle_reports(connection, host_id, build)
    for host_id in {row["host_id"] for row in step_rows if row["logs"] and row["id"] % 100 == 0}:
        _delete_middle_logs(connection, host_id)
    for host_id, build in {(row["host_id"], row["number"]) for row in new_builds}:
        if build > MOST_BUILDS:
            _delete_early_builds(connection, host_id, build - MOST_BUILDS)


FIRST_KEPT: Final = 100
LAST_KEPT: Final = 5_000
"""A build keeps at least its first 100 and last 5,000 reports. Only a host in a loop sends more. `Progress`
counts all of them.
"""
MOST_BUILDS: Final = 200
"""Number of latest builds of a host to keep, besides its first build, failures and builds with bundles."""
MOST_LOG_BYTES: Final = 64 << 20
FIRST_LOG_BYTES: Final = 8 << 20
LAST_LOG_BYTES: Final = 48 << 20
"""If the logs in all reports of a host exceed `MOST_LOG_BYTES`, only the first and last ones are kept."""
_MAX_FAILURES: Final = 20
"""Number of earliest failed builds of a host that are kept."""
_LOGS_DELETED_NOTE: Final = "the logs were deleted: this host has sent too many"


_LAST_KEPT_STEP: Final = (
    select(steps.c.id)
    .where(steps.c.host_id == bindparam("host"), steps.c.build == bindparam("build"))
    .order_by(steps.c.id.desc())
    .offset(bindparam("later"))
    .limit(1)
)


def _delete_middle_reports(connection: Connection, host_id: int, build: int) -> None:
    """Delete the reports between the first and last ones of a build, so that a loop cannot fill the disk."""
    values = {"host": host_id, "build": build, "later": LAST_KEPT - 1}
    if not ask(connection, (_LAST_KEPT_STEP, values))[0]:
        return
    for table in (steps, durations):
        of_build = (table.c.host_id == host_id) & (table.c.build == build)
        ids = select(table.c.id).where(of_build)
        last = connection.execute(ids.order_by(table.c.id.desc()).offset(LAST_KEPT - 1).limit(1)).scalar()
        if last is None:
            return  # a build has no more durations than steps, and no index finds those of one build
        first = connection.execute(ids.order_by(table.c.id).offset(FIRST_KEPT - 1).limit(1)).scalar()
        if first is not None and first < last:
            connection.execute(delete(table).where(of_build, table.c.id > first, table.c.id < last))


def _delete_middle_logs(connection: Connection, host_id: int) -> None:
    """Delete the logs between the first and last ones of a host if it has too many. The reports are kept."""
    size = func.length(steps.c.logs)
    of_host = (steps.c.host_id == host_id) & (steps.c.logs != "")
    total = connection.execute(select(func.coalesce(func.sum(size), 0)).where(of_host)).scalar_one()
    if total <= MOST_LOG_BYTES:
        return
    upto = func.sum(size).over(order_by=steps.c.id).label("upto")
    sums = select(steps.c.id, upto).where(of_host).subquery()
    between = (sums.c.upto > FIRST_LOG_BYTES) & (sums.c.upto <= int(total) - LAST_LOG_BYTES)
    ids = select(sums.c.id).where(between)
    connection.execute(update(steps).where(steps.c.id.in_(ids)).values(logs="", notes=_LOGS_DELETED_NOTE))


def _delete_early_builds(connection: Connection, host_id: int, before: int) -> None:
    """Delete builds up to number `before` with their reports, so that new builds cannot fill the disk.

    The first build, the earliest failures and builds with bundles are kept.
    """
    of_host = (builds.c.host_id == host_id) & (builds.c.number > 1) & (builds.c.number <= before)
    failures = (
        select(builds.c.number)
        .where(builds.c.host_id == host_id, builds.c.verdict.in_(FAILURES))
        .order_by(builds.c.number)
        .limit(_MAX_FAILURES)
    )
    with_bundles = select(bundles.c.build).where(bundles.c.host_id == host_id)
    kept = {*connection.execute(failures).scalars(), *connection.execute(with_bundles).scalars()}
    found = connection.execute(select(builds.c.number).where(of_host)).scalars()
    early = [number for number in found if number not in kept]
    for table, column in ((steps, steps.c.build), (durations, durations.c.build), (builds, builds.c.number)):
        connection.execute(delete(table).where(table.c.host_id == host_id, column.in_(early)))

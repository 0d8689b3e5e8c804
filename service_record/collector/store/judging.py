"""Find the hosts whose verdict is due, judge them and store the verdicts; each by one process."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select

from service_record.collector.assisted import installation_rules
from service_record.collector.assisted.cluster_rows import refresh
from service_record.collector.assisted.host_states import Signal
from service_record.collector.domain.mutes import has_news
from service_record.collector.domain.progress import Progress
from service_record.collector.domain.silence import SilenceBudgets, find_limit_start
from service_record.collector.domain.verdicts import (
    FleetVerdict,
    HostFacts,
    HostVerdict,
    InstallationFacts,
    RecordsVerdict,
    judge,
    judge_overtaken,
    make_cause_id,
)
from service_record.collector.store.dialects import ManyRows, among, ask, is_among, is_sqlite, write_rows
from service_record.collector.store.notices import active_mutes
from service_record.collector.store.schema import builds, hosts, installations, notices


@dataclass(frozen=True, slots=True)
class Judged:
    """A host whose verdict has changed."""

    host: str
    before: str
    verdict: HostVerdict


def next_due(connection: Connection) -> float | None:
    """Return the time at which the next verdict is due, or None."""
    at: float | None = connection.execute(select(func.min(hosts.c.due_at))).scalar_one()
    return at


def list_due_labels(connection: Connection, now: float, most: int, ours: Sequence[int] = ()) -> Sequence[str]:
    """Return the labels of the latest steps of due hosts: their budgets are needed to judge them.

    `ours` are hosts that just reported to this process. Other processes do not judge them yet.
    """
    due = _progress_due(is_sqlite(connection))
    blobs = connection.execute(due, _parameters(connection, ours, now, most)).scalars()
    return [_LATEST.decode(blob).label if blob else "" for blob in blobs]


def judge_due(
    connection: Connection,
    budgets: SilenceBudgets,
    labels: Collection[str],
    now: float,
    *,
    most: int,
    loop_after: int,
    ours: Sequence[int] = (),
) -> Sequence[Judged] | None:
    """Judge the hosts that are due and whose steps are among `labels`, and store the changes.

    Returns None if no host was due. Hosts that another process has locked are skipped.
    """
    query, values = _due(is_sqlite(connection)), _parameters(connection, ours, now, most)
    due = [(row, _host_facts(row, budgets, now)) for row in connection.execute(query, values)]
    judged = [
        (row, judge(facts, budgets, now, loop_after))
        for row, facts in due
        if (facts.progress.label if facts.progress else "") in labels
    ]
    if not judged:
        return None
    changed = [(row, verdict) for row, verdict in judged if _is_changed(row, verdict)]
    others = [(row, verdict) for row, verdict in changed if row.verdict != verdict.verdict]
    news = [  # that a new host is progressing is not worth a notice
        (row, verdict)
        for row, verdict in others
        if row.verdict_since is not None or verdict.verdict is not FleetVerdict.PROGRESSING
    ]
    write_rows(
        connection,
        (_UPDATE_HOSTS, [_host_row(row, verdict, budgets, now) for row, verdict in judged]),
        (UPDATE_VERDICTS, [_build_row(row, verdict) for row, verdict in changed]),
        (_INSERT_NOTICES, [_notice(row, verdict, now) for row, verdict in _unmuted(connection, news, now)]),
    )
    refresh(connection, {row.cluster_id for row, _ in judged if row.cluster_id is not None}, now)
    return [Judged(row.name, row.verdict, verdict) for row, verdict in others]


def final_verdicts(
    connection: Connection, overtaken: Sequence[tuple[Any, Progress]]
) -> Sequence[dict[str, Any]]:
    """Return the parameters of UPDATE_VERDICTS for builds that a newer build replaces, given (host row,
    build).
    """
    # Only a bad verdict can become that of the build, so most calls need no query.
    is_judged = _have_judged_builds(
        connection,
        [row for row, build in overtaken if build.number == row.build and FleetVerdict(row.verdict).is_bad],
    )
    return [_final_verdict(row, build, is_judged=row.id in is_judged) for row, build in overtaken]


def _final_verdict(row: Any, progress: Progress, *, is_judged: bool) -> dict[str, Any]:
    facts = HostFacts(
        heard_at=progress.updated_at,
        progress=progress,
        records=_records(row) if progress.number == row.build else None,
    )
    last = None
    if progress.number == row.build and is_judged:
        last = HostVerdict(FleetVerdict(row.verdict), row.reason, row.verdict_since)
    verdict, reason = judge_overtaken(facts, last)
    return {"of": row.id, "in": progress.number, "verdict": verdict, "reason": reason}


def _have_judged_builds(connection: Connection, rows: Sequence[Any]) -> set[int]:
    """Return the hosts whose verdict belongs to their latest build. Before it is judged, it does not."""
    if not rows:
        return set()
    query = _of_present_builds(is_sqlite(connection))
    (rows_of_builds,) = ask(connection, (query, {"hosts": among(connection, [row.id for row in rows])}))
    of_builds = {build.host_id: (build.verdict, build.reason) for build in rows_of_builds}
    return {
        row.id
        for row in rows
        if row.verdict_since is not None and of_builds.get(row.id) == (row.verdict, row.reason)
    }


@cache
def _of_present_builds(is_on_sqlite: bool) -> Select[Any]:
    is_present = (builds.c.host_id == hosts.c.id) & (builds.c.number == hosts.c.build)
    return (
        select(builds.c.host_id, builds.c.verdict, builds.c.reason)
        .join(hosts, is_present)
        .where(is_among(is_on_sqlite, hosts.c.id, "hosts"))
    )


class _Latest(msgspec.Struct):
    """The fields of `Progress` that budgets depend on. Decoding only these is faster."""

    label: str = ""


_LATEST: Final = msgspec.json.Decoder(_Latest)
_PROGRESS: Final = msgspec.json.Decoder(Progress)


def _host_facts(row: Any, budgets: SilenceBudgets, now: float) -> HostFacts:
    return HostFacts(
        heard_at=_last_contact(row),
        group=row.group,
        release=row.release,
        progress=_PROGRESS.decode(row.progress) if row.progress else None,
        installation=_installation(row, budgets, now) if row.stage is not None else None,
        records=_records(row),
    )


def _last_contact(row: Any) -> float:
    last_seen: float = row.last_seen
    return max(last_seen, row.updated_at or 0.0)


def _records(row: Any) -> RecordsVerdict | None:
    blob = row.records_verdict
    return msgspec.json.decode(blob, type=RecordsVerdict) if blob else None


def _installation(row: Any, budgets: SilenceBudgets, now: float) -> InstallationFacts:
    """Return the installation of a host.

    A host is not late with its reboot if it sent a record or a step within the time limit.
    """
    columns = _rules(row)
    move = columns.without_absences(budgets.absences).silence_at(now)
    is_heard = now - find_limit_start(_last_contact(row), columns.limit, budgets.absences) <= columns.limit
    if move is not None and move.signal is Signal.REBOOT_IS_LATE and is_heard:
        move = None
    return InstallationFacts(
        stage=columns.stage,
        status=columns.status if move is None else move.to.value,
        info=(columns.status_info if move is None else move.info) or columns.info,
        updated_at=columns.stage_updated_at,
        limit=columns.limit,
    )


def _rules(row: Any) -> installation_rules.Installation:
    return installation_rules.Installation(
        **{name: getattr(row, label) for name, label in _INSTALLATION.items()}
    )


def _is_changed(row: Any, verdict: HostVerdict) -> bool:
    return (row.verdict, row.reason) != (verdict.verdict.value, verdict.reason)


def _unmuted(
    connection: Connection, news: Sequence[tuple[Any, HostVerdict]], now: float
) -> Sequence[tuple[Any, HostVerdict]]:
    """Remove changes that are muted."""
    mutes = active_mutes(connection, now) if news else ()
    if not mutes:
        return news
    return [
        (row, verdict)
        for row, verdict in news
        if has_news(
            mutes,
            row.name,
            row.group,
            before=row.cause,
            cause=make_cause_id(verdict.verdict, verdict.reason, row.name),
            verdict=verdict.verdict,
        )
    ]


def _host_row(row: Any, verdict: HostVerdict, budgets: SilenceBudgets, now: float) -> dict[str, Any]:
    changes_at = None if row.stage is None else _rules(row).without_absences(budgets.absences).changes_at(now)
    times = [
        at for at in (verdict.due_at, None if changes_at is None else changes_at + _AFTER) if at is not None
    ]
    return {
        "of": row.id,
        "verdict": verdict.verdict.value,
        "reason": verdict.reason,
        "cause": make_cause_id(verdict.verdict, verdict.reason, row.name),
        "verdict_since": verdict.since,
        "due_at": min(times, default=None),
        "revision": row.revision + int(_is_changed(row, verdict)),
    }


def _build_row(row: Any, verdict: HostVerdict) -> dict[str, Any]:
    return {"of": row.id, "in": row.build, "verdict": verdict.verdict.value, "reason": verdict.reason}


def _notice(row: Any, verdict: HostVerdict, now: float) -> dict[str, Any]:
    return {
        "host_id": row.id,
        "build": row.build,
        "verdict": verdict.verdict.value,
        "before": row.verdict,
        "reason": verdict.reason,
        "reason_before": row.reason,
        "at": now,
    }


_AFTER: Final = 0.01
"""A host is judged this long after its limit, because the limit must be exceeded."""
_INSTALLATION: Final = {
    field.name: "installation_id" if field.name == "id" else field.name
    for field in fields(installation_rules.Installation)
}
"""Field of an installation -> the column of `_due` that has it: `id` is the host's there."""


def _is_due(is_on_sqlite: bool) -> ColumnElement[bool]:
    """Return the condition that a host is due or among `ours`."""
    is_due = hosts.c.due_at <= bindparam("now")
    if is_on_sqlite:  # one process writes at a time
        return is_due
    return is_due | is_among(is_on_sqlite, hosts.c.id, "ours")


@cache
def _due(is_on_sqlite: bool) -> Select[Any]:
    names = ("id", "name", "group", "release", "last_seen", "build", "updated_at", "progress")
    return (
        select(
            *(hosts.c[name] for name in (*names, "verdict", "reason", "cause", "verdict_since")),
            hosts.c.records_verdict,
            hosts.c.revision,
            *(installations.c[name].label(label) for name, label in _INSTALLATION.items()),
        )
        .select_from(hosts.outerjoin(installations, installations.c.host_id == hosts.c.id))
        .where(_is_due(is_on_sqlite))
        .order_by(hosts.c.due_at)
        .limit(bindparam("most"))
        .with_for_update(of=hosts, skip_locked=True)
    )


@cache
def _progress_due(is_on_sqlite: bool) -> Select[Any]:
    due = select(hosts.c.progress).where(_is_due(is_on_sqlite))
    return due.order_by(hosts.c.due_at).limit(bindparam("most"))


def _parameters(connection: Connection, ours: Sequence[int], now: float, most: int) -> dict[str, Any]:
    values = {"now": now, "most": most}
    return values if is_sqlite(connection) else {**values, "ours": among(connection, ours)}


_UPDATE_HOSTS: Final = ManyRows(
    hosts, ["verdict", "reason", "cause", "verdict_since", "due_at", "revision"], keys={"id": "of"}
)
UPDATE_VERDICTS: Final = ManyRows(builds, ["verdict", "reason"], keys={"host_id": "of", "number": "in"})
_INSERT_NOTICES: Final = ManyRows(
    notices, ["host_id", "build", "verdict", "before", "reason", "reason_before", "at"]
)

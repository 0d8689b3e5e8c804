"""Changes by administrators to hosts and tokens, with entries in the audit log.

A change and its entry are written in one transaction.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from service_record.collector.assisted.cluster_rows import refresh
from service_record.collector.domain.access import Forbidden, Grant, TokenKind, parse_token
from service_record.collector.domain.progress import Progress
from service_record.collector.store import tokens
from service_record.collector.store.dialects import insert_into, write_rows
from service_record.collector.store.judging import UPDATE_VERDICTS, final_verdicts
from service_record.collector.store.reporting import build_row
from service_record.collector.store.schema import audit, builds, hosts, installations
from service_record.collector.store.selecting import rows_as, select_columns

_LONGEST: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An entry of the audit log. `at` is in seconds since 1970."""

    id: int
    at: float
    actor: str
    action: str
    subject: str


def note(connection: Connection, actor: str, action: str, subject: str, at: float) -> None:
    """Add an entry to the audit log. It must not contain secrets."""
    connection.execute(insert(audit).values(at=at, actor=actor[:_LONGEST], action=action, subject=subject))


def list_audit(connection: Connection, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
    """Return entries of the audit log, latest first. With `before`, only entries with smaller ids."""
    query = select_columns(AuditEntry, audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit.c.id < before)
    return rows_as(connection, AuditEntry, query)


class Used(Exception):  # noqa: N818  # an answer (401), not a fault
    """The enrolment token was used by another request at the same time."""


def create_token(connection: Connection, new: tokens.TokenRequest, now: float) -> tuple[int, str]:
    """Create a token. Return its id and the token, which cannot be read again later."""
    created = tokens.create(connection, new, now)
    token = parse_token(created)
    assert token is not None  # noqa: S101  # created above, so its format is valid
    named = f" ({new.name})" if new.name else ""
    subject = f"token {token.id}{named}: {new.kind.value} {new.scope}".rstrip()
    note(connection, new.created_by, "token create", subject, now)
    return token.id, created


def revoke_token(connection: Connection, token_id: int, actor: str, now: float) -> bool:
    """Revoke a token. Return True if it was valid before."""
    if not tokens.revoke(connection, token_id, now):
        return False
    note(connection, actor, "token revoke", f"token {token_id}", now)
    return True


def enrol(connection: Connection, grant: Grant, host: str, asked_group: str, now: float) -> str:
    """Exchange an enrolment token for the token of a host. The enrolment token is invalid afterwards.

    An unknown host is created in the group of the enrolment. Raises Forbidden if the token is not for this
    host, and Used. Neither uses up the token.
    """
    row = connection.execute(select(hosts.c.group).where(hosts.c.name == host)).one_or_none()
    group = grant.group_of_enrolled(asked_group) if row is None else row.group
    # A token for any new host must not become the token of a host that somebody else installed.
    if not grant.may_enrol(host, group) or (row is not None and not grant.scope):
        raise Forbidden(f"this token is not to enrol {host}")
    if not tokens.use(connection, grant.token_id, now):
        raise Used("this token is used, revoked or expired")
    if row is None:
        put_host(connection, host, {"group": group}, now)
    new = tokens.TokenRequest(kind=TokenKind.HOST, scope=host, name=grant.name, created_by=grant.holder)
    token = tokens.create(connection, new, now)
    note(connection, grant.holder, "enrol", host, now)
    return token


def put_host(connection: Connection, name: str, fields: dict[str, str], now: float) -> bool:
    """Create a host, or change its group, release or hardware. Return True if it was created."""
    insert_new = insert_into(connection, hosts)
    row = connection.execute(
        insert_new.on_conflict_do_nothing(index_elements=["name"]).returning(hosts.c.id),
        {"name": name, "first_seen": now, "last_seen": now, "due_at": 0.0, **fields},
    ).first()
    if row is None and fields:
        changed = update(hosts).where(hosts.c.name == name)
        connection.execute(changed.values(**fields, due_at=0.0, revision=hosts.c.revision + 1))
    return row is not None


def begin_build(connection: Connection, name: str, key: str, action: str, now: float) -> int | None:
    """Begin a new build of a host. Return its number, or None if the host does not exist."""
    row = connection.execute(select(hosts).where(hosts.c.name == name).with_for_update()).one_or_none()
    if row is None:
        return None
    if row.progress:
        overtaken = msgspec.json.decode(row.progress, type=Progress)
        write_rows(connection, (UPDATE_VERDICTS, final_verdicts(connection, [(row, overtaken)])))
    progress = Progress(
        number=row.build + 1, started_at=now, updated_at=now, key=key, action=action, fresh_at=now
    )
    connection.execute(insert(builds).values(build_row(row.id, progress, row.release)))
    connection.execute(update(hosts).where(hosts.c.id == row.id).values(_host_row(progress)))
    return progress.number


def delete_host(connection: Connection, name: str, now: float) -> set[int] | None:
    """Delete a host with all that it reported, and revoke its tokens.

    Housekeeping deletes the objects of its bundles later. Returns the ids of the revoked tokens, or None if
    the host does not exist.
    """
    host_id = connection.execute(select(hosts.c.id).where(hosts.c.name == name)).scalar_one_or_none()
    if host_id is None:
        return None
    of_host = select(installations.c.id, installations.c.cluster_id).where(installations.c.host_id == host_id)
    installed = connection.execute(of_host).one_or_none()
    connection.execute(delete(hosts).where(hosts.c.id == host_id))
    names = {name}
    if installed is not None:
        names.add(installed.id)
        refresh(connection, {installed.cluster_id}, now)
    return tokens.revoke_all_of_host(connection, names, now)


def _host_row(progress: Progress) -> dict[str, Any]:
    return {
        "build": progress.number,
        "action": progress.action,
        "percentage": None,
        "message": "",
        "started_at": progress.started_at,
        "updated_at": progress.updated_at,
        "ended_at": None,
        "progress": msgspec.json.encode(progress),
        "records_verdict": None,
        "due_at": 0.0,
        "revision": hosts.c.revision + 1,
    }

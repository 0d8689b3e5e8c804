"""Create, look up and revoke tokens and login sessions. Only digests of secrets are stored."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Row, delete, insert, or_, select, update

from service_record.collector.domain.access import (
    Grant,
    Presented,
    TokenKind,
    format_token,
    hash_secret,
    new_secret,
)
from service_record.collector.store.schema import sessions, tokens
from service_record.collector.store.selecting import rows_as, select_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A token to make."""

    kind: TokenKind
    scope: str = ""
    name: str = ""
    created_by: str = ""
    expires_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShown:
    """A token in a list. Times are seconds since 1970."""

    id: int
    kind: str
    scope: str
    name: str
    created_at: float
    created_by: str
    expires_at: float | None
    revoked_at: float | None
    used_at: float | None
    """The time at which an enrolment token was used."""


def create(connection: Connection, new: TokenRequest, now: float) -> str:
    """Create a token and return it. It cannot be read again later."""
    secret = new_secret()
    row = {
        "kind": new.kind.value,
        "scope": new.scope,
        "name": new.name,
        "hash": hash_secret(secret),
        "created_at": now,
        "created_by": new.created_by,
        "expires_at": new.expires_at,
    }
    number = connection.execute(insert(tokens).values(row).returning(tokens.c.id)).scalar_one()
    return format_token(number, secret)


def read_grant(connection: Connection, presented: Presented, now: float) -> Grant | None:
    """Return the rights of a token, or None if it is unknown or no longer valid."""
    row = connection.execute(select(tokens).where(tokens.c.id == presented.id)).one_or_none()
    if row is None or not presented.fits(row.hash) or not _is_good(row, now):
        return None
    return Grant(row.id, TokenKind(row.kind), row.scope, row.name)


def select_bad(connection: Connection, token_ids: Iterable[int], now: float) -> set[int]:
    """Return the revoked and expired ones of these tokens, bypassing the cache.

    Call it in the transaction that creates a host: a deleted host must not be created again by a token that
    was revoked with it.
    """
    rows = connection.execute(select(tokens).where(tokens.c.id.in_(set(token_ids))))
    return {row.id for row in rows if not _is_good(row, now)}


def revoke_all_of_host(connection: Connection, names: Iterable[str], now: float) -> set[int]:
    """Revoke all tokens that are valid only for this host, under any of its names. Return their ids."""
    of_host = tokens.c.kind.in_({TokenKind.HOST, TokenKind.BOOT, TokenKind.CLOUD_INIT}) & tokens.c.scope.in_(
        set(names)
    )
    to_enrol = (tokens.c.kind == TokenKind.ENROLMENT) & tokens.c.scope.in_({f"host:{name}" for name in names})
    open_ = or_(of_host, to_enrol) & tokens.c.revoked_at.is_(None)
    revoked = update(tokens).where(open_).values(revoked_at=now).returning(tokens.c.id)
    return set(connection.execute(revoked).scalars())


def list_tokens(connection: Connection) -> tuple[TokenShown, ...]:
    """Return all tokens without their secrets, oldest first."""
    return rows_as(connection, TokenShown, select_columns(TokenShown, tokens).order_by(tokens.c.id))


def revoke(connection: Connection, token_id: int, now: float) -> bool:
    """Revoke a token. Return True if it was valid before."""
    open_ = (tokens.c.id == token_id) & tokens.c.revoked_at.is_(None)
    return connection.execute(update(tokens).where(open_).values(revoked_at=now)).rowcount == 1


def use(connection: Connection, token_id: int, now: float) -> bool:
    """Mark an enrolment token as used. Return False if it was used already."""
    is_unused = (tokens.c.id == token_id) & tokens.c.used_at.is_(None) & tokens.c.revoked_at.is_(None)
    is_unused &= or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now)
    return connection.execute(update(tokens).where(is_unused).values(used_at=now)).rowcount == 1


def _is_good(row: Row[tuple[object, ...]], now: float) -> bool:
    return (
        row.revoked_at is None
        and (row.expires_at is None or row.expires_at > now)
        and (row.kind != TokenKind.ENROLMENT or row.used_at is None)
    )


SECONDS: Final = 12 * 60 * 60
"""The lifetime of a session."""


def begin(connection: Connection, token_id: int, now: float) -> str:
    """Create a session for a token and return its secret, which cannot be read again later."""
    connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
    secret = new_secret()
    connection.execute(
        insert(sessions).values(hash=hash_secret(secret), token_id=token_id, expires_at=now + SECONDS)
    )
    return secret


def read_session_grant(connection: Connection, session: str, now: float) -> Grant | None:
    """Return the rights of a session, or None if it has ended or its token is no longer valid."""
    query = (
        select(tokens, sessions.c.expires_at.label("until"))
        .join(sessions, sessions.c.token_id == tokens.c.id)
        .where(sessions.c.hash == hash_secret(session))
    )
    row = connection.execute(query).one_or_none()
    if row is None or row.until <= now or not _is_good(row, now):
        return None
    return Grant(row.id, TokenKind(row.kind), row.scope, row.name)


def end(connection: Connection, session: str) -> None:
    """End a session if it exists."""
    connection.execute(delete(sessions).where(sessions.c.hash == hash_secret(session)))

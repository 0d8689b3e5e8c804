"""Sessions of people in a browser: a random id in a cookie, of which only the digest is kept."""

from typing import Final

from sqlalchemy import Connection, delete, insert, select

from service_record.collector.access import Grant, Kind, digest_of, new_secret
from service_record.collector.store.schema import sessions, tokens

SECONDS: Final = 12 * 60 * 60
"""How long a session lasts."""


def begin(connection: Connection, token_id: int, now: float) -> str:
    """A new session of whoever presented that token: its id, which cannot be read again."""
    connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
    made = new_secret()
    connection.execute(
        insert(sessions).values(hash=digest_of(made), token_id=token_id, expires_at=now + SECONDS)
    )
    return made


def grant_of(connection: Connection, session: str, now: float) -> Grant | None:
    """What a session is good for; None where it is over, or its token is worth nothing any more."""
    wanted = (
        select(tokens, sessions.c.expires_at.label("until"))
        .join(sessions, sessions.c.token_id == tokens.c.id)
        .where(sessions.c.hash == digest_of(session), tokens.c.revoked_at.is_(None))
    )
    row = connection.execute(wanted).one_or_none()
    if row is None or row.until <= now or (row.expires_at is not None and row.expires_at <= now):
        return None
    return Grant(row.id, Kind(row.kind), row.scope, row.name)


def end(connection: Connection, session: str) -> None:
    """End a session, if it is one."""
    connection.execute(delete(sessions).where(sessions.c.hash == digest_of(session)))

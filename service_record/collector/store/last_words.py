"""The lines that a host's services printed last: of each service the newest, of each host a few services."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, case, delete, select, update

from service_record.collector.domain.steps import LONGEST_NAME
from service_record.collector.store.dialects import inserting
from service_record.collector.store.installations import Arrival, lock_or_make_host
from service_record.collector.store.schema import hosts, last_words

MOST_LINES: Final = 20
LONGEST_LINE: Final = 400
"""Maximum number of characters of a line."""
MOST_SERVICES: Final = 16
"""Services of one host whose lines are stored. Together they take at most about 128 KB of text."""


class LastWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lines that a service printed last. Without lines, the stored ones are deleted."""

    service: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    lines: Annotated[list[Annotated[str, Meta(max_length=LONGEST_LINE)]], Meta(max_length=MOST_LINES)]
    """Oldest first."""
    stage: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    """The stage that was open meanwhile; empty if none was."""


def write_last_words(connection: Connection, arrival: Arrival, words: LastWords, text: str) -> None:
    """Store the text of these lines in place of the service's earlier ones. An empty text deletes them.

    They are no report of the host: one that only prints that it waits is stuck all the same. Raises
    Forbidden.
    """
    host = lock_or_make_host(connection, arrival)
    due_at = case((hosts.c.verdict_since.is_(None), 0.0), else_=hosts.c.due_at)  # a new host is judged
    connection.execute(
        update(hosts).where(hosts.c.id == host.id).values(due_at=due_at, revision=hosts.c.revision + 1)
    )
    own = last_words.c.host_id == host.id
    if not text:
        connection.execute(delete(last_words).where(own, last_words.c.service == words.service))
        return
    row = {"stage": words.stage, "build": host.build, "text": text, "received_at": arrival.at}
    new = inserting(connection, last_words).values(host_id=host.id, service=words.service, **row)
    connection.execute(new.on_conflict_do_update(index_elements=["host_id", "service"], set_=row))
    newest = select(last_words.c.service).where(own).order_by(last_words.c.received_at.desc())
    older = connection.execute(newest.offset(MOST_SERVICES)).scalars().all()
    if older:
        connection.execute(delete(last_words).where(own, last_words.c.service.in_(older)))

"""The lines that a host's services printed last: of each service the newest, of each host a few services."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, delete, select

from service_record.collector.domain.steps import LONGEST_NAME
from service_record.collector.store.dialects import inserting
from service_record.collector.store.installations import Arrival, arrive
from service_record.collector.store.schema import last_words

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


def write_last_words(connection: Connection, arrival: Arrival, words: LastWords, text: str) -> int:
    """Store the text of these lines in place of the service's earlier ones. Return the host's id.

    An empty text deletes them. Raises Forbidden.
    """
    host = arrive(connection, arrival)
    own = last_words.c.host_id == host.id
    if not text:
        connection.execute(delete(last_words).where(own, last_words.c.service == words.service))
        return host.id
    row = {"stage": words.stage, "build": host.build, "text": text, "received_at": arrival.at}
    new = inserting(connection, last_words).values(host_id=host.id, service=words.service, **row)
    connection.execute(new.on_conflict_do_update(index_elements=["host_id", "service"], set_=row))
    newest = select(last_words.c.service).where(own).order_by(last_words.c.received_at.desc())
    older = connection.execute(newest.offset(MOST_SERVICES)).scalars().all()
    if older:
        connection.execute(delete(last_words).where(own, last_words.c.service.in_(older)))
    return host.id

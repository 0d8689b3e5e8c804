"""Store the last lines that services of a host printed: the newest of each service, for a few services."""

from typing import Final

from sqlalchemy import Connection, case, delete, select, update

from service_record.collector.store.dialects import inserting
from service_record.collector.store.installations import Arrival, lock_or_make_host
from service_record.collector.store.schema import hosts, last_words
from service_record.http.collector_answers import LastWords

MOST_SERVICES: Final = 16
"""Services of one host whose lines are stored. Together they take at most about 128 KB of text."""


def write_last_words(connection: Connection, arrival: Arrival, words: LastWords, text: str) -> None:
    """Replace the stored lines of a service with `text`. An empty text deletes them. Raises Forbidden.

    This does not count as a report of the host: a host whose service only prints that it waits is stuck.
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

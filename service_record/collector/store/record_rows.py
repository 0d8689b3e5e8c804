"""Live service records: the stored bytes of record files, in order, and the last lines of services.

Each file is stored from its beginning without gaps. Small pieces are merged into one row, so that a record
that is sent entry by entry does not become one row for each entry.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, case, delete, func, insert, select, update

from service_record.collector.assisted.installations import Arrival, admit_host, lock_or_create_host
from service_record.collector.store.dialects import insert_into
from service_record.collector.store.schema import chunks, hosts, last_words
from service_record.http.collector_answers import LastWords, Piece

MOST_FILES: Final = 2_000
"""Limit for one host, files that replaced others included."""
_ROW: Final = 32 << 10
"""Bytes of a row from which on the next piece has a row of its own."""


@dataclass(frozen=True, slots=True)
class StoredRecordFile:
    """Number of stored bytes."""

    service: str
    file: str
    offset: int
    received_at: float = 0.0
    """The time at which the latest piece was received."""


class WrongOffset(Exception):  # noqa: N818  # an answer, not a fault
    """A piece does not begin at the end of the stored data. Nothing of the batch was stored."""

    def __init__(self, files: Sequence[StoredRecordFile]) -> None:
        super().__init__("pieces do not begin where what is held ends: go on from these offsets")
        self.held = files


class TooManyRecords(Exception):  # noqa: N818  # an answer, not a fault
    """The host has reached the limit for its records."""


def append(
    connection: Connection, arrival: Arrival, pieces: Sequence[Piece], most: int
) -> tuple[int, tuple[StoredRecordFile, ...]]:
    """Store all pieces of a batch, or none. Return the host's id and the stored size of each file.

    Bytes that are stored already are skipped. `most` is the limit for all records of a host in bytes. Raises
    Forbidden, WrongOffset or TooManyRecords.
    """
    host = admit_host(connection, arrival)
    before = {(file.service, file.file): file for file in read_stored_files(connection, host.id)}
    ends = dict(before)
    for piece in pieces:
        key = piece.service, piece.file
        end = ends.get(key, StoredRecordFile(*key, 0))
        until = piece.offset + len(piece.data)
        if until <= end.offset:
            continue
        if piece.offset != end.offset:
            named = dict.fromkeys((piece.service, piece.file) for piece in pieces)
            raise WrongOffset([before.get(key, StoredRecordFile(*key, 0)) for key in named])
        ends[key] = StoredRecordFile(*key, until, arrival.at)
        _append(connection, host.id, piece, arrival.at)
    if sum(file.offset for file in ends.values()) > most or len(ends) > MOST_FILES:
        raise TooManyRecords(f"a host may send {most} bytes of records in {MOST_FILES} files")
    return host.id, tuple(
        ends[key] for key in dict.fromkeys((p.service, p.file) for p in pieces) if key in ends
    )


def _append(connection: Connection, host_id: int, piece: Piece, at: float) -> None:
    last = connection.execute(
        select(chunks.c.id, chunks.c.data)
        .where(chunks.c.host_id == host_id, chunks.c.service == piece.service, chunks.c.file == piece.file)
        .order_by(chunks.c.offset.desc())
        .limit(1)
    ).one_or_none()
    if last is not None and len(last.data) + len(piece.data) <= _ROW:
        longer = {"data": last.data + piece.data, "received_at": at}
        connection.execute(update(chunks).where(chunks.c.id == last.id).values(longer))
        return
    row = {"host_id": host_id, "service": piece.service, "file": piece.file, "offset": piece.offset}
    connection.execute(insert(chunks).values(**row, data=piece.data, received_at=at))


def read_stored_files(connection: Connection, host_id: int) -> tuple[StoredRecordFile, ...]:
    """Return the stored size of each file of a host, in the order in which the files began."""
    ends = (
        select(
            chunks.c.service,
            chunks.c.file,
            func.max(chunks.c.offset + func.length(chunks.c.data)).label("end"),
            func.max(chunks.c.received_at).label("at"),
        )
        .where(chunks.c.host_id == host_id)
        .group_by(chunks.c.service, chunks.c.file)
        .order_by(func.min(chunks.c.id))
    )
    return tuple(StoredRecordFile(row.service, row.file, row.end, row.at) for row in connection.execute(ends))


def read_host_id(connection: Connection, host: str) -> int | None:
    """Return the id of a host, or None."""
    return connection.execute(select(hosts.c.id).where(hosts.c.name == host)).scalar_one_or_none()


def list_hosts_with_running_services(connection: Connection, since: float) -> Sequence[int]:
    """Return hosts with new records since a time that had a running service when last judged."""
    query = select(hosts.c.id, hosts.c.records_verdict).where(
        hosts.c.last_seen >= since, hosts.c.id.in_(select(chunks.c.host_id).distinct())
    )
    return [
        row.id
        for row in connection.execute(query)
        if row.records_verdict is None or b'"verdict":"running"' in row.records_verdict
    ]


def list_chunk_ids(
    connection: Connection, host_id: int, service: str, most: int | None = None
) -> list[int | None]:
    """Return the ids of the rows of a service's record, in order, with None at the end of each file.

    With `most`, only the rows of about the last `most` bytes.
    """
    files = [file for file in read_stored_files(connection, host_id) if file.service == service]
    skipped = 0 if most is None else sum(file.offset for file in files) - most
    places: list[int | None] = []
    for file in files:
        query = (
            select(chunks.c.id)
            .where(chunks.c.host_id == host_id, chunks.c.service == service, chunks.c.file == file.file)
            .where(chunks.c.offset + func.length(chunks.c.data) > skipped)
            .order_by(chunks.c.offset)
        )
        skipped -= file.offset
        places += [*connection.execute(query).scalars(), None]
    return places


def read_ends(connection: Connection, host_id: int, most: int, most_each: int) -> list[tuple[str, bytes]]:
    """Return a host's services, each with the end of its record.

    The limits are about `most_each` bytes for a record and `most` bytes for all of them. Each service gets at
    least its last row, and long records share the bytes that short ones leave.
    """
    sizes: dict[str, int] = {}
    for file in read_stored_files(connection, host_id):
        sizes[file.service] = sizes.get(file.service, 0) + file.offset
    texts: dict[str, bytes] = {}
    for service in sorted(sizes, key=sizes.__getitem__):
        share = max(1, most // (len(sizes) - len(texts)))
        texts[service] = read_chunks(
            connection, list_chunk_ids(connection, host_id, service, min(share, most_each))
        )
        most -= len(texts[service])
    return sorted(texts.items())


def read_chunks(connection: Connection, places: Sequence[int | None]) -> bytes:
    """Return the bytes of these rows. Each file begins on a new line."""
    query = select(chunks.c.id, chunks.c.data).where(chunks.c.id.in_([place for place in places if place]))
    by_id = {row.id: row.data for row in connection.execute(query)}
    return b"".join(b"\n" if place is None else by_id.get(place, b"") for place in places)


MOST_SERVICES: Final = 16
"""Services of one host whose lines are stored. Together they take at most about 128 KB of text."""


def write_last_words(connection: Connection, arrival: Arrival, words: LastWords, text: str) -> None:
    """Replace the stored lines of a service with `text`. An empty text deletes them. Raises Forbidden.

    This does not count as a report of the host: a host whose service only prints that it waits is stuck.
    """
    host = lock_or_create_host(connection, arrival)
    due_at = case((hosts.c.verdict_since.is_(None), 0.0), else_=hosts.c.due_at)  # a new host is judged
    connection.execute(
        update(hosts).where(hosts.c.id == host.id).values(due_at=due_at, revision=hosts.c.revision + 1)
    )
    own = last_words.c.host_id == host.id
    if not text:
        connection.execute(delete(last_words).where(own, last_words.c.service == words.service))
        return
    row = {"stage": words.stage, "build": host.build, "text": text, "received_at": arrival.at}
    new = insert_into(connection, last_words).values(host_id=host.id, service=words.service, **row)
    connection.execute(new.on_conflict_do_update(index_elements=["host_id", "service"], set_=row))
    newest = select(last_words.c.service).where(own).order_by(last_words.c.received_at.desc())
    older = connection.execute(newest.offset(MOST_SERVICES)).scalars().all()
    if older:
        connection.execute(delete(last_words).where(own, last_words.c.service.in_(older)))

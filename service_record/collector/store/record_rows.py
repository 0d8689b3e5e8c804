"""Service records live: the bytes of record files, as far as they were sent, in their order.

A file is held from its beginning without a gap. Small pieces at its end are put together, so that a record
that is sent entry by entry does not become as many rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, func, insert, select, update

from service_record.collector.store.installations import Arrival, arrive
from service_record.collector.store.schema import chunks, hosts

MOST_FILES: Final = 2_000
"""Limit for one host, files that replaced others included."""
_CONTROLS: Final = r"\x00-\x1f\x7f"
_ROW: Final = 32 << 10
"""Bytes of a row from which on the next piece has a row of its own."""


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some bytes of a record file; in JSON they are in base64."""

    service: Annotated[str, Meta(pattern=rf"^[^/.{_CONTROLS}][^/{_CONTROLS}]{{0,249}}$(?!\n)")]
    """Its name, which is that of a file without its ending."""
    file: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,64}$(?!\n)")]
    """Tells a file from the one that took its place."""
    offset: Annotated[int, Meta(ge=0, le=1 << 50)]
    data: bytes


@dataclass(frozen=True, slots=True)
class HeldFile:
    """The part of a file that is stored: all before this offset."""

    service: str
    file: str
    offset: int
    received_at: float = 0.0
    """The time at which the latest piece was received."""


class Elsewhere(Exception):  # noqa: N818  # an answer, not a fault
    """Pieces that do not begin at the end of the stored data; nothing of the batch was stored."""

    def __init__(self, files: Sequence[HeldFile]) -> None:
        super().__init__("pieces do not begin where what is held ends: go on from these offsets")
        self.held = files


class TooMuch(Exception):  # noqa: N818  # an answer, not a fault
    """A host has sent as much as is stored for one."""


def append(
    connection: Connection, arrival: Arrival, pieces: Sequence[Piece], most: int
) -> tuple[int, tuple[HeldFile, ...]]:
    """Store a batch, all of it or nothing; return the host's id, and the stored size of each file in it.

    `most` is how many bytes are taken of all records of a host.

    What is held already is passed over. Raises Forbidden, Elsewhere, TooMuch.
    """
    host = arrive(connection, arrival)
    before = {(file.service, file.file): file for file in held_of(connection, host.id)}
    ends = dict(before)
    for piece in pieces:
        key = piece.service, piece.file
        end = ends.get(key, HeldFile(*key, 0))
        until = piece.offset + len(piece.data)
        if until <= end.offset:
            continue
        if piece.offset != end.offset:
            named = dict.fromkeys((piece.service, piece.file) for piece in pieces)
            raise Elsewhere([before.get(key, HeldFile(*key, 0)) for key in named])
        ends[key] = HeldFile(*key, until, arrival.at)
        _append(connection, host.id, piece, arrival.at)
    if sum(file.offset for file in ends.values()) > most or len(ends) > MOST_FILES:
        raise TooMuch(f"a host may send {most} bytes of records in {MOST_FILES} files")
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


def held_of(connection: Connection, host_id: int) -> tuple[HeldFile, ...]:
    """Return the stored size of each file of a host, in the order of their beginnings."""
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
    return tuple(HeldFile(row.service, row.file, row.end, row.at) for row in connection.execute(ends))


def host_id_of(connection: Connection, host: str) -> int | None:
    """Return the id of the host of that name; None if there is none."""
    return connection.execute(select(hosts.c.id).where(hosts.c.name == host)).scalar_one_or_none()


def heard_since(connection: Connection, since: float) -> Sequence[int]:
    """Return the ids of hosts that have sent records since then and had a running service at the
    latest look.
    """
    query = select(hosts.c.id, hosts.c.records_verdict).where(
        hosts.c.last_seen >= since, hosts.c.id.in_(select(chunks.c.host_id).distinct())
    )
    return [
        row.id
        for row in connection.execute(query)
        if row.records_verdict is None or b'"verdict":"running"' in row.records_verdict
    ]


def places_of(
    connection: Connection, host_id: int, service: str, most: int | None = None
) -> list[int | None]:
    """Return the place of a service's record: the ids of its rows in order, and None where a file ends.

    `most`: only of about so many bytes of its end.
    """
    files = [file for file in held_of(connection, host_id) if file.service == service]
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


def ends_of(connection: Connection, host_id: int, most: int, most_each: int) -> list[tuple[str, bytes]]:
    """Return a host's services with the ends of their records: about so many bytes of all, and of each."""
    texts: list[tuple[str, bytes]] = []
    for service in sorted({file.service for file in held_of(connection, host_id)}):
        places = places_of(connection, host_id, service, min(most, most_each))
        texts.append((service, data_at(connection, places)))
        most -= len(texts[-1][1])
        if most <= 0:
            break
    return texts


def data_at(connection: Connection, places: Sequence[int | None]) -> bytes:
    """Return the bytes at these places; files are each on lines of their own."""
    query = select(chunks.c.id, chunks.c.data).where(chunks.c.id.in_([place for place in places if place]))
    by_id = {row.id: row.data for row in connection.execute(query)}
    return b"".join(b"\n" if place is None else by_id.get(place, b"") for place in places)

"""What a host's records are read from: those that it sends live, or its latest bundle that has some."""

import io
import tarfile
from dataclasses import dataclass
from typing import BinaryIO, Final

from sqlalchemy import Connection, select

from service_record.bundle.names import RECORD_DIRECTORIES
from service_record.collector.store import bundles as stored
from service_record.collector.store import records
from service_record.collector.store.schema import bundles

_MOST_SERVICE: Final = 8 << 20
"""Bytes of the end of one record that are read."""
_MOST_HOST: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records are."""

    name: str
    """For people."""
    mark: str
    """Changes with the records."""
    received_at: float
    """When the latest of them came."""
    key: str = ""
    """Of the object, where it is a bundle."""
    host_id: int = 0
    """Of the host, where it sends them live."""


def source_of(connection: Connection, host: str) -> Source | None:
    """The records of a host that were received last; None where there are none."""
    found = [source for source in (_live(connection, host), _bundle(connection, host)) if source]
    return max(found, key=lambda source: source.received_at, default=None)


def write_records(connection: Connection, source: Source, stream: BinaryIO) -> None:
    """Write records that came live as the archive that they would be in: the ends of long ones."""
    left = _MOST_HOST
    services = sorted({held.service for held in records.held_of(connection, source.host_id)})
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for service in services:
            places = records.places_of(connection, source.host_id, service, min(left, _MOST_SERVICE))
            data = records.data_at(connection, places)
            member = tarfile.TarInfo(f"{RECORD_DIRECTORIES[-1]}/{service}.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            left -= len(data)
            if left <= 0:
                break


def _live(connection: Connection, host: str) -> Source | None:
    host_id = records.host_id_of(connection, host)
    held = () if host_id is None else records.held_of(connection, host_id)
    if not held or host_id is None:
        return None
    at = max(one.received_at for one in held)
    mark = f"live {sum(one.offset for one in held)} {at}"
    return Source(name="records as they are sent", mark=mark, received_at=at, host_id=host_id)


def _bundle(connection: Connection, host: str) -> Source | None:
    found = stored.latest_with_records(connection, host)
    wanted = select(bundles.c.name, bundles.c.key, bundles.c.received_at).where(bundles.c.id == found)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    return Source(name=row.name, mark=f"bundle {found}", received_at=row.received_at, key=row.key)

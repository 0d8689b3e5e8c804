"""Bundles in the database, and the source of a host's records: its live records or its latest bundle."""

import io
import tarfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Final

import msgspec
from sqlalchemy import Connection, delete, func, insert, or_, select, update

from service_record.collector.assisted.cluster_rows import NewObject
from service_record.collector.assisted.installations import Arrival, admit_host, read_group
from service_record.collector.domain.records_page import Analysis
from service_record.collector.domain.steps import readable
from service_record.collector.domain.summary_of_records import RecordsSummary
from service_record.collector.domain.verdicts import RecordsVerdict
from service_record.collector.store import record_rows
from service_record.collector.store.dialects import insert_into
from service_record.collector.store.schema import analyses, bundle_services, bundles, hosts, installations
from service_record.collector.store.selecting import rows_as, select_columns
from service_record.http.collector_answers import ShownBundle
from service_record.record.directory import RECORD_DIRECTORIES

TEMPLATE: Final = "template"
"""The kind of a rendered template: a text without records."""
LEASE: Final = 20.0
"""How long a claim lasts. The process that reads the bundle renews its claim."""
_MOST_LISTED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBundle:
    """The place of a bundle."""

    id: int
    kind: str
    key: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class BundleAdded:
    """The result of adding a bundle."""

    id: int
    is_new: bool
    """False if the host sent the same bundle before, because it did not receive the answer."""
    replaced: tuple[str, ...] = ()
    """Keys of objects to delete: no bundle uses them any more."""


MOST_BUNDLES: Final = 100
MOST_BUNDLE_BYTES: Final = 1 << 30
"""Quota of a host's bundles. The first and the latest ones are kept; the oldest ones in between are deleted.
"""


def add(connection: Connection, arrival: Arrival, new: NewObject) -> BundleAdded:
    """Add a bundle. Raises Forbidden."""
    host = admit_host(connection, arrival)
    same = (bundles.c.host_id == host.id) & (bundles.c.kind == new.kind)
    if new.kind == TEMPLATE:  # each build has its own templates, identified by name
        same &= (bundles.c.build == host.build) & (bundles.c.name == new.name)
    before = connection.execute(
        select(bundles.c.id, bundles.c.sha256).where(same).order_by(bundles.c.id.desc()).limit(1)
    ).one_or_none()
    if before is not None and before.sha256 == new.sha256:
        return BundleAdded(before.id, is_new=False)
    place = {"host_id": host.id, "build": host.build}
    row = {**place, **asdict(new), "received_at": arrival.at, "is_indexed": new.kind == TEMPLATE}
    if new.kind == "host":  # the assisted-service's state until the host reports the end
        of = update(installations).where(installations.c.host_id == host.id)
        connection.execute(of.values(logs_state="collecting"))
    number = connection.execute(insert(bundles).values(row).returning(bundles.c.id)).scalar_one()
    return BundleAdded(number, is_new=True, replaced=_delete_beyond_quota(connection, host.id))


def _delete_beyond_quota(connection: Connection, host_id: int) -> tuple[str, ...]:
    """Delete the bundles that exceed the quota. Return the keys of their objects."""
    query = select(bundles.c.id, bundles.c.key, bundles.c.size).where(bundles.c.host_id == host_id)
    rows = connection.execute(query.order_by(bundles.c.id)).all()
    count, size, surplus = len(rows), sum(row.size for row in rows), []
    for row in rows[1:-1]:
        if count <= MOST_BUNDLES and size <= MOST_BUNDLE_BYTES:
            break
        surplus.append(row)
        count, size = count - 1, size - row.size
    if surplus:
        connection.execute(delete(bundles).where(bundles.c.id.in_([row.id for row in surplus])))
    return tuple(row.key for row in surplus)


def claim(connection: Connection, now: float, most: int) -> Sequence[StoredBundle]:
    """Claim up to `most` unread and unclaimed bundles, oldest first, until `now` + LEASE."""
    is_free = or_(bundles.c.claimed_until.is_(None), bundles.c.claimed_until < now)
    free = (
        select_columns(StoredBundle, bundles)
        .where(bundles.c.is_indexed.is_(False), is_free)
        .order_by(bundles.c.id)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    claimed = rows_as(connection, StoredBundle, free)
    if claimed:
        claim_until(connection, [bundle.id for bundle in claimed], now + LEASE)
    return claimed


def claim_until(connection: Connection, bundle_ids: Collection[int], until: float) -> None:
    """Change the time at which the claims of this process end."""
    ours = bundles.c.id.in_(bundle_ids) & bundles.c.is_indexed.is_(False)
    connection.execute(update(bundles).where(ours).values(claimed_until=until))


def release(connection: Connection) -> None:
    """Release all claims. Only for a single process: they are from a previous process that was killed."""
    claimed = bundles.c.is_indexed.is_(False) & bundles.c.claimed_until.is_not(None)
    connection.execute(update(bundles).where(claimed).values(claimed_until=None))


def next_free(connection: Connection) -> float | None:
    """Return the time at which the earliest claim of an unread bundle expires, or None."""
    query = select(func.min(bundles.c.claimed_until)).where(bundles.c.is_indexed.is_(False))
    at: float | None = connection.execute(query).scalar_one()
    return at


def find(connection: Connection, host: str, bundle_id: int) -> StoredBundle | None:
    """Return a stored bundle of a host, or None if the host has no bundle with this ID."""
    query = select_columns(StoredBundle, bundles).join(hosts)
    query = query.where(hosts.c.name == host, bundles.c.id == bundle_id)
    return next(iter(rows_as(connection, StoredBundle, query)), None)


def list_bundles(connection: Connection, host: str) -> tuple[ShownBundle, ...] | None:
    """Return the bundles of a host, latest first, or None if the host does not exist."""
    if read_group(connection, host) is None:
        return None
    query = (
        select_columns(ShownBundle, bundles)
        .join(hosts)
        .where(hosts.c.name == host)
        .order_by(bundles.c.id.desc())
        .limit(_MOST_LISTED)
    )
    return rows_as(connection, ShownBundle, query)


def latest_with_records(connection: Connection, host: str) -> int | None:
    """Return the id of a host's latest bundle with records, or None."""
    query = (
        select(bundles.c.id)
        .join(hosts)
        .where(
            hosts.c.name == host,
            select(bundle_services.c.service).where(bundle_services.c.bundle_id == bundles.c.id).exists(),
        )
        .order_by(bundles.c.id.desc())
        .limit(1)
    )
    return connection.execute(query).scalar_one_or_none()


def save(connection: Connection, bundle_id: int, summary: RecordsSummary, analysis: Analysis) -> None:
    """Store the analysis of a bundle. If its records are the host's latest, they set the records' verdict."""
    row = connection.execute(
        select(bundles.c.host_id, bundles.c.received_at).where(bundles.c.id == bundle_id)
    ).one_or_none()
    if row is None:
        return  # removed meanwhile
    connection.execute(delete(bundle_services).where(bundle_services.c.bundle_id == bundle_id))
    services = {service.service: service for service in summary.services}
    if services:
        connection.execute(
            insert(bundle_services),
            [{"bundle_id": bundle_id, **msgspec.structs.asdict(service)} for service in services.values()],
        )
    values = {
        "is_indexed": True,
        "claimed_until": None,
        "verdict": summary.verdict,
        "reason": summary.reason,
        "boots": "\n".join(summary.boots),
        "left_out": "\n".join(summary.left_out),
    }
    connection.execute(update(bundles).where(bundles.c.id == bundle_id).values(values))
    store_verdict(connection, row.host_id, summary, row.received_at)
    if hardware := readable(summary.hardware):
        connection.execute(
            update(hosts)
            .where(hosts.c.id == row.host_id, hosts.c.hardware != hardware)
            .values(hardware=hardware, revision=hosts.c.revision + 1)
        )
    if services:
        _save_analysis(connection, row.host_id, bundle_id, analysis)


def _save_analysis(connection: Connection, host_id: int, bundle_id: int, analysis: Analysis) -> None:
    """Store the analysis of a bundle, replacing the one of an earlier bundle of the host."""
    values = {"bundle_id": bundle_id, "data": zlib.compress(msgspec.json.encode(analysis))}
    of_host = analyses.c.host_id == host_id
    earlier = update(analyses).where(of_host, analyses.c.bundle_id <= bundle_id)
    if not connection.execute(earlier.values(values)).rowcount:
        new = insert_into(connection, analyses).on_conflict_do_nothing(index_elements=["host_id"])
        connection.execute(new, {"host_id": host_id, **values})


def read_analysis(connection: Connection, bundle_id: int) -> Analysis | None:
    """Return the stored analysis of a bundle, or None if it was not read yet."""
    data: bytes | None = connection.execute(
        select(analyses.c.data).where(analyses.c.bundle_id == bundle_id)
    ).scalar_one_or_none()
    return None if data is None else msgspec.json.decode(zlib.decompress(data), type=Analysis)


def store_verdict(connection: Connection, host_id: int, summary: RecordsSummary, at: float) -> None:
    """Store the verdict of records for their host, unless later records set one.

    A bundle without records and without signs of a failure changes nothing.
    """
    if not summary.verdict or (summary.verdict == _UNKNOWN and not summary.services):
        return
    before: bytes | None = connection.execute(
        select(hosts.c.records_verdict).where(hosts.c.id == host_id).with_for_update()
    ).scalar_one_or_none()
    if before and msgspec.json.decode(before, type=RecordsVerdict).at > at:
        return
    verdict = RecordsVerdict(
        summary.verdict, summary.why or summary.reason, summary.service, summary.stage, at
    )
    values: dict[str, Any] = {"records_verdict": msgspec.json.encode(verdict), "due_at": 0.0}
    connection.execute(
        update(hosts).where(hosts.c.id == host_id).values(**values, revision=hosts.c.revision + 1)
    )


_UNKNOWN: Final = "unknown"
_MOST_SERVICE: Final = 8 << 20
"""Only the last part of a record, of this size in bytes, is read."""
_MOST_HOST: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSource:
    """The place of records."""

    name: str
    """The displayed name."""
    mark: str
    """A key that changes with the records."""
    received_at: float
    """The time at which the latest records arrived."""
    bundle_id: int = 0
    """The id of the bundle; 0 for records sent live."""
    host_id: int = 0
    """The id of the host for live records; 0 for a bundle."""


def find_source(connection: Connection, host: str) -> RecordsSource | None:
    """Return the most recently received records of a host, or None."""
    sources = [source for source in (_live(connection, host), _bundle(connection, host)) if source]
    return max(sources, key=lambda source: source.received_at, default=None)


def write_records(connection: Connection, source: RecordsSource, stream: BinaryIO) -> None:
    """Write live records to an archive like that of a bundle. Long records are truncated at the beginning."""
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for service, data in record_rows.read_ends(connection, source.host_id, _MOST_HOST, _MOST_SERVICE):
            member = tarfile.TarInfo(f"{RECORD_DIRECTORIES[-1]}/{service}.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _live(connection: Connection, host: str) -> RecordsSource | None:
    host_id = record_rows.read_host_id(connection, host)
    files = () if host_id is None else record_rows.read_stored_files(connection, host_id)
    if not files or host_id is None:
        return None
    at = max(one.received_at for one in files)
    mark = f"live {sum(one.offset for one in files)} {at}"
    return RecordsSource(name="records as they are sent", mark=mark, received_at=at, host_id=host_id)


def _bundle(connection: Connection, host: str) -> RecordsSource | None:
    latest = latest_with_records(connection, host)
    query = select(bundles.c.id, bundles.c.name, bundles.c.received_at).where(bundles.c.id == latest)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return RecordsSource(
        name=row.name, mark=f"bundle {latest}", received_at=row.received_at, bundle_id=row.id
    )

"""Size and deletion of stored builds: rows first, objects afterwards."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Table, bindparam, delete, func, select, tuple_, update

from service_record.collector.domain.retention import FAILURES, StoredBuild
from service_record.collector.store.schema import (
    builds,
    bundles,
    chunks,
    cluster_events,
    cluster_logs,
    counters,
    durations,
    events,
    hosts,
    last_words,
    sessions,
    steps,
)

AT_ONCE: Final = 5_000
"""Maximum number of rows to delete in one transaction, because reports wait meanwhile."""
_BUILDS_AT_ONCE: Final = 200
STEP_BYTES: Final = 300
"""Approximate size of a step with its index entries, without its logs, in bytes."""


def claim_housekeeping(connection: Connection, now: float, seconds: float) -> bool:
    """Claim the housekeeping. Return False if another process does it, or did it recently."""
    own = counters.c.name == "housekeeping"
    free = select(counters.c.latest).where(own, counters.c.latest <= now - seconds)
    if connection.execute(free.with_for_update(skip_locked=True)).first() is None:
        return False
    connection.execute(update(counters).where(own).values(latest=int(now)))
    return True


def read_builds(connection: Connection) -> list[StoredBuild]:
    """Return all builds, with the size of each."""
    of_steps = _sums(connection, steps, func.length(steps.c.logs))
    of_bundles = _sums(connection, bundles, bundles.c.size)
    of_words = _sums(connection, last_words, func.length(last_words.c.text))
    query = select(
        builds.c.host_id, builds.c.number, builds.c.updated_at, builds.c.verdict, hosts.c.build
    ).join(hosts, hosts.c.id == builds.c.host_id)
    stored_builds = []
    for row in connection.execute(query):
        step_number, logs = of_steps.get((row.host_id, row.number), (0, 0))
        bundle_number, size = of_bundles.get((row.host_id, row.number), (0, 0))
        _, words = of_words.get((row.host_id, row.number), (0, 0))
        stored_builds.append(
            StoredBuild(
                host_id=row.host_id,
                number=row.number,
                updated_at=row.updated_at,
                is_failure=row.verdict in FAILURES,
                is_latest=row.number == row.build,
                steps=step_number,
                bundles=bundle_number,
                size=step_number * STEP_BYTES + logs + size + words,
            )
        )
    return [*stored_builds, *_before_any_build(connection)]


def _before_any_build(connection: Connection) -> list[StoredBuild]:
    """Return the bundles of hosts from before their first build: as build 0, the latest while there is no
    other.
    """
    latest, count, size = func.max(bundles.c.received_at), func.count(), func.sum(bundles.c.size)
    query = (
        select(
            bundles.c.host_id,
            latest.label("latest"),
            count.label("number"),
            size.label("size"),
            hosts.c.build,
        )
        .join(hosts, hosts.c.id == bundles.c.host_id)
        .where(bundles.c.build == 0)
        .group_by(bundles.c.host_id, hosts.c.build)
    )
    return [
        StoredBuild(
            host_id=row.host_id,
            number=0,
            updated_at=row.latest,
            is_failure=False,
            is_latest=row.build == 0,
            steps=0,
            bundles=row.number,
            size=int(row.size),
        )
        for row in connection.execute(query)
    ]


def size_of_chunks(connection: Connection) -> int:
    """Return the size of live records in bytes."""
    query = select(func.coalesce(func.sum(func.length(chunks.c.data)), 0))
    size: int = connection.execute(query).scalar_one()
    return int(size)


def delete_steps(connection: Connection, host_id: int, build: int) -> int:
    """Delete some of the steps of a build. Return their number; 0 means that none are left."""
    some = select(steps.c.id).where(steps.c.host_id == host_id, steps.c.build == build).limit(AT_ONCE)
    return connection.execute(delete(steps).where(steps.c.id.in_(some))).rowcount


def batches(forgotten: Iterable[StoredBuild]) -> Iterator[Sequence[StoredBuild]]:
    """Yield groups of builds, in the given order, that one transaction can delete with their steps."""
    batch: list[StoredBuild] = []
    for build in forgotten:
        if batch and (len(batch) == _BUILDS_AT_ONCE or sum(b.steps for b in batch) + build.steps > AT_ONCE):
            yield batch
            batch = []
        batch.append(build)
    if batch:
        yield batch


def delete_builds(connection: Connection, forgotten: Iterable[StoredBuild]) -> Sequence[str]:
    """Delete builds, their steps and the rows of their bundles. Return the keys of the bundles."""
    pairs = [{"host": build.host_id, "build": build.number} for build in forgotten]
    of_builds = tuple_(bundles.c.host_id, bundles.c.build).in_(
        [(pair["host"], pair["build"]) for pair in pairs]
    )
    keys = connection.execute(select(bundles.c.key).where(of_builds)).scalars().all()
    for table, number in (
        (steps, steps.c.build),
        (bundles, bundles.c.build),
        (last_words, last_words.c.build),
        (builds, builds.c.number),
    ):
        of_build = (table.c.host_id == bindparam("host")) & (number == bindparam("build"))
        connection.execute(delete(table).where(of_build), pairs)
    return keys


def delete_events(connection: Connection, before: float) -> int:
    """Delete some events from before a time. Return their number."""
    deleted = 0
    for table in (events, cluster_events):
        some = select(table.c.id).where(table.c.received_at < before).limit(AT_ONCE)
        deleted += connection.execute(delete(table).where(table.c.id.in_(some))).rowcount
    return deleted


def delete_durations(connection: Connection, before: float) -> int:
    """Delete some durations of steps from before a time. Return their number."""
    some = select(durations.c.id).where(durations.c.ended_at < before).limit(AT_ONCE)
    return connection.execute(delete(durations).where(durations.c.id.in_(some))).rowcount


def delete_replaced_chunks(connection: Connection, before: float) -> int:
    """Delete replaced record files without new data since a time."""
    file = (chunks.c.host_id, chunks.c.service, chunks.c.file)
    latest = func.max(chunks.c.id)
    of_services: dict[tuple[int, str], int] = {
        (row.host_id, row.service): row.latest
        for row in connection.execute(
            select(chunks.c.host_id, chunks.c.service, latest.label("latest")).group_by(*file[:2])
        )
    }
    old = (
        select(*file, latest.label("latest")).group_by(*file).having(func.max(chunks.c.received_at) < before)
    )
    replaced = [
        (row.host_id, row.service, row.file)
        for row in connection.execute(old)
        if row.latest != of_services.get((row.host_id, row.service))
    ]
    deleted = 0
    for start in range(0, len(replaced), 200):
        some = tuple_(*file).in_(replaced[start : start + 200])
        deleted += connection.execute(delete(chunks).where(some)).rowcount
    return deleted


def delete_last_words(connection: Connection, before: float) -> int:
    """Delete the last lines of services that printed none since a time. Return the number of services."""
    return connection.execute(delete(last_words).where(last_words.c.received_at < before)).rowcount


def delete_sessions(connection: Connection, now: float) -> int:
    """Delete expired login sessions. Return their number."""
    return connection.execute(delete(sessions).where(sessions.c.expires_at < now)).rowcount


def select_unused_keys(connection: Connection, keys: Collection[str]) -> set[str]:
    """Return the keys that neither a bundle nor logs of a cluster use."""
    unused = set(keys)
    for column in (bundles.c.key, cluster_logs.c.key):
        unused -= set(connection.execute(select(column).where(column.in_(keys))).scalars())
    return unused


def _sums(connection: Connection, table: Table, size: Any) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the number and size in bytes of a table's rows for each host and build."""
    of = (table.c.host_id, table.c.build)
    query = select(*of, func.count(), func.coalesce(func.sum(size), 0)).group_by(*of)
    return {(row[0], row[1]): (int(row[2]), int(row[3])) for row in connection.execute(query)}

"""The database writer: overlapping commits, and callers on several event loops."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from psycopg.errors import SerializationFailure
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import row_writer
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from testing import postgresql

COMMIT_SECONDS = 0.1


@pytest.fixture
def slow_commits() -> Iterator[str]:
    """A PostgreSQL whose commits take a tenth of a second, like on a remote disk."""
    if postgresql.programs() is None:
        pytest.skip("no PostgreSQL is installed")
    delay = {"commit_delay": str(int(COMMIT_SECONDS * 1e6)), "commit_siblings": "0"}
    with postgresql.cluster(delay) as running, running.migrated() as url:
        yield url


@pytest.fixture
def database(settings: CollectorSettings) -> Iterator[Database]:
    settings.data.mkdir(exist_ok=True)
    database = Database(settings.database or sqlite_url(settings.data))
    yield database
    database.close()


@pytest.mark.slow
def test_postgresql_commits_overlap_and_keep_their_order(slow_commits: str) -> None:
    database = Database(slow_commits)
    with database.changing() as connection:
        connection.execute(text("CREATE TABLE done (id serial, name integer)"))
    writer = DatabaseWriter(database)
    began = time.monotonic()
    changes = []
    for number in range(6):
        changes.append(writer.change(lambda connection, n=number: _insert(connection, n)))  # type: ignore[misc]
        time.sleep(0.02)
    for change in changes:
        change.result()
    seconds = time.monotonic() - began
    writer.close()

    with database.reading() as connection:
        names = connection.execute(text("SELECT name FROM done ORDER BY id")).scalars().all()
    database.close()
    assert writer.commits > 3, "they went into few transactions, which shows nothing"
    assert seconds < writer.commits * COMMIT_SECONDS * 0.75
    assert names == list(range(6))


@pytest.mark.slow
def test_slow_commit_starts_early_and_the_rest_joins_it(slow_commits: str) -> None:
    database = Database(slow_commits)
    with database.changing() as connection:
        connection.execute(text("CREATE TABLE done (id serial, name integer)"))
    writer = DatabaseWriter(database)
    sizes = []

    def write(connection: Connection, items: Sequence[int], /) -> Sequence[int | Exception]:
        sizes.append(len(items))
        for number in items:
            _insert(connection, number)
        return items

    async def add_all() -> float:
        began = time.monotonic()
        await asyncio.gather(*(writer.add(write, [number]) for number in range(60)))
        return time.monotonic() - began

    seconds = []
    for _ in range(5):  # a busy machine delays some of them
        writer.change(lambda connection: _insert(connection, -1)).result()
        seconds.append(asyncio.run(add_all()))
    writer.close()
    database.close()

    assert sizes[0] < sizes[1]
    assert sum(sizes) == 5 * 60
    assert min(seconds) < 2 * COMMIT_SECONDS


def _insert(connection: Connection, number: int) -> None:
    connection.execute(text("INSERT INTO done (name) VALUES (:name)"), {"name": number})


def _double(_: Connection, items: Sequence[int], /) -> Sequence[int | Exception]:
    return [ValueError(str(item)) if item < 0 else 2 * item for item in items]


def test_each_event_loop_gets_its_own_results(database: Database) -> None:
    writer = DatabaseWriter(database)
    results: dict[int, Sequence[int | Exception]] = {}

    async def add(number: int) -> None:
        results[number] = await writer.add(_double, [number, -1 - number, number + 1])

    threads = [threading.Thread(target=lambda n=n: asyncio.run(add(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()

    assert {n: [str(result) for result in results[n]] for n in range(8)} == {
        n: [str(2 * n), str(-1 - n), str(2 * n + 2)] for n in range(8)
    }


def test_failed_item_does_not_affect_others(database: Database) -> None:
    def write(_: Connection, items: Sequence[int], /) -> Sequence[int | Exception]:
        if 13 in items:
            raise ValueError("unlucky")
        return items

    writer = DatabaseWriter(database)

    results = asyncio.run(writer.add(write, [12, 13, 14]))

    writer.close()
    assert [str(result) for result in results] == ["12", "unlucky", "14"]


def _conflict() -> OperationalError:
    return OperationalError("", {}, SerializationFailure())


def test_failure_after_conflicts_is_answered(database: Database) -> None:
    tries = itertools.count()

    def write(_: Connection) -> None:
        if next(tries) < 30:
            raise _conflict()
        raise ValueError("unlucky")

    writer = DatabaseWriter(database)

    with pytest.raises(ValueError, match="unlucky"):
        writer.change(write).result(timeout=20)

    assert writer.conflicts == 30
    assert writer.change(lambda _: 1).result(timeout=20) == 1
    writer.close()


def test_conflicts_that_do_not_end_are_answered(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_: Connection) -> None:
        raise _conflict()

    monkeypatch.setattr(row_writer, "RETRY_SECONDS", 0.2)
    writer = DatabaseWriter(database)

    with pytest.raises(Unavailable):
        writer.change(write).result(timeout=20)

    assert writer.change(lambda _: 1).result(timeout=20) == 1
    writer.close()


def test_closed_writer_refuses_items(database: Database) -> None:
    writer = DatabaseWriter(database)
    writer.close()

    with pytest.raises(Unavailable):
        asyncio.run(writer.add(_double, [1]))

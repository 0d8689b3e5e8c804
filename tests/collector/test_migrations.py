"""Databases of earlier versions are upgraded, and keep their rows."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Connection, insert, inspect, select, text, update
from sqlalchemy.engine import make_url

from service_record.collector.domain.access import Grant, TokenKind
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.store.administration import put_host
from service_record.collector.store.database import Database, DatabaseError, sqlite_url
from service_record.collector.store.reporting import Report, record_steps
from service_record.collector.store.schema import counters, metadata, steps

if TYPE_CHECKING:
    from testing.postgresql import Cluster

RELEASED = Path(__file__).parent / "databases"
"""Dumps of the databases of all released versions."""
VERSIONS = sorted({path.name.rpartition("-")[0] for path in RELEASED.iterdir()})


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database. Each test runs with SQLite and with PostgreSQL."""
    if request.param == "sqlite":
        database = Database(sqlite_url(tmp_path))
        yield database
        database.close()
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    with cluster.database() as url:
        database = Database(url)
        yield database
        database.close()


def begin(database: Database, version: str) -> None:
    """Create the tables of an earlier version in an empty database."""
    made = (RELEASED / f"{version}-{database.url.get_backend_name()}.sql").read_text()
    if database.is_sqlite:
        with contextlib.closing(sqlite3.connect(str(database.url.database))) as connection:
            connection.executescript(made)
        return
    with psycopg.connect(database.url.render_as_string(hide_password=False)) as connection:
        connection.execute(made.encode())


def fill(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Insert a row into every table of that version. Return all rows."""
    found = inspect(connection)
    for table in metadata.sorted_tables:
        if table.name == "counters" or not found.has_table(table.name):
            continue
        known = {column["name"] for column in found.get_columns(table.name)}
        columns = [column for column in table.columns if column.name in known and not is_given(column)]
        connection.execute(insert(table).values({column.name: value_for(column) for column in columns}))
    if found.has_table("counters"):
        connection.execute(update(counters).values(latest=1))  # the value after one step
    if connection.dialect.name == "postgresql" and found.has_sequence("step_numbers"):
        connection.execute(text("SELECT setval('step_numbers', 1)"))
    return content(connection)


def is_given(column: Column[Any]) -> bool:
    """Return True if the database generates the values of this column: 1, 2 and so on."""
    return column is column.table.autoincrement_column and column.table is not steps


def value_for(column: Column[Any]) -> object:
    return {int: 1, float: 1.5, str: "text", bytes: b"bytes", bool: True}[column.type.python_type]


def content(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables, with the columns of the database."""
    names = inspect(connection).get_table_names()
    return {
        name: [dict(row) for row in connection.execute(text(f'SELECT * FROM "{name}"')).mappings()]
        for name in names
        if name != "alembic_version"
    }


def is_kept(before: dict[str, Any], after: list[dict[str, Any]]) -> bool:
    """Return True if a row exists. The mark of a read bundle is ignored, because bundles are read again."""
    before = {name: value for name, value in before.items() if name != "is_indexed"}
    return any(before.items() <= row.items() for row in after)


def test_empty_database_gets_the_schema(empty: Database) -> None:
    empty.migrate()

    with empty.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_migration_keeps_data_of_earlier_version(empty: Database, version: str) -> None:
    begin(empty, version)
    with empty.changing() as connection:
        before = fill(connection)

    empty.migrate()

    with empty.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        after = content(connection)
    for notice in before.get("notices", []) if "deliveries" not in before else []:
        delivery: dict[str, Any] = {"notice_id": 1, "destination": "webhook"}
        for name in {"delivered_at", "digest", "tries", "next_at"} & notice.keys():
            delivery[name] = notice.pop(name)
        assert is_kept(delivery, after["deliveries"])
    assert {
        name: rows for name, rows in before.items() if not all(is_kept(row, after[name]) for row in rows)
    } == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_migration_never_reuses_step_numbers(empty: Database, version: str) -> None:
    begin(empty, version)
    with empty.changing() as connection:
        fill(connection)
    empty.migrate()
    step = ReportedStep(label="disk", name="Disk", status=StepStatus.DONE)

    with empty.changing() as connection:
        put_host(connection, "web1", {}, 1.0)
        (taken,) = record_steps(connection, [Report("web1", step, 1.0, Grant(1, TokenKind.ADMIN))])

    assert getattr(taken, "id", taken) == 2


def test_migration_runs_only_once(empty: Database) -> None:
    empty.migrate()
    with empty.changing() as connection:
        before = fill(connection)

    empty.migrate()

    with empty.reading() as connection:
        assert content(connection) == before


@pytest.mark.parametrize("revision", ["9999", "0003"])
def test_unknown_schema_version_is_left_unchanged(empty: Database, revision: str) -> None:
    empty.migrate()
    with empty.changing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
        before = content(connection)

    with pytest.raises(DatabaseError, match=r": its tables are of a later version of service-record, or of"):
        empty.migrate()

    with empty.reading() as connection:
        assert content(connection) == before


def test_database_with_foreign_table_is_refused(empty: Database) -> None:
    with empty.changing() as connection:
        connection.execute(text("CREATE TABLE hosts (id INTEGER)"))

    with pytest.raises(DatabaseError, match="hosts"):
        empty.migrate()

    with empty.reading() as connection:
        assert inspect(connection).get_table_names() == ["hosts"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "invalid database URL: expected postgresql://USER@HOST/NAME"),
        ("postgresql:/u:secret@h", "invalid database URL: expected postgresql://USER@HOST/NAME"),
        ("mysql://u:secret@h/db", "mysql://u:***@h/db: only postgresql://USER@HOST/NAME can be used"),
    ],
)
def test_invalid_url_error_hides_password(url: str, message: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        Database(url)

    assert str(caught.value) == message


def test_unreachable_database_error_hides_password() -> None:
    with pytest.raises(DatabaseError, match=r"^postgresql://u:\*\*\*@127.0.0.1:1/db: .*refused$"):
        Database("postgresql://u:secret@127.0.0.1:1/db").migrate()


def test_database_with_other_encoding_is_refused(cluster: "Cluster") -> None:
    """`initdb` creates such databases with a C locale. They would store texts as bytes."""
    with cluster.database() as url:
        cluster.ask(
            "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        database = Database(make_url(url).set(database="ascii"))
        with pytest.raises(DatabaseError, match=r"encoding of the database is SQL_ASCII; create it with"):
            database.migrate()
        database.close()
        cluster.ask("DROP DATABASE ascii")


def test_readers_see_a_snapshot_and_cannot_write(empty: Database) -> None:
    empty.migrate()
    asked = select(counters.c.latest).where(counters.c.name == "steps")
    with empty.reading() as reading:
        before = reading.execute(asked).scalar_one()
        with empty.changing() as changing:
            changing.execute(update(counters).values(latest=7))
        assert reading.execute(asked).scalar_one() == before
    with empty.reading() as reading:
        assert reading.execute(asked).scalar_one() == 7


def test_numbers_of_deleted_steps_are_not_reused(empty: Database) -> None:
    empty.migrate()
    step = ReportedStep(label="disk", name="Disk", status=StepStatus.DONE)
    report = Report("web1", step, 1.0, Grant(1, TokenKind.ADMIN))
    with empty.changing() as connection:
        put_host(connection, "web1", {}, 1.0)
        record_steps(connection, [report, report])
        connection.execute(text("DELETE FROM steps"))

    with empty.changing() as connection:
        (taken,) = record_steps(connection, [report])

    assert getattr(taken, "id", taken) == 3

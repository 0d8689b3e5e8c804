"""The tables of every earlier version become those of this one, with what is in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, insert, inspect, select, text, update
from sqlalchemy.engine import make_url

from service_record.collector.domain.access import Grant, TokenKind
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.store import database as database_module
from service_record.collector.store.administration import put_host
from service_record.collector.store.cluster_rows import list_clusters, refresh_new
from service_record.collector.store.database import Database, DatabaseError, sqlite_url
from service_record.collector.store.reporting import Report, record_steps
from service_record.collector.store.schema import builds, counters, hosts, metadata, steps

if TYPE_CHECKING:
    from testing.postgresql import Cluster

MIGRATIONS = Path(database_module.__file__).parent / "migrations"
REVISIONS = [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()][::-1]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with nothing in it, of each kind in turn."""
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


def fill(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Put a row into every table there is, as that version has it; all of them."""
    found = inspect(connection)
    for table in metadata.sorted_tables:
        if table.name == "counters" or not found.has_table(table.name):
            continue
        known = {column["name"] for column in found.get_columns(table.name)}
        columns = [column for column in table.columns if column.name in known and not is_given(column)]
        connection.execute(insert(table).values({column.name: value_for(column) for column in columns}))
    if found.has_table("counters"):
        connection.execute(update(counters).values(latest=1))  # as it is with one step
    if connection.dialect.name == "postgresql" and found.has_sequence("step_numbers"):
        connection.execute(text("SELECT setval('step_numbers', 1)"))
    return content(connection)


def is_given(column: Column[Any]) -> bool:
    """Return whether the database gives rows their number there: 1 to the first."""
    return column is column.table.autoincrement_column and column.table is not steps


def value_for(column: Column[Any]) -> object:
    return {int: 1, float: 1.5, str: "text", bytes: b"bytes", bool: True}[column.type.python_type]


def content(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, by the columns that they have there."""
    names = inspect(connection).get_table_names()
    return {
        name: [dict(row) for row in connection.execute(text(f'SELECT * FROM "{name}"')).mappings()]
        for name in names
        if name != "alembic_version"
    }


def is_kept(before: dict[str, Any], after: list[dict[str, Any]]) -> bool:
    """Return whether a row is there. The mark of a read bundle does not count: its page is made anew."""
    before = {name: value for name, value in before.items() if name != "is_indexed"}
    return any(before.items() <= row.items() for row in after)


def test_an_empty_database_gets_the_tables_of_the_schema(empty: Database) -> None:
    empty.migrate()

    with empty.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_an_earlier_version_kept_is_there_afterwards(empty: Database, revision: str) -> None:
    empty.migrate(revision)
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


@pytest.mark.parametrize("revision", REVISIONS)
def test_after_a_migration_steps_have_numbers_that_no_step_had(empty: Database, revision: str) -> None:
    empty.migrate(revision)
    with empty.changing() as connection:
        fill(connection)
    empty.migrate()
    step = ReportedStep(label="disk", name="Disk", status=StepStatus.DONE)

    with empty.changing() as connection:
        put_host(connection, "web1", {}, 1.0)
        (taken,) = record_steps(connection, [Report("web1", step, 1.0, Grant(1, TokenKind.ADMIN))])

    assert getattr(taken, "id", taken) == 2


def test_a_migration_that_was_made_is_not_made_again(empty: Database) -> None:
    empty.migrate()
    with empty.changing() as connection:
        before = fill(connection)

    empty.migrate()

    with empty.reading() as connection:
        assert content(connection) == before


def test_the_tables_of_a_later_version_are_left_alone(empty: Database) -> None:
    empty.migrate()
    with empty.changing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(DatabaseError, match=r": a later version of service-record has been here$"):
        empty.migrate()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "invalid database URL: expected postgresql://USER@HOST/NAME"),
        ("postgresql:/u:secret@h", "invalid database URL: expected postgresql://USER@HOST/NAME"),
        ("mysql://u:secret@h/db", "mysql://u:***@h/db: only postgresql://USER@HOST/NAME can be used"),
    ],
)
def test_a_url_of_no_database_of_ours_is_told_without_its_password(url: str, said: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        Database(url)

    assert str(caught.value) == said


def test_a_database_that_does_not_answer_is_told_in_one_line_without_its_password() -> None:
    with pytest.raises(DatabaseError, match=r"^postgresql://u:\*\*\*@127.0.0.1:1/db: .*refused$"):
        Database("postgresql://u:secret@127.0.0.1:1/db").migrate()


def test_a_database_of_another_encoding_is_refused(cluster: "Cluster") -> None:
    """As `initdb` makes them under a C locale: texts would be bytes there."""
    with cluster.database() as url:
        cluster.ask(
            "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        database = Database(make_url(url).set(database="ascii"))
        with pytest.raises(DatabaseError, match=r"encoding of the database is SQL_ASCII; create it with"):
            database.migrate()
        database.close()
        cluster.ask("DROP DATABASE ascii")


def test_readers_see_one_state_of_the_database_and_change_nothing(empty: Database) -> None:
    empty.migrate()
    asked = select(counters.c.latest).where(counters.c.name == "steps")
    with empty.reading() as reading:
        before = reading.execute(asked).scalar_one()
        with empty.changing() as changing:
            changing.execute(update(counters).values(latest=7))
        assert reading.execute(asked).scalar_one() == before
    with empty.reading() as reading:
        assert reading.execute(asked).scalar_one() == 7


def test_numbers_of_steps_that_are_gone_are_given_to_no_other(empty: Database) -> None:
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


def test_hosts_of_an_earlier_version_form_clusters(empty: Database) -> None:
    empty.migrate("0003")
    with empty.changing() as connection:
        for number in (1, 2):
            connection.execute(
                insert(hosts).values(id=number, name=f"m{number}", first_seen=1.0, last_seen=1.0)
            )
            connection.execute(
                text(
                    "INSERT INTO installations (host_id, id, cluster_id, infra_env_id, status, "
                    "stage_started_at, stage_updated_at) VALUES (:host, :id, 'c', '', 'installed', 1, 1)"
                ),
                {"host": number, "id": f"h{number}"},
            )

    empty.migrate()
    with empty.changing() as connection:
        refresh_new(connection, 5.0)
        (cluster,) = list_clusters(connection)

    assert (cluster.id, cluster.status, cluster.hosts, cluster.joined) == ("c", "installing", 2, 2)
    assert cluster.reason == "2 of 3 control-plane hosts are installed."


def test_builds_that_were_overtaken_before_get_the_verdict_of_their_end(empty: Database) -> None:
    empty.migrate("0002")
    said = [("failed", None), ("init", None), ("done", 2.0), ("init", None)]
    with empty.changing() as connection:
        connection.execute(
            insert(hosts).values(id=1, name="web1", first_seen=1.0, last_seen=1.0, build=len(said))
        )
        for number, (status, ended_at) in enumerate(said, 1):
            times = {"started_at": 1.0, "updated_at": 1.0, "ended_at": ended_at}
            connection.execute(insert(builds).values(host_id=1, number=number, **times))
            step = {"label": "disk", "name": "Disk", "status": status, "received_at": 1.0}
            connection.execute(insert(steps).values(host_id=1, build=number, **step))

    empty.migrate()

    with empty.reading() as connection:
        rows = connection.execute(select(builds.c.verdict, builds.c.reason).order_by(builds.c.number))
        assert [tuple(row) for row in rows] == [
            ("failed", "Disk failed."),
            ("abandoned", "Another build began."),
            ("done", "It was complete."),
            ("progressing", ""),
        ]

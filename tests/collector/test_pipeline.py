"""Several statements in one round trip to PostgreSQL."""

from collections.abc import Iterator
from typing import TypeAlias

import psycopg
import pytest
from sqlalchemy import select, text

from service_record.collector.store.database import Database
from service_record.collector.store.dialects import ask
from service_record.collector.store.pipeline import Statement, execute
from service_record.collector.store.schema import step_numbers
from testing.postgresql import Cluster

Driver: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
NEGATE = b"SELECT -CAST($1 AS integer)"


@pytest.fixture
def driver(cluster: Cluster) -> Iterator[Driver]:
    with psycopg.connect(cluster.url("postgres")) as connection:
        yield connection


def numbers(driver: Driver, prepared: dict[bytes, bytes], *sent: bytes) -> list[bytes | None]:
    results = execute(driver, prepared, [Statement(NEGATE, [number]) for number in sent])
    return [result.get_value(0, 0) for result in results]


def test_each_statement_has_its_result(driver: Driver) -> None:
    prepared: dict[bytes, bytes] = {}

    assert numbers(driver, prepared, b"1", b"2") == [b"-1", b"-2"]
    assert numbers(driver, prepared, b"3") == [b"-3"]
    assert set(prepared) == {NEGATE}


def test_connection_can_be_used_after_a_failed_statement(
    driver: Driver,
) -> None:
    prepared: dict[bytes, bytes] = {}
    for statement in (Statement(b"SELECT nothing", []), Statement(NEGATE, [b"no number"])):
        with pytest.raises(psycopg.Error):
            execute(driver, prepared, [statement, Statement(b"SELECT 1", [])])
        driver.rollback()

    assert numbers(driver, prepared, b"1", b"2") == [b"-1", b"-2"]


def test_more_is_sent_and_received_than_sockets_buffer(
    driver: Driver,
) -> None:
    text = b"x" * 300_000
    echo = Statement(b"SELECT CAST($1 AS text)", [text])

    results = execute(driver, {}, [echo] * 40)

    assert [result.get_value(0, 0) for result in results] == [text] * 40


def test_text_with_nul_is_refused(driver: Driver) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        execute(driver, {}, [Statement(b"SELECT CAST($1 AS text)", [b"a\0b"])])


def test_lost_connection_raises_an_error_of_the_connection(
    driver: Driver,
) -> None:
    leave = Statement(b"SELECT pg_terminate_backend(pg_backend_pid())", [])

    with pytest.raises(psycopg.OperationalError):
        execute(driver, {}, [leave, Statement(b"SELECT 1", [])])

    assert driver.closed


def test_reads_on_a_connection_keep_its_prepared_statements(cluster: Cluster) -> None:
    """If psycopg prepared statements itself, it would deallocate all after the rollback of a read."""
    query = select(step_numbers.next_value().label("number"))
    with cluster.migrated() as url:
        database = Database(url)
        numbers = []
        for _ in range(2):
            with database.changing() as connection:
                numbers += [row.number for row in ask(connection, (query, {}))[0]]
            with database.reading() as connection:
                for _ in range(10):
                    connection.execute(text("SELECT 1"))
        database.close()

    assert numbers == [1, 2]

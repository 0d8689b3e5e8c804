"""All differences between SQLite, PostgreSQL, and what speaks only PostgreSQL's protocol.

CockroachDB, YugabyteDB and Citus lack LISTEN or advisory locks, and refuse transactions that cannot be put in
an order: nothing here needs the first two, and whoever changes the database tries again after the third.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import msgspec
import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Engine,
    Integer,
    LargeBinary,
    Select,
    Table,
    bindparam,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from service_record.collector.store.schema import counters, step_numbers

Rows = Sequence[Mapping[str, Any]]
_CONFLICTS: Final = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: nothing was done, and the same transaction may succeed now."""
_DUPLICATE: Final = "23505"
"""Another process has inserted the same key a moment before."""


def is_sqlite(connection: Connection | Engine) -> bool:
    """Return whether this is SQLite, where one transaction writes at a time."""
    return connection.dialect.name == "sqlite"


def is_conflict(fault: BaseException) -> bool:
    """Return whether a transaction lost against another one, and should be tried again."""
    return _state_of(fault) in _CONFLICTS


def is_duplicate(fault: BaseException) -> bool:
    """Return whether another process was faster: a new look-up will find its row."""
    return _state_of(fault) == _DUPLICATE


def _state_of(fault: BaseException) -> str | None:
    if isinstance(fault, DBAPIError) and isinstance(fault.orig, psycopg.Error):
        return fault.orig.sqlstate
    return None


def inserting(connection: Connection, table: Table) -> Any:
    """Return an INSERT that knows ON CONFLICT, of the dialect of a connection."""
    return (sqlite if is_sqlite(connection) else postgresql).insert(table)


def is_among(is_on_sqlite: bool, column: Column[Any], parameter: str) -> ColumnElement[bool]:
    """Return the condition that a column has one of the values of a parameter, whatever their number.

    The statement stays the same text, so that it is prepared once. `among` makes the parameter.
    """
    if is_on_sqlite:
        values = func.json_each(bindparam(parameter)).table_valued("value")
        return column.in_(values.select())
    return column == func.any(bindparam(parameter, type_=postgresql.ARRAY(column.type)))


def among(connection: Connection, values: Sequence[Any]) -> Any:
    """Return values in the form that `is_among` takes."""
    return msgspec.json.encode(values).decode() if is_sqlite(connection) else list(values)


Question = tuple[Select[Any], Mapping[str, Any]]
"""A query that is one object for as long as the process runs, and its parameters."""


def ask(connection: Connection, *questions: Question) -> list[Sequence[Any]]:
    """Return the rows of each query. PostgreSQL gets them all at once: one wait, not one for each."""
    if is_sqlite(connection):
        return [connection.execute(query, values).all() for query, values in questions]
    with _driver(connection) as driver:
        cursors = []
        with driver.pipeline():
            for query, values in questions:
                written, constants = _written(query)
                cursor = driver.cursor(row_factory=namedtuple_row)
                cursors.append(cursor.execute(written, {**constants, **values}))
        return [cursor.fetchall() for cursor in cursors]  # they are here: to fetch within would wait twice


@cache
def _written(query: Select[Any]) -> tuple[bytes, Mapping[str, Any]]:
    """Return a query as PostgreSQL's driver takes it, and the constants in it."""
    compiled = query.compile(dialect=postgresql.psycopg.dialect())  # type: ignore[no-untyped-call]
    return str(compiled).encode(), compiled.params


@contextmanager
def at_once(connection: Connection) -> Iterator[None]:
    """Have the rows of `ManyRows` in this block, and nothing else, sent to PostgreSQL at once: one wait.

    Each wait for an answer lets other threads of the process go first, which costs more than the answer.
    """
    if is_sqlite(connection):
        yield
        return
    with _driver(connection) as driver, driver.pipeline():
        yield


@contextmanager
def _driver(connection: Connection) -> "Iterator[psycopg.Connection[Any]]":
    """Yield PostgreSQL's own connection, in the same transaction. Raises SQLAlchemy's exceptions."""
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    try:
        yield driver
    except psycopg.Error as fault:
        if driver.closed:
            connection.invalidate(fault)
        raise DBAPIError.instance(None, None, fault, psycopg.Error) from fault


_NEXT_NUMBERS: Final = (
    update(counters)
    .where(counters.c.name == "steps")
    .values(latest=counters.c.latest + bindparam("count"))
    .returning(counters.c.latest)
)
_NEXT: Final = select(step_numbers.next_value().label("number")).select_from(
    func.generate_series(1, bindparam("count"))
)


def ask_with_numbers(
    connection: Connection, query: Select[Any], values: Mapping[str, Any], count: int
) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the rows of a query that holds hosts; and so many numbers, ascending, that no step ever had.

    A transaction that holds the row of a host gives its steps numbers in the order of their commits. SQLite
    has no sequences: there a row counts.
    """
    if is_sqlite(connection):
        (rows,) = ask(connection, (query, values))
        latest: int = connection.execute(_NEXT_NUMBERS, {"count": count}).scalar_one()
        return rows, range(latest - count + 1, latest + 1)
    rows, numbers = ask(connection, (query, values), (_NEXT, {"count": count}))
    return rows, sorted(row.number for row in numbers)


class ManyRows:
    """A statement for any number of rows at once: one text, whatever their number.

    PostgreSQL gets a column of values as an array, and joins them; SQLite has the rows one after the other,
    which costs it no round trip.
    """

    def __init__(
        self, table: Table, columns: Sequence[str], *, keys: Mapping[str, str] | None = None, also: str = ""
    ) -> None:
        """Prepare an INSERT of these columns; with `keys`, column -> name of the value, an UPDATE of them
        there.

        `also` is SQL that is set besides.
        """
        self._columns = tuple(columns)
        self._types = {name: table.c[name].type for name in columns}
        self._types |= {value: table.c[name].type for name, value in (keys or {}).items()}
        self._literals = {name: _literal_of(kind) for name, kind in self._types.items()}
        if keys is None:
            self._one, self._many = _insertions(table, self._types)
        else:
            self._one, self._many = _updates(table, self._types, self._columns, keys, also)

    def execute(self, connection: Connection, rows: Rows) -> None:
        """Execute it with these rows, if there are any."""
        if not rows:
            return
        if is_sqlite(connection):
            connection.exec_driver_sql(self._one, list(rows))  # the driver binds `:name` itself, in C
            return
        arrays = {
            name: f"{{{','.join([literal(row[name]) for row in rows])}}}"
            for name, literal in self._literals.items()
        }
        with _driver(connection) as driver:
            driver.execute(self._many, arrays)


def _insertions(table: Table, types: Mapping[str, Any]) -> tuple[str, bytes]:
    into = f"INSERT INTO {table.name} ({', '.join(map(_quoted, types))})"
    values = ", ".join(f":{name}" for name in types)
    return f"{into} VALUES ({values})", f"{into} SELECT * FROM {_arrays(types)}".encode()  # noqa: S608


def _updates(
    table: Table, types: Mapping[str, Any], columns: Sequence[str], keys: Mapping[str, str], also: str
) -> tuple[str, bytes]:
    begin, more = f"UPDATE {table.name} SET ", f", {also}" if also else ""  # noqa: S608
    one = ", ".join(f"{_quoted(name)} = :{name}" for name in columns)
    many = ", ".join(f"{_quoted(name)} = given.{_quoted(name)}" for name in columns)
    of_one = " AND ".join(f"{_quoted(name)} = :{value}" for name, value in keys.items())
    of_many = " AND ".join(
        f"{table.name}.{_quoted(name)} = given.{_quoted(value)}" for name, value in keys.items()
    )
    names = ", ".join(map(_quoted, types))
    given_rows = f"{_arrays(types)} AS given ({names})"
    return (
        f"{begin}{one}{more} WHERE {of_one}",
        f"{begin}{many}{more} FROM {given_rows} WHERE {of_many}".encode(),
    )


def _arrays(types: Mapping[str, Any]) -> str:
    arrays = (f"CAST(%({name})s AS {_type_name(kind)}[])" for name, kind in types.items())
    return f"unnest({', '.join(arrays)})"


def _literal_of(kind: Any) -> Callable[[Any], str]:
    """Return the function that writes a value of this type as a member of an array.

    The driver's own takes eight times as long. PostgreSQL's manual, 8.15.6.
    """
    match _type_name(kind):
        case "text":
            return _text_literal
        case "bytea":
            return _bytes_literal
    return _plain_literal


def _text_literal(value: str | None) -> str:
    return "NULL" if value is None else '"' + value.replace("\\", r"\\").replace('"', r"\"") + '"'


def _bytes_literal(value: bytes | None) -> str:
    return "NULL" if value is None else rf'"\\x{value.hex()}"'


def _plain_literal(value: object) -> str:
    return "NULL" if value is None else str(value)


def _type_name(kind: Any) -> str:
    """Return the name of a type; a text of any length, so that no cast cuts it."""
    for sql_type, name in (
        (BigInteger, "bigint"),
        (Integer, "integer"),
        (Double, "double precision"),
        (Boolean, "boolean"),
        (LargeBinary, "bytea"),
    ):
        if isinstance(kind, sql_type):
            return name
    return "text"


def _quoted(name: str) -> str:
    return f'"{name}"'

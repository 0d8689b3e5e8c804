"""All differences between SQLite and PostgreSQL.

Other databases with PostgreSQL's protocol (CockroachDB, YugabyteDB, Citus) may lack LISTEN and advisory
locks, so nothing here needs them. They also abort transactions with serialization failures more often; the
writer repeats those.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
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
from sqlalchemy.sql.dml import ReturningUpdate

from service_record.collector.store.schema import counters, step_numbers

Rows = Sequence[Mapping[str, Any]]
_CONFLICTS: Final = frozenset({"40001", "40P01"})
"""SQLSTATE of serialization failures and deadlocks. The transaction was rolled back and can be repeated."""
_DUPLICATE: Final = "23505"
"""SQLSTATE of a unique violation: another process inserted the same key first."""


def is_sqlite(connection: Connection | Engine) -> bool:
    """Return True for SQLite, where only one transaction writes at a time."""
    return connection.dialect.name == "sqlite"


def is_conflict(error: BaseException) -> bool:
    """Return True if a transaction conflicted with another one and should be repeated."""
    return _sql_state(error) in _CONFLICTS


def is_duplicate(error: BaseException) -> bool:
    """Return True if another process inserted the same key first: a new query will find its row."""
    return _sql_state(error) == _DUPLICATE


def _sql_state(error: BaseException) -> str | None:
    if isinstance(error, DBAPIError) and isinstance(error.orig, psycopg.Error):
        return error.orig.sqlstate
    return None


def inserting(connection: Connection, table: Table) -> Any:
    """Return an INSERT in the dialect of a connection; both have ON CONFLICT."""
    return (sqlite if is_sqlite(connection) else postgresql).insert(table)


def is_among(is_on_sqlite: bool, column: Column[Any], parameter: str) -> ColumnElement[bool]:
    """Return the condition `column IN (parameter)` for a parameter that holds any number of values.

    Unlike a plain IN, the text of the statement does not depend on the number of values, so it is prepared
    only once. Pass the values through `among`.
    """
    if is_on_sqlite:
        values = func.json_each(bindparam(parameter)).table_valued("value")
        return column.in_(values.select())
    return column == func.any(bindparam(parameter, type_=postgresql.ARRAY(column.type)))


def among(connection: Connection, values: Sequence[Any]) -> Any:
    """Return the value of a parameter of `is_among`."""
    return msgspec.json.encode(values).decode() if is_sqlite(connection) else list(values)


Question = tuple[Select[Any] | ReturningUpdate[Any], Mapping[str, Any]]
"""A query and its parameters. Create the query only once for each process: its compiled form is cached."""


def ask(connection: Connection, *questions: Question) -> list[Sequence[Any]]:
    """Return the rows of each query. With PostgreSQL all queries together cost one round trip.

    Values of parameters and columns are the driver's: SQLAlchemy converts none of them.
    """
    if is_sqlite(connection):
        answers = []
        for query, values in questions:
            statement, constants = _compile(query, is_on_sqlite=True)
            answers.append(connection.exec_driver_sql(statement, {**constants, **values}).all())
        return answers
    with _driver(connection) as driver:
        cursors = []
        with driver.pipeline():
            for query, values in questions:
                statement, constants = _compile(query, is_on_sqlite=False)
                cursor = driver.cursor(row_factory=namedtuple_row)
                cursors.append(cursor.execute(statement.encode(), {**constants, **values}))
        # Outside of the pipeline: fetching within it would cost a second round trip.
        return [cursor.fetchall() for cursor in cursors]


@cache
def _compile(query: Any, *, is_on_sqlite: bool) -> tuple[str, Mapping[str, Any]]:
    """Return a query's text for the driver, and the constants that SQLAlchemy turned into parameters."""
    dialect = sqlite.dialect(paramstyle="named") if is_on_sqlite else postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
    compiled = query.compile(dialect=dialect)
    return str(compiled), compiled.params


@contextmanager
def at_once(connection: Connection) -> Iterator[None]:
    """Send all `ManyRows` statements in this block to PostgreSQL in one round trip.

    Execute nothing else in the block. A round trip is expensive because other threads of the process run
    meanwhile: getting the turn again takes longer than the answer itself.
    """
    if is_sqlite(connection):
        yield
        return
    with _driver(connection) as driver, driver.pipeline():
        yield


@contextmanager
def _driver(connection: Connection) -> "Iterator[psycopg.Connection[Any]]":
    """Yield the psycopg connection, in the same transaction. Converts its errors to SQLAlchemy's."""
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    try:
        yield driver
    except psycopg.Error as error:
        if driver.closed:
            connection.invalidate(error)
        raise DBAPIError.instance(None, None, error, psycopg.Error) from error


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
    connection: Connection, locking: Question, count: int, *others: Question
) -> tuple[Any, ...]:
    """Ask a query that locks hosts, and others after it.

    Returns the rows of the first query, `count` new step numbers in ascending order, and the rows of each
    other query.

    The numbers must be drawn while the hosts are locked: only then do the steps of a host have numbers in the
    order of their commits. SQLite has no sequences, so a row of `counters` is used there.
    """
    if is_sqlite(connection):
        rows, ((latest,),), *more = ask(connection, locking, (_NEXT_NUMBERS, {"count": count}), *others)
        return rows, range(latest - count + 1, latest + 1), *more
    rows, numbers, *more = ask(connection, locking, (_NEXT, {"count": count}), *others)
    return rows, sorted(row.number for row in numbers), *more


class ManyRows:
    """An INSERT or UPDATE of any number of rows, with one statement text for all numbers.

    PostgreSQL gets each column as an array and combines them with `unnest`. SQLite executes the statement for
    each row, which costs no round trip there.
    """

    def __init__(
        self, table: Table, columns: Sequence[str], *, keys: Mapping[str, str] | None = None, also: str = ""
    ) -> None:
        """Prepare an INSERT of these columns, or with `keys` an UPDATE of them.

        `keys` maps the columns of the WHERE clause to the names of their values. `also` is another SQL
        assignment for SET.
        """
        self._columns = tuple(columns)
        self._types = {name: table.c[name].type for name in columns}
        self._types |= {value: table.c[name].type for name, value in (keys or {}).items()}
        self._values = itemgetter(*self._types)
        self._writers = [_array_writer(kind) for kind in self._types.values()]
        if keys is None:
            self._one, self._many = _insert_statements(table, self._types)
        else:
            self._one, self._many = _update_statements(table, self._types, self._columns, keys, also)

    def execute(self, connection: Connection, rows: Rows) -> None:
        """Execute the statement for these rows. Does nothing without rows."""
        if not rows:
            return
        if is_sqlite(connection):
            connection.exec_driver_sql(self._one, [self._values(row) for row in rows])
            return
        columns = zip(*map(self._values, rows), strict=True)
        arrays = [write(values) for write, values in zip(self._writers, columns, strict=True)]
        with _driver(connection) as driver:
            driver.execute(self._many, arrays)


def _insert_statements(table: Table, types: Mapping[str, Any]) -> tuple[str, bytes]:
    into = f"INSERT INTO {table.name} ({', '.join(map(_quote, types))})"
    values = ", ".join("?" for _ in types)
    return f"{into} VALUES ({values})", f"{into} SELECT * FROM {_unnest(types)}".encode()  # noqa: S608


def _update_statements(
    table: Table, types: Mapping[str, Any], columns: Sequence[str], keys: Mapping[str, str], also: str
) -> tuple[str, bytes]:
    start, more = f"UPDATE {table.name} SET ", f", {also}" if also else ""  # noqa: S608
    one = ", ".join(f"{_quote(name)} = ?" for name in columns)
    many = ", ".join(f"{_quote(name)} = given.{_quote(name)}" for name in columns)
    where_one = " AND ".join(f"{_quote(name)} = ?" for name in keys)
    where_many = " AND ".join(
        f"{table.name}.{_quote(name)} = given.{_quote(value)}" for name, value in keys.items()
    )
    names = ", ".join(map(_quote, types))
    given_rows = f"{_unnest(types)} AS given ({names})"
    return (
        f"{start}{one}{more} WHERE {where_one}",
        f"{start}{many}{more} FROM {given_rows} WHERE {where_many}".encode(),
    )


def _unnest(types: Mapping[str, Any]) -> str:
    arrays = (f"CAST(%s AS {_type_name(kind)}[])" for kind in types.values())
    return f"unnest({', '.join(arrays)})"


def _array_writer(kind: Any) -> Callable[[Sequence[Any]], str]:
    """Return a function that formats values of this type as an array literal (PostgreSQL manual, 8.15.6).

    Eight times faster than psycopg's own adaptation of lists.
    """
    match _type_name(kind):
        case "text":
            return _text_array
        case "bytea":
            return _bytes_array
    return _plain_array


def _text_array(values: Sequence[str | None]) -> str:
    # All values are escaped together: one by one takes several times as long. PostgreSQL has no NUL in texts,
    # so a value with one must not be split here: the database refuses it.
    if None not in values and (joined := "\0".join(map(str, values))).count("\0") == len(values) - 1:
        return '{"' + joined.replace("\\", r"\\").replace('"', r"\"").replace("\0", '","') + '"}'
    return f"{{{','.join(map(_text_literal, values))}}}"


def _text_literal(value: str | None) -> str:
    return "NULL" if value is None else '"' + value.replace("\\", r"\\").replace('"', r"\"") + '"'


def _bytes_array(values: Sequence[bytes | None]) -> str:
    literals = ["NULL" if value is None else rf'"\\x{value.hex()}"' for value in values]
    return f"{{{','.join(literals)}}}"


def _plain_array(values: Sequence[object]) -> str:
    return f"{{{','.join(map(str, values)).replace('None', 'NULL')}}}"


def _type_name(kind: Any) -> str:
    """Return PostgreSQL's name of a type. Texts have no length, because a cast would truncate them."""
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


def _quote(name: str) -> str:
    return f'"{name}"'

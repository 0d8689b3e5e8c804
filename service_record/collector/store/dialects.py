"""All differences between SQLite and PostgreSQL.

Other databases with PostgreSQL's protocol (CockroachDB, YugabyteDB, Citus) may lack LISTEN and advisory
locks, so nothing here needs them. They also abort transactions with serialization failures more often; the
writer repeats those.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, Final

import msgspec
import psycopg
from psycopg.adapt import Transformer
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
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.functions import FunctionElement

from service_record.collector.store.pipeline import Statement, execute
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


def insert_into(connection: Connection, table: Table) -> Any:
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


class _ContainsText(FunctionElement[bool]):
    """The condition that a column matches a pattern of LIKE, regardless of case."""

    type = Boolean()
    inherit_cache = True


@compiles(_ContainsText)
def _compile_contains_text(element: _ContainsText, compiler: SQLCompiler, **settings: Any) -> str:
    column, pattern = (compiler.process(clause, **settings) for clause in element.clauses)
    # LIKE of SQLite ignores the case of ASCII letters. SQLAlchemy's `icontains` calls lower() there for each
    # value, which takes longer than the comparison, and which also knows only ASCII letters.
    operator = "LIKE" if compiler.dialect.name == "sqlite" else "ILIKE"
    return f"{column} {operator} {pattern} ESCAPE '/'"


def contains_text(column: Column[str], text: str) -> ColumnElement[bool]:
    """Return the condition that a column contains a text, regardless of case."""
    escaped = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return _ContainsText(column, literal(f"%{escaped}%"))


Question = tuple[Select[Any] | ReturningUpdate[Any], Mapping[str, Any]]
"""A query and its parameters. Create the query only once for each process: its compiled form is cached."""


def ask(connection: Connection, *questions: Question) -> list[Sequence[Any]]:
    """Return the rows of each query, in a transaction that changes the database.

    With PostgreSQL all queries together cost one round trip: other threads of the process run meanwhile, and
    getting the turn again takes longer than the answer itself.

    Values of parameters and columns are the driver's: SQLAlchemy converts none of them.
    """
    compiled = [_compile(query, is_on_sqlite=is_sqlite(connection)) for query, _ in questions]
    if is_sqlite(connection):
        return [
            connection.exec_driver_sql(query.text, {**query.constants, **values}).all()
            for query, (_, values) in zip(compiled, questions, strict=True)
        ]
    statements = []
    for query, (_, values) in zip(compiled, questions, strict=True):
        given = {**query.constants, **values}
        literals = [_parameter(given[name]) for name in query.names]
        statements.append(Statement(query.text.encode(), literals))
    with _driver(connection) as driver:
        results = execute(driver, _prepared(connection), statements)
        answers: list[Sequence[Any]] = []
        for query, result in zip(compiled, results, strict=True):
            loading = Transformer(driver)
            loading.set_pgresult(result)
            answers.append(loading.load_rows(0, result.ntuples, query.make_row))
        return answers


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A query as the driver gets it."""

    text: str
    constants: Mapping[str, Any]
    """Values that SQLAlchemy turned into parameters."""
    names: Sequence[str]
    """The names of PostgreSQL's parameters `$1`, `$2` and so on."""
    make_row: Callable[[Iterable[Any]], Any]


@cache
def _compile(query: Any, *, is_on_sqlite: bool) -> _Compiled:
    dialect = (
        sqlite.dialect(paramstyle="named")
        if is_on_sqlite
        else postgresql.psycopg.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
    )
    compiled = query.compile(dialect=dialect)
    row: Any = namedtuple("row", query.exported_columns.keys())  # type: ignore[misc]  # noqa: PYI024
    return _Compiled(str(compiled), compiled.params, compiled.positiontup or (), row._make)


def _parameter(value: Any) -> bytes | None:
    """Return a value in PostgreSQL's text format."""
    match value:
        case None:
            return None
        case list():
            is_text = any(isinstance(each, str) for each in value)
            return (_text_array if is_text else _plain_array)(value).encode()
        case bytes():
            return rb"\x" + value.hex().encode()
    return str(value).encode()


def _prepared(connection: Connection) -> dict[bytes, bytes]:
    """Return the names of prepared statements, which live as long as the driver's connection."""
    names: dict[bytes, bytes] = connection.info.setdefault("prepared", {})
    return names


Change = tuple["ManyRows", Rows]
"""A statement, and the rows that it inserts or updates."""


def write_rows(connection: Connection, *changes: Change) -> None:
    """Execute these statements in this order. With PostgreSQL all together cost one round trip.

    Does nothing for a statement without rows.
    """
    changes = tuple((statement, rows) for statement, rows in changes if rows)
    if is_sqlite(connection):
        for statement, rows in changes:
            connection.exec_driver_sql(statement.one, [statement.values_of(row) for row in rows])
    elif changes:
        with _driver(connection) as driver:
            statements = [Statement(statement.many, statement.arrays(rows)) for statement, rows in changes]
            execute(driver, _prepared(connection), statements)


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


def query_with_numbers(
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
        types = {name: table.c[name].type for name in columns}
        types |= {value: table.c[name].type for name, value in (keys or {}).items()}
        self.values_of: Callable[[Mapping[str, Any]], tuple[Any, ...]] = itemgetter(*types)
        """Returns the values of a row, in the order of the parameters."""
        self._writers = [_array_writer(kind) for kind in types.values()]
        if keys is None:
            self.one, self.many = _insert_statements(table, types)
        else:
            self.one, self.many = _update_statements(table, types, columns, keys, also)

    def arrays(self, rows: Rows) -> list[bytes]:
        """Return the columns of these rows, as array literals."""
        columns = zip(*map(self.values_of, rows), strict=True)
        return [write(values).encode() for write, values in zip(self._writers, columns, strict=True)]


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
    arrays = (f"CAST(${place} AS {_type_name(kind)}[])" for place, kind in enumerate(types.values(), 1))
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

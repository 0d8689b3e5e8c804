"""All differences between SQLite, PostgreSQL, and what speaks only PostgreSQL's protocol.

CockroachDB, YugabyteDB and Citus lack LISTEN or advisory locks, and refuse transactions that cannot be put in
an order: nothing here needs the first two, and whoever changes the database tries again after the third.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import psycopg
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
    Table,
    TextClause,
    bindparam,
    func,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from service_record.collector.store.schema import counters, steps

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


_NEXT_NUMBERS: Final = update(counters).where(counters.c.name == "steps").returning(counters.c.latest)
_NEXT: Final = text("SELECT nextval('step_numbers') FROM generate_series(1, :count)")


def step_numbers(connection: Connection, count: int) -> Sequence[int]:
    """Return so many numbers, ascending, that no step has or ever had.

    A transaction that holds the row of a host gives its steps numbers in the order of their commits. SQLite
    has no sequences: there a row counts.
    """
    if is_sqlite(connection):
        latest: int = connection.execute(_NEXT_NUMBERS.values(latest=counters.c.latest + count)).scalar_one()
        return range(latest - count + 1, latest + 1)
    return sorted(connection.execute(_NEXT, {"count": count}).scalars())


def end_of_logs(connection: Connection, length: int) -> ColumnElement[str]:
    """Return the last so many characters of a step's logs."""
    if is_sqlite(connection):
        return func.substr(steps.c.logs, -length)
    return func.right(steps.c.logs, length)


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
        if keys is None:
            self._one, self._many = _insertions(table, self._types)
        else:
            self._one, self._many = _updates(table, self._types, self._columns, keys, also)

    def execute(self, connection: Connection, rows: Rows) -> None:
        """Execute it with these rows, if there are any."""
        if not rows:
            return
        if is_sqlite(connection):
            connection.execute(self._one, list(rows))
            return
        arrays = {
            name: [None if row[name] is None else float(row[name]) for row in rows]
            if isinstance(kind, Double)
            else [row[name] for row in rows]
            for name, kind in self._types.items()
        }
        connection.execute(self._many, arrays)


def _insertions(table: Table, types: Mapping[str, Any]) -> tuple[TextClause, TextClause]:
    into = f"INSERT INTO {table.name} ({', '.join(map(_quoted, types))})"
    values = ", ".join(f":{name}" for name in types)
    return text(f"{into} VALUES ({values})"), text(f"{into} SELECT * FROM {_arrays(types)}")  # noqa: S608


def _updates(
    table: Table, types: Mapping[str, Any], columns: Sequence[str], keys: Mapping[str, str], also: str
) -> tuple[TextClause, TextClause]:
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
        text(f"{begin}{one}{more} WHERE {of_one}"),
        text(f"{begin}{many}{more} FROM {given_rows} WHERE {of_many}"),
    )


def _arrays(types: Mapping[str, Any]) -> str:
    arrays = (f"CAST(:{name} AS {_type_name(kind)}[])" for name, kind in types.items())
    return f"unnest({', '.join(arrays)})"


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

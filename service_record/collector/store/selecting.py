"""Read rows as data classes or structs, whose fields have the names of the columns."""

from functools import cache
from inspect import signature
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, select

T = TypeVar("T")


def select_columns(kind: type, table: Table) -> Select[Any]:
    """Return a query for the columns of a table that have the names of the fields."""
    return select(*(table.c[name] for name in list_fields(kind)))


@cache
def list_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of a data class or a struct, with inherited ones."""
    return tuple(signature(kind).parameters)


def rows_as(connection: Connection, kind: type[T], query: Select[Any]) -> tuple[T, ...]:
    """Return the rows of a query whose columns have the names of the fields."""
    return tuple(kind(**row) for row in connection.execute(query).mappings())


def row_as(kind: type[T], row: Any) -> T:
    """Return a row as this type. Other columns are ignored."""
    names = list_fields(kind)  # type: ignore[arg-type]  # mypy does not know that classes are hashable
    return kind(**{name: getattr(row, name) for name in names})

"""Rows as values of ours: a kind's fields are named like the columns that it is made of."""

from functools import cache
from inspect import signature
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, select

T = TypeVar("T")


def columns_of(kind: type, table: Table) -> Select[Any]:
    """Return a query for the columns of a table that a kind has."""
    return select(*(table.c[name] for name in names_of(kind)))


@cache
def names_of(kind: type) -> tuple[str, ...]:
    """Return the fields of a data class or a struct, with inherited ones."""
    return tuple(signature(kind).parameters)


def rows_as(connection: Connection, kind: type[T], query: Select[Any]) -> tuple[T, ...]:
    """Return the rows of a query whose columns are those of a kind."""
    return tuple(kind(**row) for row in connection.execute(query).mappings())


def row_as(kind: type[T], row: Any) -> T:
    """Return a row that has the columns of a kind, and others."""
    names = names_of(kind)  # type: ignore[arg-type]  # mypy does not know that classes are hashable
    return kind(**{name: getattr(row, name) for name in names})

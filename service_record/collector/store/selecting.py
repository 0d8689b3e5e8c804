"""Rows as values of ours: a kind's fields are named like the columns that it is made of."""

from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, select

T = TypeVar("T")


def columns_of(kind: type, table: Table) -> Select[Any]:
    """Return a query for the columns of a table that a kind has."""
    return select(*(table.c[name] for name in names_of(kind)))


def names_of(kind: type) -> tuple[str, ...]:
    """Return the fields of a data class."""
    return tuple(field.name for field in fields(kind))


def rows_as(connection: Connection, kind: type[T], query: Select[Any]) -> tuple[T, ...]:
    """Return the rows of a query whose columns are those of a kind."""
    return tuple(kind(**row) for row in connection.execute(query).mappings())


def row_as(kind: type[T], row: Any) -> T:
    """Return a row that has the columns of a kind, and others."""
    return kind(**{name: getattr(row, name) for name in names_of(kind)})

"""What the verbs of `service-record collector` have in common: which collector, and how things are listed."""

import json
import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service_record.cli import UNREADABLE
from service_record.display.text import visible

if TYPE_CHECKING:  # a library of the extra is behind it
    from service_record.collector.store.database import Database

FOLDER = click.Path(path_type=Path, file_okay=False)
data_option = click.option(
    "--data",
    type=FOLDER,
    default=Path("/var/lib/service-record/collector"),
    show_default=True,
    help="The folder of all it keeps.",
)
database_option = click.option(
    "--database",
    metavar="URL",
    default="",
    envvar="SERVICE_RECORD_DATABASE",
    help="postgresql://...; without it SQLite in the folder.",
)
objects_option = click.option(
    "--objects", metavar="URL", default="", help="s3://bucket/prefix for bundles; without it a folder."
)
output_option = click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="The form."
)


class Number(click.FloatRange):
    """A number within bounds, which `nan` is not."""

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)  # type: ignore[arg-type]
        return self.fail(f"{value!r} is no number", param, ctx) if isnan(number) else number


@contextmanager
def opened(data: Path, database: str, *, may_make: bool = False) -> Iterator["Database"]:
    """The database of a collector, which may be serving meanwhile. Exit code 3 where it cannot be opened."""
    from service_record.collector.store.database import (  # noqa: PLC0415  # of the extra
        FILE,
        Database,
        DatabaseError,
        sqlite_url,
    )

    if may_make:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    elif not database and not (data / FILE).exists():
        click.echo(f"Error: {data / FILE}: no collector keeps anything here; name its --data", err=True)
        raise click.exceptions.Exit(UNREADABLE)
    try:
        with closing(Database(database or sqlite_url(data))) as found:
            found.migrate()
            yield found
    except DatabaseError as error:
        click.echo(f"Error: {error}", err=True)
        raise click.exceptions.Exit(UNREADABLE) from None


def actor() -> str:
    """Who uses the command line, for the audit log."""
    try:
        return f"cli ({pwd.getpwuid(os.getuid()).pw_name})"
    except KeyError:
        return f"cli ({os.getuid()})"


def moment(seconds: float | None) -> str:
    """A time for people, empty where there is none."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def say(rows: Sequence[Mapping[str, Any]], output: str, times: Sequence[str]) -> None:
    """Rows with the same members, as a table or as one JSON array; `times` are seconds since 1970."""
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        return
    lines = [[name.replace("_", " ") for name in rows[0]]]
    lines += [
        [
            moment(value) if name in times else visible("" if value is None else str(value))
            for name, value in row.items()
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())

"""`service-record collector`: receive from many hosts."""

import time
from pathlib import Path

import click

from service_record.cli import UNREADABLE

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
data_option = click.option(
    "--data",
    type=_FOLDER,
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


@click.group("collector")
def command() -> None:
    """Receive from many hosts how far they came, and show it."""


@command.command("serve")
@data_option
@database_option
@click.option(
    "--objects", metavar="URL", default="", help="s3://bucket/prefix for bundles; without it a folder."
)
@click.option("--steps", type=_FILE, help="TOML: the steps that hosts may report; without it, any.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", default=8474, show_default=True, help="0 for any that is free.")
@click.option("--certificate", type=_FILE, help="PEM; with it, only TLS is spoken.")
@click.option("--key", type=_FILE, help="PEM of its private key.")
def serve_command(
    *,
    data: Path,
    database: str,
    objects: str,
    steps: Path | None,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
) -> None:
    """Serve until SIGTERM."""
    from service_record.collector.collector import StepsError  # noqa: PLC0415
    from service_record.collector.serve import say_ready, serve  # noqa: PLC0415  # only where it serves
    from service_record.collector.settings import Settings  # noqa: PLC0415
    from service_record.collector.store.database import DatabaseError  # noqa: PLC0415
    from service_record.collector.store.objects import ObjectError  # noqa: PLC0415

    settings = Settings(
        data=data,
        database=database,
        objects=objects,
        steps=steps,
        host=host,
        port=port,
        certificate=certificate,
        key=key,
    )
    try:
        serve(settings, say_ready)
    except (StepsError, DatabaseError, ObjectError) as error:
        click.echo(f"Error: {error}", err=True)
        raise click.exceptions.Exit(UNREADABLE) from None
    except OSError as error:
        click.echo(f"Error: {error.filename or f'{host}:{port}'}: {error.strerror or error}", err=True)
        raise click.exceptions.Exit(UNREADABLE) from None


@command.group("token")
def token() -> None:
    """Make, list and revoke the tokens that hosts and people present."""


@token.command("create")
@data_option
@database_option
@click.argument("kind", type=click.Choice(["host", "group", "reader", "admin", "enrolment"]))
@click.argument("scope", default="")
@click.option("--name", default="", help="What it is for, for people.")
def create_command(*, data: Path, database: str, kind: str, scope: str, name: str) -> None:
    """Make a token and print it, this once."""
    from service_record.collector.access import Kind  # noqa: PLC0415
    from service_record.collector.store import tokens  # noqa: PLC0415
    from service_record.collector.store.database import Database, sqlite_url  # noqa: PLC0415

    if kind in {"host", "group"} and not scope:
        raise click.UsageError(f"a token of kind {kind} needs the {kind}'s name")
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = Database(database or sqlite_url(data))
    opened.migrate()
    new = tokens.NewToken(
        kind=Kind(kind), scope=scope.lower() if kind == "host" else scope, name=name, created_by="cli"
    )
    with opened.changing() as connection:
        made = tokens.create(connection, new, time.time())
    click.echo(made)

"""`service-record collector audit`, `backup`, `restore` and `prune`: what an operator does now and then."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from service_record.cli import UNREADABLE
from service_record.cli.collector_options import (
    Number,
    actor,
    data_option,
    database_option,
    objects_option,
    opened,
    output_option,
    say,
)
from service_record.cli.sizes import Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from service_record.collector.retention import Plan

T = TypeVar("T")
_NEW = click.Path(path_type=Path, dir_okay=False)
_THERE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command("audit")
@data_option
@database_option
@output_option
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Most lines.")
def audit_command(*, data: Path, database: str, output: str, limit: int) -> None:
    """Show who administered what, latest first."""
    from service_record.collector.store import audit  # noqa: PLC0415  # of the extra

    with opened(data, database) as collector, collector.reading() as connection:
        rows = [asdict(noted) for noted in audit.listed(connection, limit)]
    say(rows, output, ("at",))


@click.command("backup")
@data_option
@click.argument("file", type=_NEW)
def backup_command(*, data: Path, file: Path) -> None:
    """Copy the database and the bundles of a collector, which may be serving, into a new tar FILE.

    Only its owner can read it: the logs of all hosts are in it. With PostgreSQL use pg_dump, with an object
    store its own means.
    """
    from service_record.collector.backup import BackupError, back_up  # noqa: PLC0415

    try:
        told = back_up(data, file)
    except BackupError as error:
        _fail(error)
    click.echo(f"{file}: {told.size} bytes, {told.objects} bundles", err=True)


@click.command("restore")
@data_option
@click.argument("file", type=_THERE)
def restore_command(*, data: Path, file: Path) -> None:
    """Make the folder of a collector from a backup FILE. No collector is overwritten."""
    from service_record.collector.backup import BackupError, restore  # noqa: PLC0415
    from service_record.collector.store import audit  # noqa: PLC0415

    try:
        told = restore(file, data)
    except BackupError as error:
        _fail(error)
    with opened(data, "") as collector, collector.changing() as connection:
        audit.note(connection, actor(), "restore", file.name, time.time())
    click.echo(f"{data}: {told.objects} bundles", err=True)


@click.command("prune")
@data_option
@database_option
@objects_option
@click.option("--keep-days", type=Number(0, 1e6), default=0, help="Of builds. [default: for ever]")
@click.option("--keep-bytes", type=Size(), default=0, metavar="SIZE", help="As 20G. [default: any number]")
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
def prune_command(
    *, data: Path, database: str, objects: str, keep_days: float, keep_bytes: int, dry_run: bool
) -> None:
    """Forget old builds, with their steps and bundles; the collector may be serving.

    Each host's latest build stays, and its first and its last failure.
    """
    from service_record.collector import housekeeping  # noqa: PLC0415
    from service_record.collector.settings import Settings  # noqa: PLC0415
    from service_record.collector.store.objects import ObjectError  # noqa: PLC0415
    from service_record.collector.store.objects import objects as objects_of  # noqa: PLC0415

    limits = housekeeping.Limits(days=keep_days, size=keep_bytes)
    if not limits.are_any:
        raise click.UsageError("say what is to be kept: --keep-days, --keep-bytes or both")
    now = time.time()
    with opened(data, database) as collector:
        with collector.reading() as connection:
            what = housekeeping.planned(connection, limits, now)
        if dry_run:
            _say_plan("would forget", what)
            return

        def change(do: "Callable[[Connection], T]", /) -> T:
            with collector.changing() as connection:
                return do(connection)

        try:
            kept = objects_of(Settings(data=data, objects=objects))
            housekeeping.carry_out(what, change, kept, actor(), now)
            kept.delete(housekeeping.orphans(collector, kept, now))
        except ObjectError as error:
            _fail(error)
    _say_plan("forgot", what)


def _say_plan(did: str, what: "Plan") -> None:
    steps = sum(build.steps for build in what.builds)
    bundles = sum(build.bundles for build in what.builds)
    click.echo(f"{did} {len(what.builds)} builds, {steps} steps, {bundles} bundles: about {what.size} bytes")


def _fail(error: Exception) -> NoReturn:
    click.echo(f"Error: {error}", err=True)
    raise click.exceptions.Exit(UNREADABLE)

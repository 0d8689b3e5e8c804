"""`service-record collector audit`, `backup`, `restore` and `prune`: what an operator does now and then."""

from dataclasses import asdict
from pathlib import Path

import click

from service_record.cli.collector_options import data_option, database_option, opened, output_option, say


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

"""`service-record rotate`: shorten records that have grown too long."""

import os
from pathlib import Path

import click

from service_record.cli import FAILED, system_error_line
from service_record.cli.inputs import check_names
from service_record.cli.options import SIZE, changed_directory_option, service_argument
from service_record.display.text import count
from service_record.record.directory import Records
from service_record.record.visible import visible
from service_record.rotation import RotationError, find_long_records, max_bytes, rotate


@click.command("rotate")
@service_argument
@changed_directory_option
@click.option(
    "--max-size",
    type=SIZE,
    metavar="SIZE",
    help="Rotate records that are longer: 512K, 2M. 0: none. [default: $SERVICE_RECORDS_MAX_BYTES, else 2M]",
)
def command(*, services: tuple[str, ...], directory: Path | None, max_size: int | None) -> None:
    """Shorten records that have grown too long; no failure is lost.

    A record that is longer than the limit is brought down to half of it. The first and the latest run of each
    distinct failure always stay. While there is room, so do the first and the latest run of each boot, then
    the other failures, then the rest. The record counts the runs that were removed. Services can continue to
    record meanwhile.

    \b
    Examples:
      service-record rotate
      service-record rotate bootkube --max-size 512K
    """
    records = Records(directory)
    recorded = records.services()
    check_names(services, recorded, str(records.directory))
    limit = max_bytes(os.environ) if max_size is None else max_size
    paths = {records.path(name): name for name in services or recorded}
    are_rotated = [_rotate(path, paths[path], limit) for path in find_long_records(paths, limit)]
    if not all(are_rotated):
        raise click.exceptions.Exit(FAILED)


def _rotate(path: Path, service: str, limit: int) -> bool:
    """Rotate one record and print the result. Return False after an error, which is printed."""
    try:
        rotation = rotate(path, limit)
    except RotationError as error:
        click.echo(f"Error: {visible(str(error))}", err=True)
        return False
    except OSError as error:
        click.echo(f"Error: {system_error_line(error)}", err=True)
        return False
    if rotation is not None:
        left_out = count(rotation.entries_left_out, "entry", "entries")
        bytes_text = f"{rotation.bytes_before} bytes became {rotation.bytes_after}"
        waiting = "; a writer still has the old file open: rotate again later" if rotation.is_waiting else ""
        click.echo(f"{visible(service)}: {left_out} left out, {bytes_text}{waiting}")
    return True

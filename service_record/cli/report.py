"""`service-record report`: one round of the boot reporter."""

import os
import signal
from pathlib import Path
from types import FrameType
from typing import Final

import click

from service_record.cli import NOT_DELIVERED, REFUSED, require_extra
from service_record.reporter.paths import Places

_TERMINATED: Final = 143


@click.command("report")
@click.option(
    "--due", is_flag=True, help="Only when a round is due, by the frequency that is set; as the timer asks."
)
@click.option(
    "--dry-run", is_flag=True, help="Look, ask the service, and say what would be done; do nothing."
)
@click.option("--stop", is_flag=True, help="Never again: remove the reporter and its secrets from this host.")
@click.option("--purge", is_flag=True, help="With --stop: also remove a bundle that was delivered nowhere.")
@click.option(
    "--root",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/"),
    help="The host whose files are below DIRECTORY. [/]",
)
def command(*, due: bool, dry_run: bool, stop: bool, purge: bool, root: Path) -> None:
    """Report how far this host came: one round of the boot reporter.

    It tells the assisted-service each fact once, ships a bundle of what explains the host
    when something is wrong, and removes itself when it is no longer needed. boot-reporter.service runs it.

    \b
    Examples:
      service-record report                  a round now
      service-record report --dry-run        what would it do?
      service-record report --stop           remove the reporter permanently
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    if stop and (due or dry_run):
        raise click.UsageError("--stop goes with neither --due nor --dry-run; leave them out")
    if purge and not stop:
        raise click.UsageError("--purge needs --stop; add it")
    signal.signal(signal.SIGTERM, _terminated)
    places = Places.of_environment(root, os.environ)
    if stop:
        from service_record.reporter.log import log_for  # only what is asked for
        from service_record.reporter.stopping import stop_by_hand

        if not stop_by_hand(places, os.environ, log_for(os.environ), purges=purge):
            raise click.exceptions.Exit(NOT_DELIVERED)
        return
    if due and not dry_run:
        from service_record.reporter.due import is_anything_due

        if not is_anything_due(places, os.environ):
            return
    _round(places, due=due, dry_run=dry_run)


def _round(places: Places, *, due: bool, dry_run: bool) -> None:
    require_extra("reporter")
    from service_record.reporter.log import log_for
    from service_record.reporter.round import RoundResult, run_round

    if dry_run:
        from service_record.record.visible import visible
        from service_record.reporter.round import rehearsed

        for line in rehearsed(places, os.environ):
            click.echo(visible(line))
        return
    if run_round(places, os.environ, log_for(os.environ), only_if_due=due) is RoundResult.LEAK:
        raise click.exceptions.Exit(REFUSED)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    """Unwind, so that started programs are ended and unfinished files removed."""
    raise SystemExit(_TERMINATED)

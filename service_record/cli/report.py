"""`service-record report`: one round of the boot reporter."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

import click

from service_record.cli import NOT_DELIVERED, REFUSED, missing_extra, require_extra, show_error

_TERMINATED: Final = 143
_LAST_ERROR: Final = "run/boot-reporter.error"
"""The start-up error that was logged last in this boot, below the root."""


@click.command("report")
@click.option(
    "--due",
    is_flag=True,
    help="Make a round only if one is due by the configured frequency, as the timer does. If the reporter "
    "cannot start, log why and exit with 0.",
)
@click.option("--dry-run", is_flag=True, help="Print what a round would do, and do nothing.")
@click.option("--stop", is_flag=True, help="Remove the reporter and its secrets from this host for good.")
@click.option("--purge", is_flag=True, help="With --stop: also remove a bundle that was not delivered.")
@click.option(
    "--root",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/"),
    help="The host whose files are below DIRECTORY. [/]",
)
def command(*, due: bool, dry_run: bool, stop: bool, purge: bool, root: Path) -> None:
    """Report how far this host came: one round of the boot reporter.

    It sends each fact to the assisted-service once, ships a bundle of what explains the host
    when something is wrong, and removes itself when it is no longer needed. boot-reporter.service runs it.

    \b
    Examples:
      service-record report                  a round now
      service-record report --dry-run        what would it do?
      service-record report --stop           remove the reporter permanently
    """
    if stop and (due or dry_run):
        raise click.UsageError("--stop goes with neither --due nor --dry-run; leave them out")
    if purge and not stop:
        raise click.UsageError("--purge needs --stop; add it")
    signal.signal(signal.SIGTERM, _end_on_signal)
    if not due or dry_run:
        _report(root, due=due, dry_run=dry_run, stop=stop, purge=purge)
        return
    # boot-reporter.service must not fail, even if the installation is broken: nobody would see the reason,
    # and a failed unit makes a healthy boot look degraded.
    try:
        _report(root, due=True, dry_run=False, stop=False, purge=False)
    except click.exceptions.Exit:
        raise  # a secret would have left the host
    except click.ClickException as error:
        _log_once(root, error.format_message())
    except Exception as error:  # noqa: BLE001  # the reason is in the journal, and the unit does not fail
        extra = missing_extra(error) if isinstance(error, ModuleNotFoundError) else None
        text = extra.format_message() if extra is not None else f"{type(error).__name__}: {error}"
        _log_once(root, f"no round was made: {text}")


def _report(root: Path, *, due: bool, dry_run: bool, stop: bool, purge: bool) -> None:
    # Imported here, so that an error in any of these is reported like every other start-up error.
    from service_record.reporter.paths import Places

    places = Places.of_environment(root, os.environ)
    if stop:
        from service_record.reporter.log import open_log
        from service_record.reporter.stopping import stop_by_hand

        if not stop_by_hand(places, os.environ, open_log(os.environ), purges=purge):
            raise click.exceptions.Exit(NOT_DELIVERED)
        return
    if due and not dry_run:
        from service_record.reporter.due import is_anything_due

        if not is_anything_due(places, os.environ):
            return
    require_extra("reporter")
    from service_record.reporter.log import open_log
    from service_record.reporter.round import run_round

    if dry_run:
        from service_record.record.visible import visible
        from service_record.reporter.round import dry_run_lines

        for line in dry_run_lines(places, os.environ):
            click.echo(visible(line))
        return
    if not run_round(places, os.environ, open_log(os.environ), only_if_due=due):
        raise click.exceptions.Exit(REFUSED)


def _log_once(root: Path, text: str) -> None:
    """Write one line to standard error, unless it was the last such line in this boot.

    The timer starts a round each minute, and the error would be there each time.
    """
    line = " ".join(text.split())
    last = root / _LAST_ERROR
    with suppress(OSError):
        if last.read_text(encoding="utf-8", errors="replace") == line:
            return
    with suppress(OSError):
        last.write_text(line, encoding="utf-8", errors="replace")
    show_error(line)


def _end_on_signal(_number: int, _frame: FrameType | None) -> None:
    """Unwind, so that started programs are ended and unfinished files removed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # another one must not interrupt that
    raise SystemExit(_TERMINATED)

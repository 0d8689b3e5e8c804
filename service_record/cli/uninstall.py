"""`service-record uninstall`."""

from pathlib import Path

import click

from service_record.cli import Unreadable
from service_record.cli.install import removal_advice, report, root_option, trial_option
from service_record.deploy.installed import DamagedError
from service_record.deploy.installing import uninstall
from service_record.deploy.root import Root
from service_record.record.visible import visible


@click.command("uninstall")
@root_option
@trial_option
def command(root: Path, *, is_trial: bool) -> None:
    """Remove what `install` has put onto a host.

    What it replaced is put back. What somebody edited meanwhile stays, and the exit code is 1. Records stay
    in any case, and so do the settings of the reporter and what it keeps.

    \b
    Examples:
      sudo service-record uninstall
      service-record uninstall --dry-run     what that would do
    """
    try:
        outcome = uninstall(Root(root), is_trial=is_trial)
    except DamagedError as error:
        raise Unreadable(str(error)) from None
    if outcome is None:
        click.echo(f"Nothing is installed in {visible(str(root))}.")
        return
    report(outcome, [removal_advice(outcome)], is_trial=is_trial)

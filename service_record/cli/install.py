"""`install`: the shim, drop-ins and the reporter's units, onto a host."""

import os
from pathlib import Path

import click

from service_record.cli import Unreadable
from service_record.cli.delivering import next_steps, report, root_option, trial_option
from service_record.cli.options import unit_names
from service_record.deploy.delivered import Option, pages
from service_record.deploy.installed import DamagedError
from service_record.deploy.installing import install
from service_record.deploy.root import UNIT_DIRECTORIES, Root


def _has_unit(root: Path, service: str) -> bool:
    """Return whether systemd finds a unit file of that service, or its template, below the root."""
    template, at, _ = service.partition("@")
    names = {f"{service}.service", f"{template}{at}.service"}
    directories = [root / directory.lstrip("/") for directory in UNIT_DIRECTORIES]
    return any(os.path.lexists(directory / name) for directory in directories for name in names)


@click.command("install")
@root_option
@click.option("--shim", is_flag=True, help="Shim, exit helper, drop-ins to copy, man pages, completions.")
@click.option(
    "--close",
    "closes",
    metavar="SERVICE",
    multiple=True,
    callback=unit_names,
    help="Install the shim, and let systemd close the record of this service; repeatable.",
)
@click.option(
    "--all-services",
    is_flag=True,
    help="Install the shim, and let systemd close the record of every service.",
)
@click.option(
    "--array", is_flag=True, help="Let every service record an array, as OpenShift's tools read it."
)
@click.option("--reporter", is_flag=True, help="The units of the boot reporter, enabled.")
@click.option("--collector", is_flag=True, help="The unit of the collector, not enabled.")
@click.option(
    "--replace", is_flag=True, help="Also replace files that are not ours; uninstall restores them."
)
@trial_option
def command(root: Path, *, closes: tuple[str, ...], replace: bool, is_trial: bool, **chosen: bool) -> None:
    """Put the shim, drop-ins and the reporter's units onto a host.

    Without options that is the shim, or all that was installed before: run again, it brings that to this
    version. A file that somebody edited, or that is not ours, stays as it is. Then ours is put beside it, as
    NAME.new, and the exit code is 1.

    \b
    Examples:
      service-record install                             the shim, on this host
      service-record install --close bootkube            systemd closes its record
      service-record install --all-services --dry-run    what that would do
      service-record install --root /mnt --reporter      onto a host that is mounted
    """
    for service in closes:
        if not _has_unit(root, service):
            click.echo(f"Warning: there is no {service}.service yet; its drop-in waits for it", err=True)
    options = [option for option in Option if chosen[option.value.replace("-", "_")]]
    try:
        outcome = install(
            Root(root), options, tuple(pages()), closes=closes, replaces=replace, is_trial=is_trial
        )
    except DamagedError as error:
        raise Unreadable(str(error)) from None
    report(outcome, next_steps(outcome, root), is_trial=is_trial)

"""`service-record install`, and the report that `uninstall` shares with it."""

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from service_record.cli import FAILED, Unreadable
from service_record.cli.options import unit_names
from service_record.deploy.delivered import HOST, Option, pages
from service_record.deploy.installed import DamagedError
from service_record.deploy.installing import InstallOutcome, install
from service_record.deploy.planning import Action
from service_record.deploy.root import UNIT_DIRECTORIES, Root
from service_record.record.visible import visible

_WORDS: Final = {
    Action.CREATE: ("created", "create"),
    Action.UPDATE: ("updated", "update"),
    Action.REPLACE: ("replaced", "replace"),
    Action.REMOVE: ("removed", "remove"),
    Action.RESTORE: ("restored", "restore"),
    Action.KEEP: ("kept", "keep"),
    Action.LEAVE: ("unchanged", "leave"),
}
"""The words for a step that was done, and for one of a dry run."""
_SHIM: Final = "bootstrap-service-record.sh"
root_option: Final = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="/",
    metavar="DIR",
    help="The root of another machine, mounted here. [default: /]",
)
trial_option: Final = click.option(
    "--dry-run", "is_trial", is_flag=True, help="Print what would be done, and do nothing."
)


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
    version. A file that somebody edited, or that is not ours, stays as it is. Then our version is written
    beside it, as NAME.new, and the exit code is 1.

    \b
    Examples:
      service-record install                             the shim, on this host
      service-record install --close bootkube            systemd closes its record
      service-record install --all-services --dry-run    what that would do
      service-record install --root /mnt --reporter      onto a mounted host
    """
    for service in closes:
        template, at, _ = service.partition("@")
        names = (f"{service}.service", f"{template}{at}.service")
        places = (root / directory.lstrip("/") / name for directory in UNIT_DIRECTORIES for name in names)
        if not any(map(os.path.lexists, places)):
            click.echo(f"Warning: there is no {service}.service yet; its drop-in waits for it", err=True)
    options = [option for option in Option if chosen[option.value.replace("-", "_")]]
    try:
        outcome = install(
            Root(root), options, tuple(pages()), closes=closes, replaces=replace, is_trial=is_trial
        )
    except DamagedError as error:
        raise Unreadable(str(error)) from None
    report(outcome, _next_steps(outcome, root), is_trial=is_trial)


def _next_steps(outcome: InstallOutcome, root: Path) -> Iterator[str]:
    """Yield a sentence about the records that systemd closes, and then the next commands."""
    command = "service-record install" + ("" if root == Path("/") else f" --root {shlex.quote(str(root))}")
    steps: dict[str, str] = {}
    if _keeps_foreign_files(outcome):
        steps[f"{command} --replace"] = "put ours in the place of what was kept"
    if Option.SHIM in outcome.options:
        steps[f". {HOST.programs}/{_SHIM}"] = "in a bash script: record it"
        if Option.ALL_SERVICES in outcome.options:
            yield "systemd closes the record of every service."
        elif outcome.closed:
            yield f"systemd closes the records of: {visible(', '.join(outcome.closed))}."
        else:
            yield "systemd closes no record yet."
            steps[f"{command} --close SERVICE"] = "have systemd record how SERVICE ends"
    if Option.COLLECTOR in outcome.options:
        steps["systemctl enable --now collector.service"] = "start the collector"
    if steps:
        yield "Next:"
    column = max(map(len, steps), default=0)
    yield from (f"  {visible(command):<{column}}  {purpose}" for command, purpose in steps.items())


def report(outcome: InstallOutcome, following: Iterable[str], *, is_trial: bool) -> None:
    """Print each path that changes or differs, a summary, and `following`. Exit with 1 if a file was kept."""
    steps = [step for step in outcome.steps if step.action is not Action.LEAVE or step.why]
    words = [f"would {_WORDS[step.action][1]}" if is_trial else _WORDS[step.action][0] for step in steps]
    column = max(map(len, words), default=0)
    paths = max((len(visible(step.path)) for step in steps if step.why), default=0)
    for word, step in zip(words, steps, strict=True):
        click.echo(f"{word:<{column}}  {visible(step.path):<{paths}}  {visible(step.why)}".rstrip())
    counts = Counter(step.action for step in outcome.steps)
    summary = ", ".join(f"{counts[action]} {done}" for action, (done, _) in _WORDS.items() if counts[action])
    if is_trial:
        click.echo(f"Nothing was done. It would be: {summary}.")
    else:
        click.echo(f"{summary or 'Nothing to do'}.")
        for line in following:
            click.echo(line)
    for note in outcome.notes:
        click.echo(f"Note: {visible(note)}", err=True)
    if _keeps_foreign_files(outcome):
        raise click.exceptions.Exit(FAILED)


def _keeps_foreign_files(outcome: InstallOutcome) -> bool:
    """Return True if a file stays that somebody edited, or that is not ours."""
    return any(step.action is Action.KEEP for step in outcome.steps)


def removal_advice(outcome: InstallOutcome) -> str:
    """Return the last line of `uninstall`: the records stay, and scripts may still source the shim."""
    shim = f"{HOST.programs}/{_SHIM}"
    if any(step.path == shim and step.action is Action.REMOVE for step in outcome.steps):
        return "Records stay. Scripts that source the shim fail without it: change them."
    return "Records stay."

"""Shared parts of `install` and `uninstall`: the destination, and the report of what they did or would do."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from service_record.cli import FAILED
from service_record.deploy.delivered import HOST, Option
from service_record.deploy.installing import InstallOutcome
from service_record.deploy.planning import Action, DeployStep
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


def afterwards(outcome: InstallOutcome) -> str:
    """Return what to know after the removal."""
    shim = f"{HOST.programs}/{_SHIM}"
    if any(step.path == shim and step.action is Action.REMOVE for step in outcome.steps):
        return f"Records stay. Scripts that still source {_SHIM} fail without it: change them."
    return "Records stay."


def next_steps(outcome: InstallOutcome, root: Path) -> Iterator[str]:
    """Yield what is in force now, and commands that come next."""
    if Option.SHIM in outcome.options:
        yield _in_force(outcome)
    steps = dict(_commands(outcome, root))
    column = max(map(len, steps), default=0)
    if steps:
        yield "Next:"
    yield from (f"  {visible(command):<{column}}  {why}" for command, why in steps.items())


def _in_force(outcome: InstallOutcome) -> str:
    if Option.ALL_SERVICES in outcome.options:
        return "systemd closes the record of every service."
    if outcome.closed:
        return f"systemd closes the records of: {visible(', '.join(outcome.closed))}."
    return "systemd closes no record yet."


def _commands(outcome: InstallOutcome, root: Path) -> Iterator[tuple[str, str]]:
    """Yield each command with its purpose."""
    install = "service-record install" + ("" if root == Path("/") else f" --root {shlex.quote(str(root))}")
    if is_short_of_something(outcome):
        yield f"{install} --replace", "put ours in the place of what was kept"
    if Option.SHIM in outcome.options:
        yield f". {HOST.programs}/{_SHIM}", "in a bash script: record it"
        if Option.ALL_SERVICES not in outcome.options and not outcome.closed:
            yield f"{install} --close SERVICE", "have systemd record how SERVICE ends"
    if Option.COLLECTOR in outcome.options:
        yield "systemctl enable --now collector.service", "start the collector"


def _lines(outcome: InstallOutcome, *, is_trial: bool) -> Iterator[str]:
    """Yield a line for each path that changes or differs from what was delivered, and one for all."""
    steps = [step for step in outcome.steps if step.action is not Action.LEAVE or step.why]
    words = [_word(step, is_trial=is_trial) for step in steps]
    column = max(map(len, words), default=0)
    reasons = max((len(visible(step.path)) for step in steps if step.why), default=0)
    for word, step in zip(words, steps, strict=True):
        yield f"{word:<{column}}  {visible(step.path):<{reasons}}  {visible(step.why)}".rstrip()
    yield _summary(outcome.steps, is_trial=is_trial)


def report(outcome: InstallOutcome, following: Iterable[str], *, is_trial: bool) -> None:
    """Print what was done or would be, and then what follows. Exit code 1 where something was kept."""
    for line in (*_lines(outcome, is_trial=is_trial), *(() if is_trial else following)):
        click.echo(line)
    for note in outcome.notes:
        click.echo(f"Note: {visible(note)}", err=True)
    if is_short_of_something(outcome):
        raise click.exceptions.Exit(FAILED)


def is_short_of_something(outcome: InstallOutcome) -> bool:
    """Return whether someone else's file is in the place of one of ours, or ours was edited and stays."""
    return any(step.action is Action.KEEP for step in outcome.steps)


def _word(step: DeployStep, *, is_trial: bool) -> str:
    return f"would {_WORDS[step.action][1]}" if is_trial else _WORDS[step.action][0]


def _summary(steps: Sequence[DeployStep], *, is_trial: bool) -> str:
    counts = Counter(step.action for step in steps)
    counts_text = ", ".join(
        f"{counts[action]} {words[0]}" for action, words in _WORDS.items() if counts[action]
    )
    return (
        f"Nothing was done. It would be: {counts_text}." if is_trial else f"{counts_text or 'Nothing to do'}."
    )

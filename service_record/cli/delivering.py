"""What `install` and `uninstall` share: where to, and what they say of what they did, or would do."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from service_record.deploy.install import Outcome
from service_record.deploy.plan import Action, Step
from service_record.display.text import visible

_WORDS: Final = {
    Action.CREATE: ("created", "create"),
    Action.UPDATE: ("updated", "update"),
    Action.REPLACE: ("replaced", "replace"),
    Action.REMOVE: ("removed", "remove"),
    Action.RESTORE: ("restored", "restore"),
    Action.KEEP: ("kept", "keep"),
    Action.LEAVE: ("unchanged", "leave"),
}
"""What was done, and what would be."""

root_option: Final = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="/",
    metavar="DIR",
    help="The root of another machine, mounted here. [default: /]",
)
trial_option: Final = click.option(
    "--dry-run", "is_trial", is_flag=True, help="Say what would be done, and do nothing."
)


def lines(outcome: Outcome, *, is_trial: bool) -> Iterator[str]:
    """A line for each path with which something happens or that is not as delivered, and one for all."""
    told = [step for step in outcome.steps if step.action is not Action.LEAVE or step.why]
    words = [_word(step, is_trial=is_trial) for step in told]
    column = max(map(len, words), default=0)
    reasons = max((len(visible(step.path)) for step in told if step.why), default=0)
    for word, step in zip(words, told, strict=True):
        yield f"{word:<{column}}  {visible(step.path):<{reasons}}  {visible(step.why)}".rstrip()
    yield _summary(outcome.steps, is_trial=is_trial)


def notes(outcome: Outcome) -> Iterator[str]:
    return (f"Note: {visible(note)}" for note in outcome.notes)


def is_short_of_something(outcome: Outcome) -> bool:
    """Whether a file of somebody's stands where one of ours belongs, or ours was edited and stays."""
    return any(step.action is Action.KEEP for step in outcome.steps)


def _word(step: Step, *, is_trial: bool) -> str:
    return f"would {_WORDS[step.action][1]}" if is_trial else _WORDS[step.action][0]


def _summary(steps: Sequence[Step], *, is_trial: bool) -> str:
    counts = Counter(step.action for step in steps)
    told = ", ".join(f"{counts[action]} {words[0]}" for action, words in _WORDS.items() if counts[action])
    return f"Nothing was done. It would be: {told}." if is_trial else f"{told or 'Nothing to do'}."

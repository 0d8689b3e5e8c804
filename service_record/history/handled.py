"""Failures of stages that a run continued after. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from service_record.history.outcome import Command, Outcome, Run, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """A stage that failed, and has not succeeded since, in a run that continued."""

    run: Run
    stage: Stage
    """Its latest execution that failed."""
    command: Command | None
    """The pre- or post-command that it is a stage of."""
    count: int
    """How many of its executions have failed since it last succeeded."""
    stages: int
    """How many stages of the run failed like it; it is the latest of them."""


def handled_failure(run: Run) -> Handled | None:
    """Return the latest stage of a run that failed and has not succeeded since; None without any."""
    failed: dict[tuple[int | None, str], list[tuple[Command | None, Stage]]] = {}
    for command, stage in _executions(run):
        key = None if command is None else id(command), stage.name
        if stage.outcome is Outcome.FAILURE:
            same = failed.pop(key, [])
            same.append((command, stage))
            failed[key] = same
        elif stage.outcome is Outcome.SUCCESS:
            failed.pop(key, None)
    if not failed:
        return None
    latest = list(failed.values())[-1]
    command, stage = latest[-1]
    return Handled(run=run, stage=stage, command=command, count=len(latest), stages=len(failed))


def _executions(run: Run) -> Iterator[tuple[Command | None, Stage]]:
    """Yield the stages of a run and of its commands, in the order in which systemd runs them."""
    yield from ((c, stage) for c in run.commands if c.is_before for stage in c.stages)
    yield from ((None, stage) for stage in run.stages)
    yield from ((c, stage) for c in run.commands if not c.is_before for stage in c.stages)

"""The steps of a run: its commands and stages by name, with their order and durations. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from service_record.diagnosis.now import Now
from service_record.history import ServiceHistory
from service_record.history.outcome import Command, Outcome, Run, Span, Stage


@dataclass(frozen=True, slots=True)
class Step:
    """A stage or command of a service, however often it ran."""

    kind: str
    """`stage`, `pre-command` or `post-command`."""
    name: str
    command: str | None = None
    """The command that a stage is part of."""


@dataclass(frozen=True, slots=True)
class Longest:
    """How many seconds the longest execution took, and whether it goes on."""

    seconds: float
    is_running: bool


def steps_of(run: Run) -> dict[Step, list[Span]]:
    """The steps of a run and their executions, in the order in which they first ran."""
    found: dict[Step, list[Span]] = {}
    for step, span in _spans(run):
        found.setdefault(step, []).append(span)
    return found


def _spans(run: Run) -> Iterator[tuple[Step, Span]]:
    for command in run.commands:
        if command.is_before:
            yield from _of_command(command)
    yield from _of_stages(run.stages)
    for command in run.commands:
        if not command.is_before:
            yield from _of_command(command)


def _of_command(command: Command) -> Iterator[tuple[Step, Span]]:
    yield Step("pre-command" if command.is_before else "post-command", command.name), command
    yield from _of_stages(command.stages, command.name)


def _of_stages(stages: Iterable[Stage], command: str | None = None) -> Iterator[tuple[Step, Span]]:
    return ((Step("stage", stage.name, command), stage) for stage in stages)


def moved(good: Sequence[Step], bad: Sequence[Step]) -> Iterator[tuple[Step, Step | None, Step | None]]:
    """The fewest steps whose places make one order of the same steps from the other, roughly.

    With each, what it follows in the bad order and in the good one.
    """
    matcher = SequenceMatcher(None, good, bad, autojunk=False)
    kept = {step for block in matcher.get_matching_blocks() for step in bad[block.b : block.b + block.size]}
    for place, step in enumerate(bad):
        if step not in kept:
            usual = good.index(step)
            yield step, bad[place - 1] if place else None, good[usual - 1] if usual else None


def longest(spans: Iterable[Span], run: Run, service: ServiceHistory, now: Now) -> Longest | None:
    """The longest of some spans of a run; what is running has lasted until now."""
    known = []
    for span in spans:
        is_running = span.outcome is Outcome.RUNNING
        seconds = now.since(span, run, service) if is_running else span.duration
        if seconds is not None:
            known.append(Longest(seconds, is_running))
    return max(known, key=lambda one: one.seconds, default=None)

"""The failures of a service by signature, each told once, and the steps of a run. Pure.

A signature is the message without numbers, ids, times and addresses.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

import msgspec

from service_record.diagnosis.now import Now
from service_record.history import ServiceHistory
from service_record.history.outcome import NOTHING, Command, Facts, Outcome, Run, Span, Stage

_MAX_CHARACTERS: Final = 4096
_VARYING: Final = re.compile(
    r"""
      (?P<time>     (?<!\w)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?:Z|\ ?[+-]\d\d:?\d\d)?
                  | (?<!\w)[A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d\d:\d\d:\d\d
                  | (?<![\w:])\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])
                  | (?<![\w.])(?:\d{1,9}(?:\.\d{1,9})?(?:ms|us|µs|ns|h|m|s)){1,4}(?!\w) )
    | (?P<address>  (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?(?![\w.])
                  | (?<![\w:])\[?(?=[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}
                    \]?(?::\d{1,5})?(?!\w) )
    | (?P<id>       (?<!\w)[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)
                  | (?<!\w)(?:0x)?(?=[0-9A-Fa-f]{0,63}\d)(?=\d{0,63}[A-Fa-f])[0-9A-Fa-f]{7,128}(?!\w) )
    | (?P<disk>     (?<=/dev/)(?:[svh]d|xvd)[a-z]{1,2}\d{0,3}(?![\w-])
                  | (?<![\w-])(?!(?:sdk|sdn|hdd|md5)\b)
                    (?:(?:[svh]d|xvd)[a-z]\d{0,3}
                      |(?:nvme\d{1,3}n\d{1,3}|mmcblk\d{1,3}|loop\d{1,4}|md\d{1,4})(?:p\d{1,3})?
                      |dm-\d{1,4})(?![\w-]) )
    | (?P<number>   (?<![A-Za-z\d])\d++(?:[.,]\d++)*+
                  | (?<=[A-Za-z])\d++(?:[.,]\d++)*+(?!-?[A-Za-z]) )  # not within a name: grub2-install, k8s
    """,
    re.VERBOSE | re.ASCII,
)
"""Each alternative is bounded or begins only where a word does, so that the whole is linear in the text."""


@lru_cache(maxsize=1024)  # what fails again mostly says the same
def signature(message: str) -> str:
    """Return the message with `<time>`, `<address>`, `<id>`, `<disk>` and `<number>` for its
    variable parts.
    """
    return _VARYING.sub(lambda match: f"<{match.lastgroup}>", message[-_MAX_CHARACTERS:])


def message_signature(run: Run) -> str:
    """Return the signature of the last message of a run."""
    return signature(run.facts.message or "")


class RunStep(msgspec.Struct, frozen=True):
    """A stage or command of a service, however often it ran."""

    kind: str
    """`stage`, `pre-command` or `post-command`."""
    name: str
    command: str | None = None
    """The command that a stage is part of."""


class Longest(msgspec.Struct, frozen=True):
    """How many seconds the longest execution took, and whether it goes on."""

    seconds: float
    is_running: bool


def steps_of(run: Run) -> dict[RunStep, list[Span]]:
    """Return the steps of a run and their executions, in the order in which they first ran."""
    steps: dict[RunStep, list[Span]] = {}
    for step, span in _spans(run):
        steps.setdefault(step, []).append(span)
    return steps


def _spans(run: Run) -> Iterator[tuple[RunStep, Span]]:
    for command in run.commands:
        if command.is_before:
            yield from _of_command(command)
    yield from _of_stages(run.stages)
    for command in run.commands:
        if not command.is_before:
            yield from _of_command(command)


def _of_command(command: Command) -> Iterator[tuple[RunStep, Span]]:
    yield RunStep("pre-command" if command.is_before else "post-command", command.name), command
    yield from _of_stages(command.stages, command.name)


def _of_stages(stages: Iterable[Stage], command: str | None = None) -> Iterator[tuple[RunStep, Span]]:
    return ((RunStep("stage", stage.name, command), stage) for stage in stages)


def moved(
    good: Sequence[RunStep], bad: Sequence[RunStep]
) -> Iterator[tuple[RunStep, RunStep | None, RunStep | None]]:
    """Yield roughly the fewest steps whose places make one order of the same steps from the other.

    With each, what it follows in the bad order and in the good one.
    """
    matcher = SequenceMatcher(None, good, bad, autojunk=False)
    in_place = {
        step for block in matcher.get_matching_blocks() for step in bad[block.b : block.b + block.size]
    }
    for place, step in enumerate(bad):
        if step not in in_place:
            usual = good.index(step)
            yield step, bad[place - 1] if place else None, good[usual - 1] if usual else None


def longest(spans: Iterable[Span], run: Run, service: ServiceHistory, now: Now) -> Longest | None:
    """Return the longest of some spans of a run; a running one has lasted until now."""
    candidates = []
    for span in spans:
        is_running = span.outcome is Outcome.RUNNING
        seconds = now.since(span, run, service) if is_running else span.duration
        if seconds is not None:
            candidates.append(Longest(seconds, is_running))
    return max(candidates, key=lambda one: one.seconds, default=None)


class FailureGroup(msgspec.Struct, frozen=True):
    """What failed alike: in the same step, with the same signature."""

    step: RunStep | None
    """What failed; None for the run itself."""
    signature: str
    """Empty when nothing was said."""
    facts: Facts
    """Of the latest."""
    count: int
    last: Run
    """The latest run that it happened in."""


def new_failures(good: Iterable[Run], bad: Iterable[Run]) -> list[FailureGroup]:
    """Return the failures of the bad runs that none of the good runs has; the earliest first."""
    good_groups = _by_kind(good)
    return [failure for kind, failure in _by_kind(bad).items() if kind not in good_groups]


def failures_of(runs: Iterable[Run]) -> list[FailureGroup]:
    """Return the failures of all these runs, the earliest first; those of stages that a run survived, too."""
    return list(_by_kind(runs).values())


def _by_kind(runs: Iterable[Run]) -> dict[Hashable, FailureGroup]:
    groups: dict[Hashable, FailureGroup] = {}
    for run in runs:
        for step, facts in _failures(run):
            kind = _kind(step, facts)
            count = groups[kind].count + 1 if kind in groups else 1
            groups[kind] = FailureGroup(step, signature(facts.message or ""), facts, count, run)
    return groups


def _kind(step: RunStep | None, facts: Facts) -> Hashable:
    """Return what is the same of failures that are alike; without a message, exit status and signal."""
    if facts.message:
        return step, signature(facts.message)
    return step, facts.exit_code, facts.signal


def _failures(run: Run) -> Iterator[tuple[RunStep | None, Facts]]:
    """Yield the failed executions of its steps; and its own failure, unless one of those ended with it."""
    is_told = False
    for step, spans in steps_of(run).items():
        for span in spans:
            if span.outcome is Outcome.FAILURE and span.facts != NOTHING:
                is_told |= span is spans[-1] and _explains(span, step, run)
                yield step, span.facts
    if run.outcome is Outcome.FAILURE and not is_told:
        yield None, run.facts


def _explains(span: Span, step: RunStep, run: Run) -> bool:
    return step.name in {run.in_stage, run.in_command} and span.facts.signal == run.facts.signal

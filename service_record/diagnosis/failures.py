"""Group equal failures: in the same step, and with the same message except for numbers and names. Pure."""

import re
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from service_record.history.outcome import NOTHING, Command, Facts, Outcome, Run, Span

_MAX_CHARACTERS: Final = 4096
_VARYING: Final = r"""(?xa)
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
    """
"""Each alternative is bounded or begins only at a word boundary, so that matching takes linear time."""


@lru_cache(maxsize=1024)  # repeated failures usually have the same message
def signature(message: str) -> str:
    """Return the message with `<time>`, `<address>`, `<id>`, `<disk>` and `<number>` for variable parts."""
    return re.sub(_VARYING, lambda match: f"<{match.lastgroup}>", message[-_MAX_CHARACTERS:])


class RunStep(msgspec.Struct, frozen=True):
    """A stage or command of a service, regardless of how often it ran."""

    kind: str
    """`stage`, `pre-command` or `post-command`."""
    name: str
    command: str | None = None
    """The command that a stage is part of."""


def group_steps(run: Run) -> dict[RunStep, list[Span]]:
    """Return step -> its executions, in the order in which the steps first ran."""
    before = [command for command in run.commands if command.is_before]
    after = [command for command in run.commands if not command.is_before]
    parts: list[Command | Run] = [*before, run, *after]
    steps: dict[RunStep, list[Span]] = {}
    for part in parts:
        command = None
        if isinstance(part, Command):
            command = part.name
            kind = "pre-command" if part.is_before else "post-command"
            steps.setdefault(RunStep(kind, command), []).append(part)
        for stage in part.stages:
            steps.setdefault(RunStep("stage", stage.name, command), []).append(stage)
    return steps


class FailureGroup(msgspec.Struct, frozen=True):
    """Equal failures: in the same step and with the same signature."""

    step: RunStep | None
    """The step that failed; None for the run itself."""
    signature: str
    """Empty without a message."""
    facts: Facts
    """The facts of the latest failure."""
    count: int
    last: Run
    """The latest run with this failure."""


def new_failures(good: Iterable[Run], bad: Iterable[Run]) -> list[FailureGroup]:
    """Return failures of the bad runs that do not occur in the good runs, earliest first."""
    good_groups = _group_by_kind(good)
    return [failure for kind, failure in _group_by_kind(bad).items() if kind not in good_groups]


def group_failures(runs: Iterable[Run]) -> list[FailureGroup]:
    """Return the failures of all runs, earliest first, including failed stages that a run survived."""
    return list(_group_by_kind(runs).values())


def _group_by_kind(runs: Iterable[Run]) -> dict[Hashable, FailureGroup]:
    groups: dict[Hashable, FailureGroup] = {}
    for run in runs:
        for step, facts in _find_failures(run):
            kind: Hashable = (step, facts.exit_code, facts.signal)
            if facts.message:
                kind = (step, signature(facts.message))
            count = groups[kind].count + 1 if kind in groups else 1
            groups[kind] = FailureGroup(step, signature(facts.message or ""), facts, count, run)
    return groups


def _find_failures(run: Run) -> Iterator[tuple[RunStep | None, Facts]]:
    """Yield the failed executions of steps, then the failure of the run unless one of those explains it."""
    is_explained = False
    for step, spans in group_steps(run).items():
        for span in spans:
            if span.outcome is Outcome.FAILURE and span.facts != NOTHING:
                is_last = span is spans[-1] and step.name in {run.in_stage, run.in_command}
                is_explained |= is_last and span.facts.signal == run.facts.signal
                yield step, span.facts
    if run.outcome is Outcome.FAILURE and not is_explained:
        yield None, run.facts

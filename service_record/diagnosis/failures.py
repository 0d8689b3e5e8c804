"""The failures of a service, each told once, by what it says and where. Pure."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from service_record.diagnosis.signature import signature
from service_record.diagnosis.steps import Step, steps_of
from service_record.history.facts import NOTHING, Facts
from service_record.history.outcome import Outcome, Run, Span


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed alike: in the same step, with the same signature."""

    step: Step | None
    """What failed; None for the run itself."""
    signature: str
    """Empty when nothing was said."""
    facts: Facts
    """Of the latest."""
    count: int
    last: Run
    """The latest run that it happened in."""


def new_failures(good: Iterable[Run], bad: Iterable[Run]) -> list[Failure]:
    """The failures of the bad runs that none of the good runs has; the earliest first."""
    known = _by_kind(good)
    return [failure for kind, failure in _by_kind(bad).items() if kind not in known]


def failures_of(runs: Iterable[Run]) -> list[Failure]:
    """The failures of all these runs, the earliest first; those of stages that a run survived, too."""
    return list(_by_kind(runs).values())


def _by_kind(runs: Iterable[Run]) -> dict[Hashable, Failure]:
    found: dict[Hashable, Failure] = {}
    for run in runs:
        for step, facts in _failures(run):
            kind = _kind(step, facts)
            count = found[kind].count + 1 if kind in found else 1
            found[kind] = Failure(step, signature(facts.message or ""), facts, count, run)
    return found


def _kind(step: Step | None, facts: Facts) -> Hashable:
    """What is the same of failures that are alike; without a message these are exit status and signal."""
    if facts.message:
        return step, signature(facts.message)
    return step, facts.exit_code, facts.signal


def _failures(run: Run) -> Iterator[tuple[Step | None, Facts]]:
    """The failed executions of its steps; and its own failure, where that is not the last of one of them."""
    is_told = False
    for step, spans in steps_of(run).items():
        for span in spans:
            if span.outcome is Outcome.FAILURE and span.facts != NOTHING:
                is_told |= span is spans[-1] and _explains(span, step, run)
                yield step, span.facts
    if run.outcome is Outcome.FAILURE and not is_told:
        yield None, run.facts


def _explains(span: Span, step: Step, run: Run) -> bool:
    return step.name in {run.in_stage, run.in_command} and span.facts.signal == run.facts.signal

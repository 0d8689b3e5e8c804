"""Failures by what they say and where: which of them are new. Pure."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from service_record.diagnosis.signature import signature
from service_record.diagnosis.steps import Step, steps_of
from service_record.history.facts import NOTHING, Facts
from service_record.history.outcome import Outcome, Run, Span


@dataclass(frozen=True, slots=True)
class NewFailure:
    """A failure that only the bad runs have."""

    step: Step | None
    """What failed; None for the run itself."""
    signature: str
    """Empty when nothing was said."""
    facts: Facts
    """Of the latest."""
    count: int


def new_failures(good: Iterable[Run], bad: Iterable[Run]) -> list[NewFailure]:
    """The failures of the bad runs with a signature that none of the good runs has there, the earliest first.

    Those without a message are told apart by exit status and signal.
    """
    known = {_kind(step, facts) for run in good for step, facts in _failures(run)}
    found: dict[Hashable, NewFailure] = {}
    for run in bad:
        for step, facts in _failures(run):
            kind = _kind(step, facts)
            if kind in known:
                continue
            count = found[kind].count + 1 if kind in found else 1
            found[kind] = NewFailure(step, signature(facts.message or ""), facts, count)
    return list(found.values())


def _kind(step: Step | None, facts: Facts) -> Hashable:
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

"""The differences between two hosts as a document for programs; docs/diff.md describes it field by field."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from service_record.diagnosis.comparison import (
    Added,
    Difference,
    EndedDifferently,
    Missing,
    Moved,
    ServiceComparison,
    StepEnded,
    Tolerance,
)
from service_record.diagnosis.failures import FailureGroup, RunStep
from service_record.diagnosis.findings import KnownCause
from service_record.display.machine import ProgramDocument
from service_record.display.show_document import (
    VERSION,
    Count,
    FactsDocument,
    FromOne,
    Time,
    facts_document,
    utc_or_none,
)
from service_record.history.outcome import Outcome, Run


class SideDocument(ProgramDocument, frozen=True, kw_only=True):
    """The compared run."""

    runs: Count
    attempt: FromOne
    outcome: Outcome
    """How it ended, or that it has not ended."""
    first_entry: Time | None = None
    duration: float | None = None
    boot_id: str | None = None
    invocation_id: str | None = None
    in_stage: str | None = None
    in_command: str | None = None


class StepDocument(ProgramDocument, frozen=True, kw_only=True):
    """The name of a stage or command. It has no field if it stands for the run itself."""

    stage: str | None = None
    pre_command: str | None = msgspec.field(default=None, name="pre-command")
    post_command: str | None = msgspec.field(default=None, name="post-command")
    command: str | None = None
    """The command that a stage is part of."""


class ServiceMissingDocument(
    ProgramDocument, frozen=True, kw_only=True, tag_field="kind", tag="service-missing"
):
    """The service ran only in GOOD."""


class ServiceNewDocument(ProgramDocument, frozen=True, kw_only=True, tag_field="kind", tag="service-new"):
    """The service ran only in BAD."""

    outcome: Outcome


class EndedDifferentlyDocument(ProgramDocument, frozen=True, kw_only=True, tag_field="kind", tag="outcome"):
    """The run ended with another outcome, or in another place."""

    good: Outcome | None = None
    bad: Outcome | None = None


class StepOutcomeDocument(StepDocument, frozen=True, kw_only=True, tag_field="kind", tag="step-outcome"):
    """A step that succeeded in GOOD did not succeed."""

    good: Literal["success"]
    bad: Outcome


class MissingDocument(StepDocument, frozen=True, kw_only=True, tag_field="kind", tag="missing"):
    """A step ran only in GOOD."""

    reached: bool
    """The run in BAD came to the step's place in the order."""


class NewDocument(StepDocument, frozen=True, kw_only=True, tag_field="kind", tag="new"):
    """A step ran only in BAD."""


class StepsBeforeDocument(ProgramDocument, frozen=True, kw_only=True):
    """The step before it on each side; missing if it was the first."""

    good: StepDocument | None = None
    bad: StepDocument | None = None


class MovedDocument(StepDocument, frozen=True, kw_only=True, tag_field="kind", tag="moved"):
    """A step ran at another place in the order."""

    after: StepsBeforeDocument


class SlowerDocument(StepDocument, frozen=True, kw_only=True, tag_field="kind", tag="slower"):
    """A step, or the whole run, took much longer."""

    good: float
    """Seconds."""
    bad: float
    """Seconds."""
    running: bool = False


class FailureDocument(StepDocument, frozen=True, kw_only=True, tag_field="kind", tag="failure"):
    """A step, or the run itself, failed only in BAD."""

    signature: str
    count: Count
    facts: FactsDocument | None = None


DifferenceDocument = (
    ServiceMissingDocument
    | ServiceNewDocument
    | EndedDifferentlyDocument
    | StepOutcomeDocument
    | MissingDocument
    | NewDocument
    | MovedDocument
    | SlowerDocument
    | FailureDocument
)


class EvidenceDocument(ProgramDocument, frozen=True, kw_only=True):
    cause: str
    says: str
    rank: str | None = None
    line: str | None = None
    place: str | None = None


class ComparedServiceDocument(ProgramDocument, frozen=True, kw_only=True):
    service: str
    good: SideDocument | None = None
    bad: SideDocument | None = None
    differences: tuple[DifferenceDocument, ...]


class ComparisonDocument(ProgramDocument, frozen=True, kw_only=True):
    version: Literal[1]
    good: str
    """Where the records are."""
    bad: str
    ratio: float
    floor: float
    differs: bool
    evidence: tuple[EvidenceDocument, ...] = ()
    """Known causes in the files of BAD that the files of GOOD do not have."""
    services: tuple[ComparedServiceDocument, ...]


def comparison_document(
    services: Sequence[ServiceComparison],
    good: str,
    bad: str,
    tolerance: Tolerance,
    evident: Sequence[KnownCause] = (),
) -> ComparisonDocument:
    """Return the document of `diff --output json` and `yaml`."""
    return ComparisonDocument(
        version=VERSION,
        good=good,
        bad=bad,
        ratio=tolerance.ratio,
        floor=tolerance.floor,
        differs=bool(evident) or any(one.differs for one in services),
        evidence=tuple(map(_evidence, evident)),
        services=tuple(
            ComparedServiceDocument(
                service=one.service,
                good=_side(one.good, one.good_runs) if one.good else None,
                bad=_side(one.bad, one.bad_runs) if one.bad else None,
                differences=tuple(_differences(one)),
            )
            for one in services
        ),
    )


def difference_documents(
    services: Sequence[ServiceComparison], evident: Sequence[KnownCause] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the lines of `diff --output jsonl`: each difference, with its service; evidence has none."""
    for cause in evident:
        yield {"what": "evidence"} | msgspec.to_builtins(_evidence(cause))
    for one in services:
        for difference in _differences(one):
            yield {"service": one.service} | msgspec.to_builtins(difference)


def _evidence(cause: KnownCause) -> EvidenceDocument:
    return EvidenceDocument(
        cause=cause.name,
        says=cause.says,
        rank=cause.rank if cause.is_symptom else None,
        line=cause.line,
        place=cause.place,
    )


def _side(run: Run, runs: int) -> SideDocument:
    return SideDocument(
        runs=runs,
        attempt=run.attempt,
        outcome=run.outcome,
        first_entry=utc_or_none(run.first_entry),
        duration=run.duration,
        boot_id=run.boot_id,
        invocation_id=run.invocation_id,
        in_stage=run.in_stage,
        in_command=run.in_command,
    )


def _differences(one: ServiceComparison) -> Iterator[DifferenceDocument]:
    if one.bad is None and one.good is not None:
        yield ServiceMissingDocument()
    if one.good is None and one.bad is not None:
        yield ServiceNewDocument(outcome=one.bad.outcome)
    yield from (_difference(difference, one) for difference in one.differences)


def _difference(difference: Difference, one: ServiceComparison) -> DifferenceDocument:  # noqa: PLR0911
    match difference:
        case EndedDifferently():
            return EndedDifferentlyDocument(
                good=one.good.outcome if one.good else None, bad=one.bad.outcome if one.bad else None
            )
        case StepEnded(step, outcome):
            return StepOutcomeDocument(**_step(step), good="success", bad=outcome)
        case Missing(step, is_unreached):
            return MissingDocument(**_step(step), reached=not is_unreached)
        case Added(step):
            return NewDocument(**_step(step))
        case Moved(step, after, good_after):
            good = StepDocument(**_step(good_after)) if good_after is not None else None
            bad = StepDocument(**_step(after)) if after is not None else None
            return MovedDocument(**_step(step), after=StepsBeforeDocument(good=good, bad=bad))
        case FailureGroup(failed_step, signature, facts, count):
            facts_ = facts_document(facts)
            return FailureDocument(**_step(failed_step), signature=signature, count=count, facts=facts_)
        case _:
            return SlowerDocument(
                **_step(difference.step),
                good=difference.good_seconds,
                bad=difference.seconds,
                running=difference.is_running,
            )


def _step(step: RunStep | None) -> dict[str, Any]:
    """Return the fields of a StepDocument."""
    return {} if step is None else {step.kind.replace("-", "_"): step.name, "command": step.command}

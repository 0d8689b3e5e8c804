"""A comparison as plain documents for programs; docs/diff.md describes them field by field."""

from collections.abc import Iterator, Sequence
from typing import Final

from service_record.diagnosis.comparison import (
    Added,
    Difference,
    Ended,
    Missing,
    Moved,
    ServiceComparison,
    Slower,
    StepEnded,
    Tolerance,
)
from service_record.diagnosis.failures import Failure
from service_record.diagnosis.steps import Step
from service_record.display.document import Document, facts_document
from service_record.display.text import utc
from service_record.history.outcome import Run

_SCHEMA_VERSION: Final = 1


def comparison_document(
    found: Sequence[ServiceComparison], good: str, bad: str, tolerance: Tolerance
) -> Document:
    """The document of `diff --output json` and `yaml`."""
    return {
        "version": _SCHEMA_VERSION,
        "good": good,
        "bad": bad,
        "ratio": tolerance.ratio,
        "floor": tolerance.floor,
        "differs": any(one.differs for one in found),
        "services": [
            {
                "service": one.service,
                **_known(good=one.good and _run(one.good, one.good_runs)),
                **_known(bad=one.bad and _run(one.bad, one.bad_runs)),
                "differences": list(_differences(one)),
            }
            for one in found
        ],
    }


def difference_documents(found: Sequence[ServiceComparison]) -> Iterator[Document]:
    """The lines of `diff --output jsonl`: each difference, with its service."""
    for one in found:
        for difference in _differences(one):
            yield {"service": one.service, **difference}


def _run(run: Run, runs: int) -> Document:
    return {
        "runs": runs,
        "attempt": run.attempt,
        "outcome": run.outcome.value,
        **_known(firstEntry=run.first_entry and utc(run.first_entry)),
        **_known(duration=run.duration, bootId=run.boot_id, invocationId=run.invocation_id),
        **_known(inStage=run.in_stage, inCommand=run.in_command),
    }


def _differences(one: ServiceComparison) -> Iterator[Document]:
    if one.bad is None and one.good is not None:
        yield {"kind": "service-missing"}
    if one.good is None and one.bad is not None:
        yield {"kind": "service-new", "outcome": one.bad.outcome.value}
    yield from (_difference(difference, one) for difference in one.differences)


def _difference(difference: Difference, one: ServiceComparison) -> Document:
    kind, fields = _told(difference, one)
    step = None if isinstance(difference, Ended) else difference.step
    return {"kind": kind, **_step(step), **fields}


def _told(difference: Difference, one: ServiceComparison) -> tuple[str, Document]:
    told: tuple[str, Document]
    match difference:
        case Ended():
            ends = {"good": one.good and one.good.outcome.value, "bad": one.bad and one.bad.outcome.value}
            told = "outcome", _known(**ends)
        case StepEnded(_, outcome):
            told = "step-outcome", {"good": "success", "bad": outcome.value}
        case Missing(_, is_unreached):
            told = "missing", {"reached": not is_unreached}
        case Added():
            told = "new", {}
        case Moved(_, after, good_after):
            places = {"good": good_after and _step(good_after), "bad": after and _step(after)}
            told = "moved", {"after": _known(**places)}
        case Slower(_, seconds, good_seconds, is_running):
            told = "slower", {"good": good_seconds, "bad": seconds, **_known(running=is_running or None)}
        case Failure(_, signature, facts, count):
            told = "failure", {"signature": signature, "count": count, **facts_document(facts)}
    return told


def _step(step: Step | None) -> Document:
    """Nothing for the run itself."""
    if step is None:
        return {}
    return {step.kind: step.name, **_known(command=step.command)}


def _known(**fields: object) -> Document:
    return {name: value for name, value in fields.items() if value is not None}

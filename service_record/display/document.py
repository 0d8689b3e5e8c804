"""A history as one plain document for programs; docs/cli.md describes it field by field.

What is not known is left out. Times are UTC with milliseconds, durations seconds.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from service_record.display.text import utc
from service_record.history import History, ServiceHistory
from service_record.history.outcome import NOTHING, Command, Facts, Location, Run, Span, Stage
from service_record.record.entry import Malformed

if TYPE_CHECKING:  # showing needs nothing of what judges
    from service_record.diagnosis.findings import FailedUnit

_SCHEMA_VERSION: Final = 1

Document: TypeAlias = dict[str, object]


def document(
    history: History,
    source: str,
    left_out: Iterable[tuple[str, str]] = (),
    failed_units: "Iterable[FailedUnit]" = (),
    *,
    has_runs: bool = True,
) -> Document:
    """Return the document of `show --output json` and `yaml`; paths and reasons are of what was not read.

    Without runs, each list of them is empty: `run_documents` has what belongs in it.
    """
    units = [{"unit": failed.unit.name, **_facts(failed.unit.facts)} for failed in failed_units]
    return {
        "version": _SCHEMA_VERSION,
        "source": source,
        "leftOut": [{"path": path, "reason": reason} for path, reason in left_out],
        "boots": list(history.boots),
        "services": [_service(service, has_runs=has_runs) for service in history.services],
        **_present(failedUnits=units or None),
    }


def run_documents(service: ServiceHistory) -> Iterator[Document]:
    """Yield the runs of a service, each made when it is asked for and held by nobody."""
    return map(_run, service.runs)


def malformed_document(piece: Malformed) -> Document:
    """Return a damaged piece with an excerpt of its text: what is damaged may be as long as its file."""
    return {"line": piece.line, "text": piece.abridge().text, "reason": piece.reason}


def facts_document(facts: Facts) -> Document:
    """Return the known facts of an end, below `facts`; an empty document if there are none."""
    return _facts(facts)


def _service(service: ServiceHistory, *, has_runs: bool) -> Document:
    return {
        "service": service.name,
        **_present(outcome=service.outcome and service.outcome.value),
        "runs": [_run(run) for run in service.runs] if has_runs else [],
        "malformed": [malformed_document(piece) for piece in service.malformed],
        **_present(unlisted=service.unlisted or None),
        **_present(utcOffset=service.utc_offset and round(service.utc_offset.total_seconds())),
        **_present(unfinished=service.is_unfinished or None, damagedCopy=service.has_damaged_copy or None),
    }


def _run(run: Run) -> Document:
    return {
        "attempt": run.attempt,
        **_span(run),
        **_present(firstEntry=run.first_entry and utc(run.first_entry)),
        **_present(lastEntry=run.last_entry and utc(run.last_entry)),
        **_present(inStage=run.in_stage, inCommand=run.in_command, bootId=run.boot_id),
        **_present(invocationId=run.invocation_id, pid=run.pid, recorder=run.recorder),
        **_present(dropped=run.dropped or None, leftOut=run.left_out and run.left_out.to_json()),
        **_facts(run.facts),
        "commands": [_command(command) for command in run.commands],
        "stages": _stages(run.stages),
    }


def _command(command: Command) -> Document:
    return {
        "kind": "pre-command" if command.is_before else "post-command",
        "name": command.name,
        **_span(command),
        **_present(inStage=command.in_stage, pid=command.pid),
        **_facts(command.facts),
        "stages": _stages(command.stages),
    }


def _stages(stages: Iterable[Stage]) -> list[Document]:
    return [
        {
            "name": stage.name,
            "depth": stage.depth,
            **_present(id=stage.id, parent=stage.parent),
            **_span(stage),
            **_facts(stage.facts),
        }
        for stage in stages
    ]


def _span(span: Span) -> Document:
    document: Document = {"outcome": span.outcome.value}
    if span.started is not None:
        document["started"] = utc(span.started)
    if span.ended is not None:
        document["ended"] = utc(span.ended)
    if span.duration is not None:
        document["duration"] = span.duration
    return document


def _facts(facts: Facts) -> Document:
    if facts == NOTHING:
        return {}
    return {
        "facts": _present(
            location=_location(facts.location) if facts.location else None,
            approximate=facts.is_approximate or None,
            command=facts.command,
            stack=[_location(frame) for frame in facts.stack] or None,
            exitCode=facts.exit_code,
            signal=facts.signal,
            serviceResult=facts.service_result,
            stopRequest=facts.stop_request,
            message=facts.message,
            truncated=facts.is_truncated or None,
        )
    }


def _location(location: Location) -> Document:
    return _present(line=location.line, function=location.function or None, file=location.file)


def _present(**fields: object) -> Document:
    return {name: value for name, value in fields.items() if value is not None}

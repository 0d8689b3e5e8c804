"""A history as a document for programs; docs/show-document.md describes it field by field.

Unknown values are left out. Times are UTC with milliseconds, durations are seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta

from service_record.display.machine import DamageDocument, ProgramDocument, malformed_document
from service_record.display.text import utc
from service_record.history import History, ServiceHistory
from service_record.history.outcome import NOTHING, Command, Facts, Location, Outcome, Run, Span, Stage

VERSION: Final = 1
"""The version of every document. It changes only if a field is removed or changes its meaning."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]
FromOne: TypeAlias = Annotated[int, Meta(ge=1)]
Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class LocationDocument(ProgramDocument, frozen=True, kw_only=True):
    line: Count | None = None
    function: str = ""
    file: str


class FactsDocument(ProgramDocument, frozen=True, kw_only=True):
    """How it ended."""

    location: LocationDocument | None = None
    approximate: bool = False
    """The location is the nearest call site."""
    command: str | None = None
    """The failing command as written."""
    stack: tuple[LocationDocument, ...] = ()
    """Innermost first."""
    exit_code: Count | None = None
    signal: str | None = None
    service_result: str | None = None
    """The result of systemd."""
    stop_request: str | None = None
    stopped_with: str | None = None
    time_limit: str | None = None
    message: str | None = None
    """The last lines that it logged."""
    truncated: bool = False


class StageDocument(ProgramDocument, frozen=True, kw_only=True):
    """A stage, in the order of the starts."""

    name: str
    depth: Count
    """The number of stages around it."""
    id: str | None = None
    parent: str | None = None
    outcome: Outcome
    """How it ended, or that it has not ended."""
    started: Time | None = None
    ended: Time | None = None
    duration: float | None = None
    """Seconds, by uptime where both ends have it."""
    attributes: dict[str, Any] | None = None
    """Facts that the service recorded about this execution."""
    facts: FactsDocument | None = None


class CommandDocument(ProgramDocument, frozen=True, kw_only=True):
    """A pre- or post-command."""

    kind: Literal["pre-command", "post-command"]
    name: str
    outcome: Outcome
    """How it ended, or that it has not ended."""
    started: Time | None = None
    ended: Time | None = None
    duration: float | None = None
    """Seconds, by uptime where both ends have it."""
    attributes: dict[str, Any] | None = None
    """Facts that the service recorded about this execution."""
    in_stage: str | None = None
    pid: Count | None = None
    facts: FactsDocument | None = None
    stages: tuple[StageDocument, ...]


class RunDocument(ProgramDocument, frozen=True, kw_only=True):
    """A run."""

    attempt: FromOne
    """The number within its boot."""
    outcome: Outcome
    """How it ended, or that it has not ended."""
    started: Time | None = None
    ended: Time | None = None
    duration: float | None = None
    """Seconds, by uptime where both ends have it."""
    attributes: dict[str, Any] | None = None
    """Facts that the service recorded about this execution."""
    first_entry: Time | None = None
    last_entry: Time | None = None
    in_stage: str | None = None
    in_command: str | None = None
    boot_id: str | None = None
    invocation_id: str | None = None
    pid: Count | None = None
    recorder: str | None = None
    derived: bool = False
    """It was read from a journal or an installer's log, not from a record."""
    dropped: Count = 0
    """Entries that could not be written."""
    left_out: Mapping[str, Any] | None = None
    """The runs before it that a rotation removed."""
    facts: FactsDocument | None = None
    commands: tuple[CommandDocument, ...]
    stages: tuple[StageDocument, ...]


class ServiceDocument(ProgramDocument, frozen=True, kw_only=True):
    """A service."""

    service: str
    outcome: Outcome | None = None
    """How its latest run ended, or that it has not ended."""
    runs: tuple[RunDocument, ...]
    """Runs in the order of the record."""
    malformed: tuple[DamageDocument, ...]
    """Damaged pieces, at most the first 1,000."""
    unlisted: Count = 0
    """Damaged pieces that are not listed."""
    utc_offset: int | None = None
    """Seconds from UTC that its times, labelled UTC, seem to be."""
    unfinished: bool = False
    """A write of upstream's shim beside the record did not end."""
    damaged_copy: bool = False
    """Damaged bytes of the record are kept in a file beside it."""


class UnreadPartDocument(ProgramDocument, frozen=True, kw_only=True):
    path: str
    reason: str


class ShowDocument(ProgramDocument, frozen=True, kw_only=True):
    version: Literal[1]
    source: str
    """Where the records are."""
    left_out: tuple[UnreadPartDocument, ...]
    """Members of a bundle that were rejected, or read only in part."""
    boots: tuple[str, ...]
    """Boot ids, oldest first."""
    services: tuple[ServiceDocument, ...]
    """Services by name."""


def show_document(
    history: History, source: str, left_out: Iterable[tuple[str, str]] = (), *, has_runs: bool = True
) -> ShowDocument:
    """Return the document of `show --output json` and `yaml`.

    `left_out` has the path and the reason of each file that was not read. Without `has_runs`, all lists of
    runs are empty, and `run_documents` makes their items.
    """
    return ShowDocument(
        version=VERSION,
        source=source,
        left_out=tuple(UnreadPartDocument(path=path, reason=reason) for path, reason in left_out),
        boots=tuple(history.boots),
        services=tuple(
            ServiceDocument(
                service=service.name,
                outcome=service.outcome,
                runs=tuple(run_documents(service)) if has_runs else (),
                malformed=tuple(map(malformed_document, service.malformed)),
                unlisted=service.unlisted,
                utc_offset=round(service.utc_offset.total_seconds()) if service.utc_offset else None,
                unfinished=service.is_unfinished,
                damaged_copy=service.has_damaged_copy,
            )
            for service in history.services
        ),
    )


def run_documents(service: ServiceHistory) -> Iterator[RunDocument]:
    """Yield the documents of a service's runs. Each is made when it is needed, to save memory."""
    return map(_run, service.runs)


def _run(run: Run) -> RunDocument:
    return RunDocument(
        attempt=run.attempt,
        **span_fields(run),
        first_entry=utc_or_none(run.first_entry),
        last_entry=utc_or_none(run.last_entry),
        in_stage=run.in_stage,
        in_command=run.in_command,
        boot_id=run.boot_id,
        invocation_id=run.invocation_id,
        pid=run.pid,
        recorder=run.recorder,
        derived=run.is_derived,
        dropped=run.dropped,
        left_out=run.left_out.to_json() if run.left_out else None,
        facts=facts_document(run.facts),
        commands=tuple(map(_command, run.commands)),
        stages=tuple(map(_stage, run.stages)),
    )


def _command(command: Command) -> CommandDocument:
    return CommandDocument(
        kind="pre-command" if command.is_before else "post-command",
        name=command.name,
        **span_fields(command),
        in_stage=command.in_stage,
        pid=command.pid,
        facts=facts_document(command.facts),
        stages=tuple(map(_stage, command.stages)),
    )


def _stage(stage: Stage) -> StageDocument:
    return StageDocument(
        name=stage.name,
        depth=stage.depth,
        id=stage.id,
        parent=stage.parent,
        **span_fields(stage),
        facts=facts_document(stage.facts),
    )


def span_fields(span: Span) -> dict[str, Any]:
    """Return the fields that runs, commands and stages share.

    They are not a base class, because the fields of a base class are written first.
    """
    return {
        "outcome": span.outcome,
        "started": utc_or_none(span.started),
        "ended": utc_or_none(span.ended),
        "duration": span.duration,
        "attributes": dict(span.attributes) or None,
    }


def facts_document(facts: Facts) -> FactsDocument | None:
    """Return the known facts of an end; None if there are none."""
    if facts == NOTHING:
        return None
    return FactsDocument(
        location=_location(facts.location) if facts.location else None,
        approximate=facts.is_approximate,
        command=facts.command,
        stack=tuple(map(_location, facts.stack)),
        exit_code=facts.exit_code,
        signal=facts.signal,
        service_result=facts.service_result,
        stop_request=facts.stop_request,
        stopped_with=facts.stopped_with,
        time_limit=facts.time_limit,
        message=facts.message,
        truncated=facts.is_truncated,
    )


def _location(location: Location) -> LocationDocument:
    return LocationDocument(line=location.line, function=location.function, file=location.file)


def utc_or_none(time: datetime | None) -> str | None:
    return None if time is None else utc(time)

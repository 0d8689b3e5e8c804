"""A diagnosis as a document for programs; docs/analyze-document.md describes it field by field.

Unknown values are left out. Times are UTC with milliseconds, durations are seconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from service_record.diagnosis.budget import Basis, Budget
from service_record.diagnosis.evidence.unit_logs import Hindrance
from service_record.diagnosis.findings import (
    BackwardBoot,
    ClockFinding,
    Diagnosis,
    FailedUnit,
    KnownCause,
    LocalTimes,
    LoopOf,
    NotStarted,
    QuotedLine,
    Running,
    Stopped,
    Trouble,
    Unrecorded,
    UnsetClock,
    Verdict,
    Weighed,
    commands_for_missing,
    commands_for_unit,
    next_commands,
)
from service_record.display.machine import ProgramDocument
from service_record.display.sentences import (
    failed_unit_sentence,
    handled_sentence,
    host_sentence,
    not_started_sentence,
    trouble_sentence,
    unrecorded_sentence,
    verdict_sentence,
)
from service_record.display.show_document import (
    VERSION,
    Count,
    FactsDocument,
    FromOne,
    ShowDocument,
    Time,
    facts_document,
    span_fields,
    utc_or_none,
)
from service_record.display.text import utc
from service_record.history.outcome import Outcome, Run
from service_record.history.results import Handled


class BudgetDocument(ProgramDocument, frozen=True, kw_only=True):
    seconds: float
    basis: Basis = msgspec.field(name="from")
    executions: Count = 0
    longest: float | None = None


class EndedRunDocument(ProgramDocument, frozen=True, kw_only=True):
    """A run of which the details are in the document of `show`."""

    attempt: FromOne
    outcome: Outcome
    """How it ended, or that it has not ended."""
    started: Time | None = None
    ended: Time | None = None
    duration: float | None = None
    """Seconds, by uptime where both ends have it."""
    attributes: dict[str, Any] | None = None
    """Facts that the service recorded about this execution."""
    last_entry: Time | None = None
    boot_id: str | None = None
    invocation_id: str | None = None
    pid: Count | None = None


class EarlierRunDocument(EndedRunDocument, frozen=True, kw_only=True):
    """The run before, with its facts."""

    facts: FactsDocument | None = None


class CauseDocument(ProgramDocument, frozen=True, kw_only=True):
    """The known cause of a trouble."""

    name: str
    says: str
    explains: str | None = None
    symptom: bool = False
    rank: str | None = None
    doubt: str | None = None
    """Why the line does not prove it."""
    line: str | None = None
    place: str | None = None
    """FILE:LINE."""


class ToldDocument(ProgramDocument, frozen=True, kw_only=True):
    """A line that tells more than the record."""

    line: str
    place: str


class LoopDocument(ProgramDocument, frozen=True, kw_only=True):
    of: LoopOf
    count: Count
    messages: Count
    boots: tuple[str, ...] = ()


class OverrunDocument(ProgramDocument, frozen=True, kw_only=True):
    what: str
    name: str
    seconds: float
    least: bool = False
    budget: BudgetDocument


class TroubleDocument(ProgramDocument, frozen=True, kw_only=True):
    """A trouble."""

    kind: Verdict
    service: str
    stage: str | None = None
    command: str | None = None
    says: str
    """For people."""
    since: Time | None = None
    count: Count
    """Runs in a row that ended alike."""
    running: bool = False
    rebooted: bool = False
    suppressed: Count = 0
    cause: CauseDocument | None = None
    told: ToldDocument | None = None
    loop: LoopDocument | None = None
    overrun: OverrunDocument | None = None
    run: EndedRunDocument
    facts: FactsDocument | None = None
    next: tuple[str, ...]
    """Commands to run next."""


class FailedUnitDocument(ProgramDocument, frozen=True, kw_only=True):
    """A failed unit."""

    kind: Verdict | None = None
    """Only of the root cause."""
    service: str | None = None
    """Only of the root cause."""
    unit: str
    says: str
    """For people."""
    result: str | None = None
    """The result of systemd."""
    exit_code: Count | None = None
    signal: str | None = None
    command: str | None = None
    since: Time | None = None
    required_by: tuple[str, ...] = ()
    recorded: Outcome | None = None
    cause: CauseDocument | None = None
    told: ToldDocument | None = None
    next: tuple[str, ...]
    """Commands to run next."""


class EvidenceRootDocument(ProgramDocument, frozen=True, kw_only=True):
    """The root cause by the evidence alone: no record and no unit has a failure."""

    kind: Verdict
    service: str
    says: str
    """For people."""
    cause: CauseDocument
    next: tuple[str, ...]
    """Commands to run next."""


class NotStartedDocument(ProgramDocument, frozen=True, kw_only=True):
    """A unit that did not start."""

    service: str
    says: str
    """For people."""
    why: Hindrance
    by: str | None = None
    """The unit or service that keeps it from starting."""
    chain: tuple[str, ...] = ()
    detail: str = ""
    pending: bool = False
    next: tuple[str, ...]
    """Commands to run next."""


class UnrecordedDocument(ProgramDocument, frozen=True, kw_only=True):
    """A unit without a record."""

    unit: str
    says: str
    """For people."""
    active: bool
    requires: tuple[str, ...] = ()


class RunningDocument(ProgramDocument, frozen=True, kw_only=True):
    """A run that has not ended."""

    service: str
    stage: str | None = None
    command: str | None = None
    seconds: float | None = None
    least: bool = False
    budget: BudgetDocument | None = None
    run: EndedRunDocument
    before: EarlierRunDocument | None = None


class StoppedDocument(ProgramDocument, frozen=True, kw_only=True):
    """A run that was stopped."""

    service: str
    stage: str | None = None
    command: str | None = None
    run: EndedRunDocument
    facts: FactsDocument | None = None
    bound_to: str | None = None
    before: EarlierRunDocument | None = None


class HandledDocument(ProgramDocument, frozen=True, kw_only=True):
    """A stage that failed in a run that continued."""

    service: str
    stage: str
    command: str | None = None
    says: str
    """For people."""
    count: Count
    stages: Count
    started: Time | None = None
    ended: Time | None = None
    run: EndedRunDocument
    facts: FactsDocument | None = None


class RecoveredDocument(ProgramDocument, frozen=True, kw_only=True):
    """A service that failed before."""

    service: str
    count: Count
    stage: str | None = None
    open: bool = False
    run: EndedRunDocument


class SlowDocument(ProgramDocument, frozen=True, kw_only=True):
    """A stage that took longer than in the baseline."""

    service: str
    stage: str | None = None
    seconds: float
    usual: float
    running: bool = False


class ClockStepDocument(ProgramDocument, frozen=True, kw_only=True, tag_field="what", tag="step"):
    """The clock was changed within a boot."""

    boot_id: str | None = None
    seconds: float
    uptime: float
    before: Time
    after: Time


class UnsetClockDocument(ProgramDocument, frozen=True, kw_only=True, tag_field="what", tag="unset"):
    """The clock had not been set."""

    service: str
    time: Time


class BackwardBootDocument(ProgramDocument, frozen=True, kw_only=True, tag_field="what", tag="back"):
    """The times of a boot are before those of the boot before it."""

    boot_id: str
    time: Time
    earlier: Time


class LocalTimesDocument(ProgramDocument, frozen=True, kw_only=True, tag_field="what", tag="local"):
    """Times labelled UTC seem to be local times."""

    services: tuple[str, ...]
    utc_offset: int


ClockDocument = ClockStepDocument | UnsetClockDocument | BackwardBootDocument | LocalTimesDocument


class DamagedDocument(ProgramDocument, frozen=True, kw_only=True):
    """A damaged record."""

    service: str
    pieces: Count
    line: Count | None = None
    lost: Count = 0
    empty: bool = False
    unreadable: bool = False
    unfinished: bool = False


class LogLineDocument(ProgramDocument, frozen=True, kw_only=True):
    """A log line to read first."""

    line: str
    place: str
    by: str = ""
    count: Count


class LookedDocument(ProgramDocument, frozen=True, kw_only=True):
    files: Count
    lines: Count
    kinds: tuple[str, ...]


class WeighedDocument(ProgramDocument, frozen=True, kw_only=True):
    """A rule that matches, and why it is not shown as the cause."""

    service: str = ""
    rule: str
    rank: str
    named: bool = False
    lost: str | None = None
    line: str | None = None
    place: str | None = None


class OtherHostDocument(ProgramDocument, frozen=True, kw_only=True):
    """Another host in the same source."""

    source: str
    verdict: Verdict
    says: str
    """For people."""


class VerdictDocument(ProgramDocument, frozen=True, kw_only=True):
    version: Literal[1]
    source: str
    """Where the records are."""
    verdict: Verdict
    """The state of the host."""
    says: str
    """The first line, for people."""


_ROOTS: Final = ("TroubleDocument", "FailedUnitDocument", "EvidenceRootDocument")


class AnalysisDocument(VerdictDocument, frozen=True, kw_only=True):
    # `Any`, because msgspec has no schema for a union of classes without tags.
    root: Annotated[
        Any, Meta(extra_json_schema={"anyOf": [{"$ref": f"#/$defs/{name}"} for name in _ROOTS]})
    ] = None
    """The root cause: a trouble, a failed unit, or the evidence alone."""
    units_unknown: bool = False
    """systemd did not say which units failed."""
    not_started: tuple[NotStartedDocument, ...] = ()
    failed_units: tuple[FailedUnitDocument, ...] = ()
    unrecorded: tuple[UnrecordedDocument, ...] = ()
    followers: tuple[TroubleDocument, ...]
    """Troubles that follow from the root cause."""
    others: tuple[TroubleDocument, ...]
    running: tuple[RunningDocument, ...]
    stopped: tuple[StoppedDocument, ...]
    handled: tuple[HandledDocument, ...]
    recovered: tuple[RecoveredDocument, ...]
    slow: tuple[SlowDocument, ...]
    clock: tuple[ClockDocument, ...]
    damaged: tuple[DamagedDocument, ...]
    stands_out: tuple[LogLineDocument, ...] = ()
    """The log lines to read first."""
    looked: LookedDocument | None = None
    """How much was read besides the records."""
    other_hosts: tuple[OtherHostDocument, ...] = ()
    """The other hosts in the source, if it has the logs of several."""
    weighed: tuple[WeighedDocument, ...] | None = None
    """With --explain: the rules that match."""


def analysis_document(
    diagnosis: Diagnosis,
    source: str,
    *,
    other_hosts: Sequence[tuple[str, Diagnosis]] = (),
    explains: bool = False,
) -> AnalysisDocument:
    """Return the document of `analyze --output json` and `yaml`; `explains` adds the rules that match."""
    looked = diagnosis.looked
    return AnalysisDocument(
        version=VERSION,
        source=source,
        verdict=diagnosis.verdict,
        says=verdict_sentence(diagnosis),
        root=_root_document(diagnosis),
        units_unknown=diagnosis.are_units_unknown,
        not_started=tuple(map(_not_started_document, diagnosis.not_started)),
        failed_units=tuple(map(_failed_unit_document, diagnosis.failed_units)),
        unrecorded=tuple(map(_unrecorded_document, diagnosis.unrecorded)),
        followers=tuple(map(_trouble_document, diagnosis.followers)),
        others=tuple(map(_trouble_document, diagnosis.others)),
        running=tuple(map(_running_document, diagnosis.running)),
        stopped=tuple(map(_stopped_document, diagnosis.stopped)),
        handled=tuple(map(_handled_document, diagnosis.handled)),
        recovered=tuple(
            RecoveredDocument(
                service=each.service,
                count=each.count,
                stage=each.last.in_stage,
                open=each.is_open,
                run=EndedRunDocument(**_run_fields(each.last)),
            )
            for each in diagnosis.recovered
        ),
        slow=tuple(
            SlowDocument(
                service=each.service,
                stage=each.stage,
                seconds=each.seconds,
                usual=each.usual,
                running=each.is_running,
            )
            for each in diagnosis.slow
        ),
        clock=tuple(map(_clock_document, diagnosis.clock)),
        damaged=tuple(
            DamagedDocument(
                service=each.service,
                pieces=each.pieces,
                line=each.line,
                lost=each.lost,
                empty=each.is_empty,
                unreadable=each.has_no_run,
                unfinished=each.is_unfinished,
            )
            for each in diagnosis.damaged
        ),
        stands_out=tuple(
            LogLineDocument(line=each.line, place=each.place, by=each.by, count=each.count)
            for each in diagnosis.stands_out
        ),
        looked=LookedDocument(files=looked.files, lines=looked.lines, kinds=tuple(sorted(looked.kinds)))
        if looked.files
        else None,
        other_hosts=tuple(
            OtherHostDocument(source=name, verdict=other.verdict, says=verdict_sentence(other))
            for name, other in other_hosts
        ),
        weighed=_weighed_documents(diagnosis.weighed) if explains else None,
    )


FINDINGS: Final = {
    "root": "root",
    "not_started": "not-started",
    "failed_units": "failed-unit",
    "unrecorded": "unrecorded",
    "followers": "follower",
    "others": "other",
    "running": "running",
    "stopped": "stopped",
    "handled": "handled",
    "recovered": "recovered",
    "slow": "slow",
    "clock": "clock",
    "damaged": "damaged",
    "other_hosts": "otherHost",
}
"""Field of the document -> `finding` of its lines, in the order of the lines."""


def analysis_lines(
    diagnosis: Diagnosis, source: str, *, other_hosts: Sequence[tuple[str, Diagnosis]] = ()
) -> Iterator[VerdictDocument | dict[str, Any]]:
    """Yield the documents of `--output jsonl`: the verdict first, then a line for each finding."""
    document = analysis_document(diagnosis, source, other_hosts=other_hosts)
    yield VerdictDocument(version=VERSION, source=source, verdict=document.verdict, says=document.says)
    for field, finding in FINDINGS.items():
        value = getattr(document, field)
        for each in value if isinstance(value, tuple) else [value] if value is not None else []:
            yield {"finding": finding} | msgspec.to_builtins(each)


class ShowWithUnitsDocument(ShowDocument, frozen=True, kw_only=True):
    failed_units: tuple["ShownUnitDocument", ...] = ()
    """Failed units whose records do not show it."""
    not_started: tuple[NotStartedDocument, ...] = ()
    unrecorded: tuple[UnrecordedDocument, ...] = ()


class ShownUnitDocument(ProgramDocument, frozen=True, kw_only=True):
    unit: str
    facts: FactsDocument | None = None


def add_units(document: ShowDocument, diagnosis: Diagnosis) -> ShowWithUnitsDocument:
    """Add the units that failed, did not start, or have no record, to the document of `show`."""
    return ShowWithUnitsDocument(
        **asdict(document),
        failed_units=tuple(
            ShownUnitDocument(unit=failed.unit.name, facts=facts_document(failed.unit.facts))
            for failed in diagnosis.failed_units
        ),
        not_started=tuple(map(_not_started_document, diagnosis.not_started)),
        unrecorded=tuple(map(_unrecorded_document, diagnosis.unrecorded)),
    )


def _root_document(
    diagnosis: Diagnosis,
) -> TroubleDocument | FailedUnitDocument | EvidenceRootDocument | None:
    if diagnosis.root is not None:
        return _trouble_document(diagnosis.root)
    host = diagnosis.host
    if host is not None:
        return EvidenceRootDocument(
            kind=diagnosis.verdict,
            service=host.service,
            says=host_sentence(host),
            cause=_cause_document(host.cause),
            next=host.cause.commands,
        )
    failed = next((one for one in diagnosis.failed_units if one.telling is not None), None)
    if failed is None:
        return None
    service = failed.unit.service or failed.unit.name
    return replace(_failed_unit_document(failed), kind=diagnosis.verdict, service=service)


def _weighed_documents(weighed: Mapping[str, Sequence[Weighed]]) -> tuple[WeighedDocument, ...]:
    return tuple(
        WeighedDocument(
            service=service,
            rule=one.rule,
            rank=one.rank,
            named=one.is_named,
            lost=one.lost,
            line=one.line,
            place=one.place,
        )
        for service, rules in weighed.items()
        for one in rules
    )


def _trouble_document(trouble: Trouble) -> TroubleDocument:
    loop, overrun = trouble.loop, trouble.overrun
    return TroubleDocument(
        kind=trouble.kind,
        service=trouble.service,
        stage=trouble.stage,
        command=trouble.run.in_command,
        says=trouble_sentence(trouble),
        since=utc_or_none(trouble.recorded_since),
        count=trouble.count,
        running=trouble.is_running,
        rebooted=trouble.is_rebooted,
        suppressed=trouble.suppressed,
        cause=_cause_document(trouble.cause) if trouble.cause else None,
        told=_told_document(trouble.telling),
        loop=LoopDocument(of=loop.of, count=loop.count, messages=loop.messages, boots=loop.boots)
        if loop
        else None,
        overrun=OverrunDocument(
            what=overrun.what,
            name=overrun.name,
            seconds=overrun.seconds,
            least=overrun.is_least,
            budget=_budget_document(overrun.budget),
        )
        if overrun
        else None,
        run=EndedRunDocument(**_run_fields(trouble.run)),
        facts=facts_document(trouble.facts),
        next=next_commands(trouble),
    )


def _cause_document(cause: KnownCause) -> CauseDocument:
    return CauseDocument(
        name=cause.name,
        says=cause.says,
        explains=cause.explains,
        symptom=cause.is_symptom,
        rank=cause.rank if cause.is_symptom else None,
        doubt=cause.doubt if cause.is_pointer else None,
        line=cause.line,
        place=cause.place,
    )


def _told_document(line: QuotedLine | None) -> ToldDocument | None:
    return None if line is None else ToldDocument(line=line.line, place=line.place)


def _failed_unit_document(failed: FailedUnit) -> FailedUnitDocument:
    unit, facts = failed.unit, failed.unit.facts
    return FailedUnitDocument(
        unit=unit.name,
        says=failed_unit_sentence(failed),
        result=facts.service_result,
        exit_code=facts.exit_code,
        signal=facts.signal,
        command=unit.command,
        since=utc_or_none(unit.since),
        required_by=unit.required_by,
        recorded=failed.recorded,
        cause=_cause_document(failed.cause) if failed.cause else None,
        told=_told_document(failed.telling),
        next=commands_for_unit(failed),
    )


def _not_started_document(one: NotStarted) -> NotStartedDocument:
    return NotStartedDocument(
        service=one.service,
        says=not_started_sentence(one),
        why=one.hindrance,
        by=one.by,
        chain=tuple(unit.name for unit in one.chain[1:]),
        detail=one.detail,
        pending=one.is_pending,
        next=commands_for_missing(one),
    )


def _unrecorded_document(one: Unrecorded) -> UnrecordedDocument:
    return UnrecordedDocument(
        unit=one.unit.name,
        says=unrecorded_sentence(one),
        active=one.unit.is_active,
        requires=tuple(unit.name for unit in one.chain),
    )


def _run_fields(run: Run) -> dict[str, Any]:
    """Return the fields of an EndedRunDocument."""
    return {
        "attempt": run.attempt,
        **span_fields(run),
        "last_entry": utc_or_none(run.last_entry),
        "boot_id": run.boot_id,
        "invocation_id": run.invocation_id,
        "pid": run.pid,
    }


def _earlier_run_document(run: Run | None) -> EarlierRunDocument | None:
    return None if run is None else EarlierRunDocument(**_run_fields(run), facts=facts_document(run.facts))


def _budget_document(budget: Budget) -> BudgetDocument:
    return BudgetDocument(
        seconds=budget.seconds, basis=budget.basis, executions=budget.executions, longest=budget.longest
    )


def _running_document(running: Running) -> RunningDocument:
    return RunningDocument(
        service=running.run.service,
        stage=running.stage,
        command=running.run.in_command,
        seconds=running.seconds,
        least=running.is_least,
        budget=_budget_document(running.budget) if running.budget else None,
        run=EndedRunDocument(**_run_fields(running.run)),
        before=_earlier_run_document(running.before),
    )


def _stopped_document(stopped: Stopped) -> StoppedDocument:
    run = stopped.run
    return StoppedDocument(
        service=run.service,
        stage=run.in_stage,
        command=run.in_command,
        run=EndedRunDocument(**_run_fields(run)),
        facts=facts_document(run.facts),
        bound_to=stopped.partner.name if stopped.partner else None,
        before=_earlier_run_document(stopped.before),
    )


def _handled_document(handled: Handled) -> HandledDocument:
    stage = handled.stage
    return HandledDocument(
        service=handled.run.service,
        stage=stage.name,
        command=handled.command.name if handled.command else None,
        says=handled_sentence(handled),
        count=handled.count,
        stages=handled.stages,
        started=utc_or_none(stage.started),
        ended=utc_or_none(stage.ended),
        run=EndedRunDocument(**_run_fields(handled.run)),
        facts=facts_document(stage.facts),
    )


def _clock_document(finding: ClockFinding) -> ClockDocument:
    match finding:
        case UnsetClock():
            return UnsetClockDocument(service=finding.service, time=utc(finding.time))
        case LocalTimes():
            offset = round(finding.utc_offset.total_seconds())
            return LocalTimesDocument(services=finding.services, utc_offset=offset)
        case BackwardBoot():
            return BackwardBootDocument(
                boot_id=finding.boot_id, time=utc(finding.time), earlier=utc(finding.earlier)
            )
        case _:
            return ClockStepDocument(
                boot_id=finding.boot_id,
                seconds=finding.seconds,
                uptime=finding.uptime,
                before=utc(finding.before),
                after=utc(finding.after),
            )

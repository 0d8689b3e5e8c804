"""A diagnosis as one plain document for programs; docs/analyze-document.md describes it field by field.

What is not known is left out. Times are UTC with milliseconds, durations seconds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from service_record.diagnosis.budget import Budget
from service_record.diagnosis.findings import (
    BackwardBoot,
    ClockFinding,
    Damaged,
    Diagnosis,
    FailedUnit,
    LocalTimes,
    NotStarted,
    Recovered,
    Running,
    Slow,
    Stopped,
    Trouble,
    Unrecorded,
    UnsetClock,
    commands_for_missing,
    commands_for_unit,
    next_commands,
)
from service_record.diagnosis.trouble_facts import KnownCause, Looked, Weighed
from service_record.display.machine import Document, facts_document, present, span_document
from service_record.display.sentences import (
    failed_unit_sentence,
    handled_sentence,
    host_sentence,
    not_started_sentence,
    trouble_sentence,
    unrecorded_sentence,
    verdict_sentence,
)
from service_record.display.text import utc
from service_record.history.outcome import Run
from service_record.history.results import Handled

_SCHEMA_VERSION: Final = 1


_NAMES_IN_LINES: Final = {
    "notStarted": "not-started",
    "failedUnits": "failed-unit",
    "followers": "follower",
    "others": "other",
}
"""Field of the document -> `finding` of a line, where these differ."""
_IF_ANY: Final = {"notStarted", "failedUnits", "unrecorded"}


def analysis_document(diagnosis: Diagnosis, source: str) -> Document:
    """Return the document of `analyze --output json` and `yaml`."""
    findings = _findings(diagnosis).items()
    return {
        **_head(diagnosis, source),
        **present(root=_root(diagnosis), unitsUnknown=diagnosis.are_units_unknown or None),
        **{name: documents for name, documents in findings if documents or name not in _IF_ANY},
        **present(standsOut=_stands_out(diagnosis), looked=_looked(diagnosis.looked)),
    }


def other_hosts_document(hosts: Iterable[tuple[str, Diagnosis]]) -> list[Document]:
    """Return the verdicts of the other hosts in the source."""
    return [
        {"source": source, "verdict": diagnosis.verdict.value, "says": verdict_sentence(diagnosis)}
        for source, diagnosis in hosts
    ]


def analysis_lines(diagnosis: Diagnosis, source: str) -> Iterator[Document]:
    """Yield the same as `--output jsonl` has it: the verdict first, then a line for each finding."""
    yield _head(diagnosis, source)
    root = _root(diagnosis)
    if root is not None:
        yield {"finding": "root", **root}
    for name, documents in _findings(diagnosis).items():
        yield from ({"finding": _NAMES_IN_LINES.get(name, name), **each} for each in documents)


def _findings(diagnosis: Diagnosis) -> dict[str, list[Document]]:
    return {
        "notStarted": list(map(_not_started, diagnosis.not_started)),
        "failedUnits": list(map(_failed_unit, diagnosis.failed_units)),
        "unrecorded": list(map(_unrecorded, diagnosis.unrecorded)),
        "followers": list(map(_trouble, diagnosis.followers)),
        "others": list(map(_trouble, diagnosis.others)),
        "running": list(map(_running, diagnosis.running)),
        "stopped": list(map(_stopped, diagnosis.stopped)),
        "handled": list(map(_handled, diagnosis.handled)),
        "recovered": list(map(_recovered, diagnosis.recovered)),
        "slow": list(map(_slow, diagnosis.slow)),
        "clock": list(map(_clock, diagnosis.clock)),
        "damaged": list(map(_damaged, diagnosis.damaged)),
    }


def _head(diagnosis: Diagnosis, source: str) -> Document:
    return {
        "version": _SCHEMA_VERSION,
        "source": source,
        "verdict": diagnosis.verdict.value,
        "says": verdict_sentence(diagnosis),
    }


def _root(diagnosis: Diagnosis) -> Document | None:
    """Return the root cause; without a trouble, what evidence alone shows."""
    failed = next((one for one in diagnosis.failed_units if one.telling is not None), None)
    if diagnosis.root is None and diagnosis.host is None and failed is not None:
        return {
            "kind": diagnosis.verdict.value,
            "service": failed.unit.service or failed.unit.name,
            **_failed_unit(failed),
        }
    if diagnosis.root is not None or diagnosis.host is None:
        return _trouble(diagnosis.root) if diagnosis.root is not None else None
    host = diagnosis.host
    return {
        "kind": diagnosis.verdict.value,
        "service": host.service,
        "says": host_sentence(host),
        "cause": _cause(host.cause),
        "next": list(host.cause.commands),
    }


def _stands_out(diagnosis: Diagnosis) -> list[Document] | None:
    """Return the log lines to read first."""
    return [
        present(line=told.line, place=told.place, by=told.by or None, count=told.count)
        for told in diagnosis.stands_out
    ] or None


def _looked(looked: Looked) -> Document | None:
    if not looked.files:
        return None
    return {"files": looked.files, "lines": looked.lines, "kinds": sorted(looked.kinds)}


def weighed_document(weighed: Mapping[str, Sequence[Weighed]]) -> list[Document]:
    """Return the rules that fitted, for each service, and why all but one of them lost."""
    return [
        present(
            service=service or None,
            rule=one.rule,
            rank=one.rank,
            named=one.is_named or None,
            lost=one.lost,
            line=one.line,
            place=one.place,
        )
        for service, all_of_it in weighed.items()
        for one in all_of_it
    ]


def _trouble(trouble: Trouble) -> Document:
    loop, overrun, cause = trouble.loop, trouble.overrun, trouble.cause
    return {
        "kind": trouble.kind.value,
        "service": trouble.service,
        **present(stage=trouble.stage, command=trouble.run.in_command),
        "says": trouble_sentence(trouble),
        **present(since=trouble.recorded_since and utc(trouble.recorded_since)),
        "count": trouble.count,
        **present(running=trouble.is_running or None, rebooted=trouble.is_rebooted or None),
        **present(suppressed=trouble.suppressed or None),
        **present(
            cause=cause and _cause(cause),
            told=trouble.telling and {"line": trouble.telling.line, "place": trouble.telling.place},
            loop=loop
            and {
                "of": loop.of.value,
                "count": loop.count,
                "messages": loop.messages,
                **present(boots=list(loop.boots) or None),
            },
            overrun=overrun
            and {
                "what": overrun.what,
                "name": overrun.name,
                "seconds": overrun.seconds,
                **present(least=overrun.is_least or None),
                "budget": _budget(overrun.budget),
            },
        ),
        "run": _run(trouble.run),
        **facts_document(trouble.facts),
        "next": list(next_commands(trouble)),
    }


def _cause(cause: KnownCause) -> Document:
    return present(
        name=cause.name,
        says=cause.says,
        explains=cause.explains,
        symptom=cause.is_symptom or None,
        rank=cause.rank if cause.is_symptom else None,
        doubt=cause.doubt if cause.is_pointer else None,
        line=cause.line,
        place=cause.place,
    )


def _failed_unit(failed: FailedUnit) -> Document:
    unit, facts = failed.unit, failed.unit.facts
    return {
        "unit": unit.name,
        "says": failed_unit_sentence(failed),
        **present(
            result=facts.service_result,
            exitCode=facts.exit_code,
            signal=facts.signal,
            command=unit.command,
            since=unit.since and utc(unit.since),
            requiredBy=list(unit.required_by) or None,
            recorded=failed.recorded and failed.recorded.value,
            cause=failed.cause and _cause(failed.cause),
            told=failed.telling and {"line": failed.telling.line, "place": failed.telling.place},
        ),
        "next": list(commands_for_unit(failed)),
    }


def _not_started(one: NotStarted) -> Document:
    return {
        "service": one.service,
        "says": not_started_sentence(one),
        "why": one.hindrance.value,
        **present(
            by=one.by,
            chain=[unit.name for unit in one.chain[1:]] or None,
            detail=one.detail or None,
            pending=one.is_pending or None,
        ),
        "next": list(commands_for_missing(one)),
    }


def unit_documents(diagnosis: Diagnosis) -> Document:
    """Return the units that did not start, and those without a record, for `show`."""
    return present(
        notStarted=list(map(_not_started, diagnosis.not_started)) or None,
        unrecorded=list(map(_unrecorded, diagnosis.unrecorded)) or None,
    )


def _unrecorded(one: Unrecorded) -> Document:
    return {
        "unit": one.unit.name,
        "says": unrecorded_sentence(one),
        "active": one.unit.is_active,
        **present(requires=[unit.name for unit in one.chain] or None),
    }


def _run(run: Run) -> Document:
    return {
        "attempt": run.attempt,
        **span_document(run),
        **present(lastEntry=run.last_entry and utc(run.last_entry)),
        **present(bootId=run.boot_id, invocationId=run.invocation_id, pid=run.pid),
    }


def _budget(budget: Budget) -> Document:
    return {
        "seconds": budget.seconds,
        "from": budget.basis.value,
        **present(executions=budget.executions or None, longest=budget.longest),
    }


def _running(running: Running) -> Document:
    return {
        "service": running.run.service,
        **present(
            stage=running.stage,
            command=running.run.in_command,
            seconds=running.seconds,
            least=running.is_least or None,
            budget=running.budget and _budget(running.budget),
        ),
        "run": _run(running.run),
        **_before(running.before),
    }


def _stopped(stopped: Stopped) -> Document:
    run = stopped.run
    return {
        "service": run.service,
        **present(stage=run.in_stage, command=run.in_command),
        "run": _run(run),
        **facts_document(run.facts),
        **present(boundTo=stopped.partner and stopped.partner.name),
        **_before(stopped.before),
    }


def _before(run: Run | None) -> Document:
    return present(before=run and {**_run(run), **facts_document(run.facts)})


def _handled(handled: Handled) -> Document:
    stage = handled.stage
    return {
        "service": handled.run.service,
        "stage": stage.name,
        **present(command=handled.command and handled.command.name),
        "says": handled_sentence(handled),
        "count": handled.count,
        "stages": handled.stages,
        **present(started=stage.started and utc(stage.started), ended=stage.ended and utc(stage.ended)),
        "run": _run(handled.run),
        **facts_document(stage.facts),
    }


def _recovered(recovered: Recovered) -> Document:
    return {
        "service": recovered.service,
        "count": recovered.count,
        **present(stage=recovered.last.in_stage, open=recovered.is_open or None),
        "run": _run(recovered.last),
    }


def _slow(slow: Slow) -> Document:
    return {
        "service": slow.service,
        **present(stage=slow.stage),
        "seconds": slow.seconds,
        "usual": slow.usual,
        **present(running=slow.is_running or None),
    }


def _damaged(damaged: Damaged) -> Document:
    return {
        "service": damaged.service,
        "pieces": damaged.pieces,
        **present(line=damaged.line, lost=damaged.lost or None, empty=damaged.is_empty or None),
        **present(unreadable=damaged.has_no_run or None, unfinished=damaged.is_unfinished or None),
    }


def _clock(finding: ClockFinding) -> Document:
    match finding:
        case UnsetClock():
            return {"what": "unset", "service": finding.service, "time": utc(finding.time)}
        case LocalTimes():
            offset = finding.utc_offset.total_seconds()
            return {"what": "local", "services": list(finding.services), "utcOffset": round(offset)}
        case BackwardBoot():
            times = {"time": utc(finding.time), "earlier": utc(finding.earlier)}
            return {"what": "back", "bootId": finding.boot_id, **times}
        case _:
            return {
                "what": "step",
                **present(bootId=finding.boot_id),
                "seconds": finding.seconds,
                "uptime": finding.uptime,
                "before": utc(finding.before),
                "after": utc(finding.after),
            }

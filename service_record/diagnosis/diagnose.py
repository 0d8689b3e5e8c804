"""The diagnosis of a host: each service judged, the boots together, and the root cause picked. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias, TypedDict

from service_record.diagnosis.budget import Budgets
from service_record.diagnosis.clock import clock_findings
from service_record.diagnosis.evidence import Evidence, KnownCause
from service_record.diagnosis.findings import (
    Damaged,
    Diagnosis,
    Loop,
    LoopOf,
    Recovered,
    Running,
    Stopped,
    Trouble,
    Verdict,
)
from service_record.diagnosis.loops import boot_loop, distinct_messages
from service_record.diagnosis.now import Now, boot_times, latest_entry
from service_record.diagnosis.services import Circumstances, judge
from service_record.diagnosis.slow import slow
from service_record.history import History, ServiceHistory
from service_record.history.handled import Handled, handled_failure
from service_record.history.outcome import Outcome, order

Explain: TypeAlias = Callable[[Evidence], KnownCause | None]


def diagnose(
    history: History,
    *,
    now: Now | None = None,
    budgets: Budgets | None = None,
    explain: Explain | None = None,
) -> Diagnosis | None:
    """What is wrong with the host whose history this is; None when its records have no run.

    `now` is the moment as of which running services are judged, by default that of the latest entry.
    `explain` knows causes; see `causes`.
    """
    around = Circumstances(now or latest_entry(history), budgets or Budgets(), history.latest_boot)
    services = [replace(service, runs=service.attempts) for service in history.services if service.runs]
    if not services:
        return None
    judged = [judge(service, around) for service in services]
    running = tuple(found for found in judged if isinstance(found, Running))
    stopped = tuple(found for found in judged if isinstance(found, Stopped))
    ahead = {service.name: service.utc_offset or timedelta() for service in services}
    troubles = [replace(found, ahead=ahead[found.service]) for found in judged if isinstance(found, Trouble)]
    troubles, past = _of_now(_with_boot_loop(troubles, history), running, around)
    baseline = around.budgets.baseline
    damaged = tuple(_damaged(history))
    return Diagnosis(
        **_ordered(
            _explained(troubles, explain),
            boot_times(history) if len(troubles) > 1 else {},
            without=_verdict_without_trouble(running, stopped, damaged),
        ),
        running=running,
        stopped=stopped,
        handled=tuple(_handled(services, judged)),
        recovered=(*(found for found in judged if isinstance(found, Recovered)), *map(_open, past)),
        slow=slow(services, baseline, around.now) if baseline else (),
        damaged=damaged,
        clock=clock_findings(history),
    )


class _Order(TypedDict):
    """The fields of a diagnosis that say which trouble is the root of which."""

    verdict: Verdict
    root: Trouble | None
    followers: tuple[Trouble, ...]
    others: tuple[Trouble, ...]


def _ordered(troubles: Iterable[Trouble], boots: Mapping[str | None, float], *, without: Verdict) -> _Order:
    """The root cause first: what is no symptom of something else, or the least, and of that the earliest.

    Without any trouble the verdict is the one given.
    """
    by_time = sorted(troubles, key=lambda trouble: _began(trouble, boots))
    if not by_time:
        return _Order(verdict=without, root=None, followers=(), others=())
    root = min(by_time, key=lambda trouble: (_is_symptom(trouble), _is_last(trouble)))
    rest = [trouble for trouble in by_time if trouble is not root]
    return _Order(
        verdict=root.kind,
        root=root,
        followers=tuple(trouble for trouble in rest if _follows(trouble, root)),
        others=tuple(trouble for trouble in rest if not _follows(trouble, root)),
    )


def _with_boot_loop(troubles: list[Trouble], history: History) -> list[Trouble]:
    """The troubles, that of the service that each boot ends in being the boot loop, when there is one."""
    ends = boot_loop(history)
    if not ends:
        return troubles
    last = ends[-1]
    loop = Trouble(
        kind=Verdict.LOOPING,
        service=last.service,
        run=last,
        facts=last.facts,
        stage=last.in_stage,
        since=ends[0].last_entry,
        loop=Loop(
            of=LoopOf.BOOTS,
            count=len(ends),
            messages=distinct_messages(run.facts.message for run in ends),
            boots=tuple(run.boot_id for run in ends if run.boot_id is not None),
        ),
        is_rebooted=last.outcome is Outcome.INTERRUPTED and last.boot_id != history.latest_boot,
    )
    return [loop, *(trouble for trouble in troubles if trouble.service != last.service)]


def _of_now(
    troubles: Iterable[Trouble], running: tuple[Running, ...], around: Circumstances
) -> tuple[list[Trouble], list[Trouble]]:
    """The troubles that count, and those of earlier boots that may come again while the latest goes on."""
    goes_on = any(found.run.boot_id == around.latest_boot for found in running)
    counting: list[Trouble] = []
    past: list[Trouble] = []
    for trouble in troubles:
        is_boot_loop = trouble.loop is not None and trouble.loop.of is LoopOf.BOOTS
        is_of_now = trouble.run.boot_id in {None, around.latest_boot}
        (counting if is_of_now or is_boot_loop or not goes_on else past).append(trouble)
    return counting, past


def _handled(services: Iterable[ServiceHistory], judged: Iterable[object]) -> Iterator[Handled]:
    """Yield the failures that the latest runs continued after; not of runs that failed or loop."""
    for service, found in zip(services, judged, strict=True):
        is_loop = isinstance(found, Trouble) and found.kind is Verdict.LOOPING
        run = service.runs[-1]
        handled = None if is_loop or run.outcome.is_bad else handled_failure(run)
        if handled is not None:
            yield handled


def _open(trouble: Trouble) -> Recovered:
    return Recovered(service=trouble.service, count=trouble.count, last=trouble.run, is_open=True)


def _explained(troubles: Iterable[Trouble], explain: Explain | None) -> list[Trouble]:
    if explain is None:
        return list(troubles)
    return [replace(trouble, cause=explain(evidence_of(trouble))) for trouble in troubles]


def evidence_of(trouble: Trouble) -> Evidence:
    """What a rule of known causes is held against."""
    kinds = {f"{trouble.loop.of}-loop" if trouble.loop else str(trouble.kind)}
    if trouble.is_rebooted:
        kinds = kinds - {"interrupted"} | {"rebooted"}
    return Evidence(
        kinds=frozenset(kinds),
        service=trouble.service,
        stage=trouble.stage,
        invocation_id=trouble.run.invocation_id,
        facts=trouble.facts,
    )


def _began(trouble: Trouble, boots: Mapping[str | None, float]) -> float:
    """When a trouble began, by the uptime of its boot, which no step of the clock touches."""
    boot = boots.get(trouble.run.boot_id)
    if boot is None or trouble.since_uptime is None:
        return order(trouble.since)
    return boot + trouble.since_uptime


def _is_symptom(trouble: Trouble) -> bool:
    """Waiting too long, and what a rule knows as a symptom, mostly come of something that failed."""
    if trouble.cause is not None and trouble.cause.is_symptom:
        return True
    return trouble.kind is Verdict.STUCK


def _is_last(trouble: Trouble) -> bool:
    """What waits for the API begins to wait early, and waits for whatever keeps the API from coming up."""
    return trouble.cause is not None and trouble.cause.is_last


def _follows(trouble: Trouble, root: Trouble) -> bool:
    """Whether the root may explain a trouble: one whose own cause is unknown, or with the same."""
    if trouble.cause is None or _is_symptom(trouble):
        return True
    return root.cause is not None and root.cause.name == trouble.cause.name


def _verdict_without_trouble(
    running: Sequence[Running], stopped: Sequence[Stopped], damaged: Iterable[Damaged]
) -> Verdict:
    if running:
        return Verdict.RUNNING
    if any(one.has_no_run for one in damaged):
        return Verdict.UNKNOWN
    return Verdict.STOPPED if stopped else Verdict.SUCCEEDED


def _damaged(history: History) -> Iterator[Damaged]:
    for service in history.services:
        lost = sum(run.dropped for run in service.runs.heads)
        is_empty = service.has_no_run and not service.malformed
        if service.malformed or lost or is_empty or service.is_unfinished:
            yield Damaged(
                service=service.name,
                pieces=service.damaged_pieces,
                line=service.malformed[0].line if service.malformed else None,
                lost=lost,
                is_empty=is_empty,
                has_no_run=service.has_no_run,
                is_unfinished=service.is_unfinished,
            )

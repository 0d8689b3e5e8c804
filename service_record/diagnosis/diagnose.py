"""Diagnose a host by its history: judge its services, clock and boots, and choose the root cause. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, TypeAlias

from msgspec.structs import replace

from service_record.diagnosis.budget import Budgets
from service_record.diagnosis.comparison import find_slow
from service_record.diagnosis.findings import (
    BackwardBoot,
    ClockFinding,
    Damaged,
    Diagnosis,
    KnownCause,
    LocalTimes,
    Loop,
    LoopOf,
    Recovered,
    Running,
    Stopped,
    Trouble,
    TroubleFacts,
    UnsetClock,
    Verdict,
)
from service_record.diagnosis.services import (
    JudgingContext,
    count_distinct_messages,
    find_boot_loop,
    judge_service,
)
from service_record.diagnosis.units import often_fails
from service_record.history import History
from service_record.history.build import Now, boot_times, latest_entry
from service_record.history.outcome import JOURNAL_RECORDER, Outcome, order
from service_record.history.results import Handled, handled_failure

LEAST_STEP_SECONDS: Final = 10.0
"""Smaller steps of the clock are normal when a time service starts, and harmless."""
_FORMAT_EXISTS_SINCE: Final = datetime(2021, 1, 1, tzinfo=UTC)
"""The format of records was created in this year. Earlier times come from an unset clock."""
_JOURNALS_EXIST_SINCE: Final = datetime(2011, 1, 1, tzinfo=UTC)
"""The same for runs derived from journals and logs, which may be old."""


def find_clock_findings(history: History) -> tuple[ClockFinding, ...]:
    """Return local times, unset clocks, steps of the clock, and boots dated before their previous boot."""
    steps = (step for step in history.clock_steps if abs(step.seconds) >= LEAST_STEP_SECONDS)
    return (*_find_local_times(history), *_find_unset_clocks(history), *steps, *_find_backward_boots(history))


def _find_local_times(history: History) -> Iterator[LocalTimes]:
    """Yield services with local times, grouped by UTC offset. Joined hosts can have several offsets."""
    zones: dict[timedelta, list[str]] = {}
    for service in history.services:
        if service.utc_offset is not None:
            zones.setdefault(service.utc_offset, []).append(service.name)
    for offset, services in zones.items():
        yield LocalTimes(services=tuple(services), utc_offset=offset)


def _find_unset_clocks(history: History) -> Iterator[UnsetClock]:
    for service in history.services:
        unset = [
            run.first_entry
            for run in service.runs
            if run.first_entry is not None
            and run.first_entry < (_JOURNALS_EXIST_SINCE if run.is_derived else _FORMAT_EXISTS_SINCE)
        ]
        if unset:
            yield UnsetClock(service=service.name, time=unset[-1])


def _find_backward_boots(history: History) -> Iterator[BackwardBoot]:
    """Yield boots that are dated before the previous boot. Records have boots in their true order."""
    if len(history.boots) <= 1:
        return
    first: dict[str, datetime] = {}
    for service in history.services:
        for run in service.runs:
            if run.boot_id is not None and run.first_entry is not None:
                first[run.boot_id] = min(run.first_entry, first.get(run.boot_id, run.first_entry))
    starts = [(boot_id, first[boot_id]) for boot_id in history.boots if boot_id in first]
    for (_, before), (boot_id, after) in pairwise(starts):
        if after < before:
            yield BackwardBoot(boot_id=boot_id, time=after, earlier=before)


Explain: TypeAlias = Callable[[TroubleFacts], KnownCause | None]
"""Returns the known cause of a trouble, such as `causes.Causes.explain`."""


def diagnose(
    history: History,
    *,
    now: Now | None = None,
    budgets: Budgets | None = None,
    explain: Explain | None = None,
) -> Diagnosis | None:
    """Diagnose the host with this history; None if there is no run.

    Running services are judged as of `now`, by default the time of the latest entry. `explain` finds the
    cause of a trouble.
    """
    context = JudgingContext(now or latest_entry(history), budgets or Budgets(), history.latest_boot)
    services = [replace(service, runs=service.attempts) for service in history.services if service.runs]
    if not services:
        return None
    troubles: list[Trouble] = []
    running: list[Running] = []
    stopped: list[Stopped] = []
    recovered: list[Recovered] = []
    handled: list[Handled] = []
    for service in services:
        run = service.runs[-1]
        judgement = judge_service(service, context)
        match judgement:
            case Trouble():
                troubles.append(replace(judgement, ahead=service.utc_offset or timedelta()))
            # A daemon known only from a journal is not expected to end.
            case Running() if judgement.run.recorder != JOURNAL_RECORDER:
                running.append(judgement)
            case Stopped() if judgement.run.recorder != JOURNAL_RECORDER:
                stopped.append(judgement)
            case Recovered():
                recovered.append(judgement)
        is_loop = isinstance(judgement, Trouble) and judgement.kind is Verdict.LOOPING
        survived = None if is_loop or run.outcome.is_bad else handled_failure(run)
        if survived is not None:
            handled.append(survived)
    troubles, past = _split_past(_add_boot_loop(troubles, history), running, context)
    if explain is not None:
        troubles = [replace(one, cause=explain(make_trouble_facts(one))) for one in troubles]
    # Units that fail on many healthy hosts are no trouble, unless a cause is certain.
    minor = [one for one in troubles if _is_unexplained_unit(one) and often_fails(f"{one.service}.service")]
    damaged = tuple(_find_damaged(history))
    latest = [service.runs[-1] for service in services]
    unclear = tuple(run.service for run in latest if run.is_derived and run.has_unclear_end)
    boots = boot_times(history) if len(troubles) > 1 else {}
    root, rest = _choose_root([one for one in troubles if one not in minor], boots)
    baseline = context.budgets.baseline
    return Diagnosis(
        verdict=_verdict_without_trouble(running, stopped, damaged, unclear) if root is None else root.kind,
        root=root,
        followers=tuple(one for one in rest if root is not None and _follows(one, root)),
        others=tuple(one for one in rest if root is not None and not _follows(one, root)),
        unclear=unclear,
        running=tuple(running),
        stopped=tuple(stopped),
        minor=tuple(one.service for one in minor),
        handled=tuple(handled),
        recovered=(
            *recovered,
            *(Recovered(service=one.service, count=one.count, last=one.run, is_open=True) for one in past),
        ),
        slow=find_slow(services, baseline, context.now) if baseline else (),
        damaged=damaged,
        clock=find_clock_findings(history),
    )


def _choose_root(
    troubles: Iterable[Trouble], boots: Mapping[str | None, float]
) -> tuple[Trouble | None, list[Trouble]]:
    """Return the root cause, which is the earliest trouble that is not a symptom, and the others by time.

    A failure is never explained by a later one, even if only the later one left a message. Waiting services
    and known symptoms can begin before their cause. Most units in a journal are unrelated, so the first one
    with a certain cause is the root.
    """

    def start(trouble: Trouble) -> float:
        """Return the start in seconds, by uptime if known: clock steps do not change it."""
        boot = boots.get(trouble.run.boot_id)
        if boot is None or trouble.since_uptime is None:
            return order(trouble.since)
        return boot + trouble.since_uptime

    def rank(trouble: Trouble) -> tuple[bool, bool, bool]:
        is_last_choice = trouble.cause is not None and trouble.cause.is_last
        return _is_symptom(trouble), is_last_choice, _is_unexplained_unit(trouble)

    by_time = sorted(troubles, key=start)
    root = min(by_time, key=rank, default=None)
    return root, [trouble for trouble in by_time if trouble is not root]


def _add_boot_loop(troubles: list[Trouble], history: History) -> list[Trouble]:
    """If there is a boot loop, replace the trouble of the service that ended the boots by it."""
    ends = find_boot_loop(history)
    if not ends:
        return troubles
    last = ends[-1]
    offsets = {service.name: service.utc_offset for service in history.services}
    ahead = offsets.get(last.service) or timedelta()
    since = ends[0].last_entry
    loop = Trouble(
        kind=Verdict.LOOPING,
        service=last.service,
        run=last,
        facts=last.facts,
        stage=last.in_stage,
        since=since and since - ahead,
        ahead=ahead,
        loop=Loop(
            of=LoopOf.BOOTS,
            count=len(ends),
            messages=count_distinct_messages(run.facts.message for run in ends),
            boots=tuple(run.boot_id for run in ends if run.boot_id is not None),
        ),
        is_rebooted=last.outcome is Outcome.INTERRUPTED and last.boot_id != history.latest_boot,
    )
    return [loop, *(trouble for trouble in troubles if trouble.service != last.service)]


def _split_past(
    troubles: Iterable[Trouble], running: Iterable[Running], context: JudgingContext
) -> tuple[list[Trouble], list[Trouble]]:
    """Return the current troubles, and troubles of earlier boots whose services may still run again.

    The second list is empty unless a service is running in the latest boot.
    """
    goes_on = any(each.run.boot_id == context.latest_boot for each in running)
    counting: list[Trouble] = []
    past: list[Trouble] = []
    for trouble in troubles:
        is_boot_loop = trouble.loop is not None and trouble.loop.of is LoopOf.BOOTS
        is_of_now = trouble.run.boot_id in {None, context.latest_boot}
        (counting if is_of_now or is_boot_loop or not goes_on else past).append(trouble)
    return counting, past


def make_trouble_facts(trouble: Trouble) -> TroubleFacts:
    """Return the facts of a trouble that rules are tested against, with times corrected to true time."""
    kinds = {f"{trouble.loop.of}-loop" if trouble.loop else str(trouble.kind)}
    if trouble.is_rebooted:
        kinds = kinds - {"interrupted"} | {"rebooted"}
    run = trouble.run
    begun = run.started or run.first_entry
    run_started = begun and begun - trouble.ahead
    booted = None
    if run_started is not None and run.uptime is not None:
        booted = run_started - timedelta(seconds=run.uptime)
    return TroubleFacts(
        kinds=frozenset(kinds),
        service=trouble.service,
        stage=trouble.stage,
        invocation_id=run.invocation_id,
        facts=trouble.facts,
        booted=booted,
        started=min((one for one in (run_started, trouble.since) if one is not None), default=None),
        run_started=run_started,
        ended=run.ended and run.ended - trouble.ahead,
    )


def _is_symptom(trouble: Trouble) -> bool:
    """Return True for a stuck service, a symptom or a contributing cause: most follow another failure."""
    if trouble.cause is not None and trouble.cause.rank in {"symptom", "contributing"}:
        return True
    return trouble.kind is Verdict.STUCK


def _is_unexplained_unit(trouble: Trouble) -> bool:
    """Return True for a unit from a journal without a certain cause."""
    return trouble.run.is_derived and (trouble.cause is None or not trouble.cause.is_cause)


def _follows(trouble: Trouble, root: Trouble) -> bool:
    """Return True if the root may explain a trouble: its cause is unknown, a symptom, or the same."""
    if trouble.cause is None or _is_symptom(trouble):
        return True
    return root.cause is not None and root.cause.name == trouble.cause.name


def _verdict_without_trouble(
    running: Sequence[Running], stopped: Sequence[Stopped], damaged: Iterable[Damaged], unclear: Sequence[str]
) -> Verdict:
    if running:
        return Verdict.RUNNING
    if unclear or any(one.has_no_run for one in damaged):
        return Verdict.UNKNOWN
    return Verdict.STOPPED if stopped else Verdict.SUCCEEDED


def _find_damaged(history: History) -> Iterator[Damaged]:
    for service in history.services:
        lost = sum(run.dropped for run in service.runs)
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

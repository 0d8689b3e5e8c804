"""Diagnose a host by its history: judge its services, clock and boots, and choose the root cause. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, TypeAlias, TypedDict

from msgspec.structs import replace

from service_record.diagnosis.budget import Budgets, durations, runs_of
from service_record.diagnosis.failures import boot_loop, distinct_messages
from service_record.diagnosis.findings import (
    BackwardBoot,
    ClockFinding,
    Damaged,
    Diagnosis,
    LocalTimes,
    Loop,
    LoopOf,
    Recovered,
    Running,
    Slow,
    Stopped,
    Trouble,
    UnsetClock,
    Verdict,
)
from service_record.diagnosis.services import JudgingContext, judge, running_spans
from service_record.diagnosis.trouble_facts import KnownCause, TroubleFacts
from service_record.diagnosis.units import often_fails
from service_record.history import History, ServiceHistory
from service_record.history.build import Now, boot_times, latest_entry
from service_record.history.from_journal import RECORDER
from service_record.history.outcome import Outcome, Run, Stage, order
from service_record.history.results import Handled, handled_failure

LEAST_STEP_SECONDS: Final = 10.0
"""Smaller steps of the clock are normal when a time service starts, and harmless."""
_FORMAT_EXISTS_SINCE: Final = datetime(2021, 1, 1, tzinfo=UTC)
"""The format of records was created in this year. Earlier times come from an unset clock."""
_JOURNALS_EXIST_SINCE: Final = datetime(2011, 1, 1, tzinfo=UTC)
"""The same for runs derived from journals and logs, which may be old."""


def clock_findings(history: History) -> tuple[ClockFinding, ...]:
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


TIMES_USUAL: Final = 2.0
LEAST_SECONDS: Final = 5.0
"""Both limits must be exceeded: neither twice a short moment nor five seconds in an hour is slow."""


def find_slow(services: Iterable[ServiceHistory], baseline: History, now: Now) -> tuple[Slow, ...]:
    """Return the slow stages, then the slow whole runs, of each service's latest run; the slowest first."""
    slow_ones = [slow for service in services for slow in _compare_with_baseline(service, baseline, now)]
    return tuple(sorted(slow_ones, key=lambda slow: slow.usual - slow.seconds))


def _compare_with_baseline(service: ServiceHistory, baseline: History, now: Now) -> Iterator[Slow]:
    run = service.runs[-1]
    good = runs_of(baseline, service.name)
    took = durations(good)
    for name, (seconds, is_running) in _longest_executions(run, service, now).items():
        usual = max(took.get(name, ()), default=None)
        if usual is not None and _is_slow(seconds, usual):
            yield Slow(service=service.name, stage=name, seconds=seconds, usual=usual, is_running=is_running)
    whole = [one.duration for one in good if one.outcome is Outcome.SUCCESS and one.duration is not None]
    if run.duration is not None and whole and _is_slow(run.duration, max(whole)):
        yield Slow(service=service.name, stage=None, seconds=run.duration, usual=max(whole), is_running=False)


def _longest_executions(run: Run, service: ServiceHistory, now: Now) -> dict[str, tuple[float, bool]]:
    """Return stage -> the seconds of its longest execution, and whether it is still running."""
    longest: dict[str, tuple[float, bool]] = {}
    durations = [(stage.name, stage.duration, False) for stage in run.stages]
    durations += [
        (span.name, now.since(span, run, service), True)
        for span in running_spans(run)
        if isinstance(span, Stage)
    ]
    for name, seconds, is_running in durations:
        if seconds is not None and seconds > longest.get(name, (-1.0, False))[0]:
            longest[name] = (seconds, is_running)
    return longest


def _is_slow(seconds: float, usual: float) -> bool:
    return seconds > TIMES_USUAL * usual and seconds > usual + LEAST_SECONDS


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
    judged = [judge(service, context) for service in services]
    running = tuple(
        judgement
        for judgement in judged
        # A daemon known only from a journal is not expected to end.
        if isinstance(judgement, Running) and judgement.run.recorder != RECORDER
    )
    stopped = tuple(
        judgement
        for judgement in judged
        if isinstance(judgement, Stopped) and judgement.run.recorder != RECORDER
    )
    ahead = {service.name: service.utc_offset or timedelta() for service in services}
    troubles = [
        replace(judgement, ahead=ahead[judgement.service])
        for judgement in judged
        if isinstance(judgement, Trouble)
    ]
    troubles, past = _split_past(_add_boot_loop(troubles, history), running, context)
    explained = _add_causes(troubles, explain)
    minor = [trouble for trouble in explained if _is_minor(trouble)]
    baseline = context.budgets.baseline
    damaged = tuple(_find_damaged(history))
    latest = (service.runs[-1] for service in services)
    unclear = tuple(run.service for run in latest if run.is_derived and run.has_unclear_end)
    return Diagnosis(
        **_order_troubles(
            [trouble for trouble in explained if trouble not in minor],
            boot_times(history) if len(troubles) > 1 else {},
            without=_verdict_without_trouble(running, stopped, damaged, unclear),
        ),
        unclear=unclear,
        running=running,
        stopped=stopped,
        minor=tuple(trouble.service for trouble in minor),
        handled=tuple(_find_handled(services, judged)),
        recovered=(
            *(judgement for judgement in judged if isinstance(judgement, Recovered)),
            *map(_make_open, past),
        ),
        slow=find_slow(services, baseline, context.now) if baseline else (),
        damaged=damaged,
        clock=clock_findings(history),
    )


class _Order(TypedDict):
    """The fields of a diagnosis with its troubles in order."""

    verdict: Verdict
    root: Trouble | None
    followers: tuple[Trouble, ...]
    others: tuple[Trouble, ...]


def _order_troubles(
    troubles: Iterable[Trouble], boots: Mapping[str | None, float], *, without: Verdict
) -> _Order:
    """Return the troubles with the root cause first: the earliest that is not a symptom.

    A failure is never explained by a later one, even if only the later one left a message. Waiting services
    and known symptoms can begin before their cause. Most units in a journal are unrelated, so the first one
    with a certain cause is the root. Without any trouble, the verdict is `without`.
    """
    by_time = sorted(troubles, key=lambda trouble: _start_order(trouble, boots))
    if not by_time:
        return _Order(verdict=without, root=None, followers=(), others=())
    root = min(
        by_time, key=lambda trouble: (_is_symptom(trouble), _is_last(trouble), _is_unexplained_unit(trouble))
    )
    rest = [trouble for trouble in by_time if trouble is not root]
    return _Order(
        verdict=root.kind,
        root=root,
        followers=tuple(trouble for trouble in rest if _follows(trouble, root)),
        others=tuple(trouble for trouble in rest if not _follows(trouble, root)),
    )


def _add_boot_loop(troubles: list[Trouble], history: History) -> list[Trouble]:
    """If there is a boot loop, replace the trouble of the service that ended the boots by it."""
    ends = boot_loop(history)
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
            messages=distinct_messages(run.facts.message for run in ends),
            boots=tuple(run.boot_id for run in ends if run.boot_id is not None),
        ),
        is_rebooted=last.outcome is Outcome.INTERRUPTED and last.boot_id != history.latest_boot,
    )
    return [loop, *(trouble for trouble in troubles if trouble.service != last.service)]


def _split_past(
    troubles: Iterable[Trouble], running: tuple[Running, ...], context: JudgingContext
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


def _find_handled(services: Iterable[ServiceHistory], judged: Iterable[object]) -> Iterator[Handled]:
    """Yield failed stages after which a latest run continued, except in runs that failed or loop."""
    for service, judgement in zip(services, judged, strict=True):
        is_loop = isinstance(judgement, Trouble) and judgement.kind is Verdict.LOOPING
        run = service.runs[-1]
        handled = None if is_loop or run.outcome.is_bad else handled_failure(run)
        if handled is not None:
            yield handled


def _make_open(trouble: Trouble) -> Recovered:
    return Recovered(service=trouble.service, count=trouble.count, last=trouble.run, is_open=True)


def _add_causes(troubles: Iterable[Trouble], explain: Explain | None) -> list[Trouble]:
    if explain is None:
        return list(troubles)
    return [replace(trouble, cause=explain(make_trouble_facts(trouble))) for trouble in troubles]


def make_trouble_facts(trouble: Trouble) -> TroubleFacts:
    """Return the facts of a trouble that rules are tested against."""
    kinds = {f"{trouble.loop.of}-loop" if trouble.loop else str(trouble.kind)}
    if trouble.is_rebooted:
        kinds = kinds - {"interrupted"} | {"rebooted"}
    return TroubleFacts(
        kinds=frozenset(kinds),
        service=trouble.service,
        stage=trouble.stage,
        invocation_id=trouble.run.invocation_id,
        facts=trouble.facts,
        **_trouble_times(trouble),
    )


class _Times(TypedDict):
    """The fields of `TroubleFacts` with times."""

    booted: datetime | None
    started: datetime | None
    run_started: datetime | None
    ended: datetime | None


def _trouble_times(trouble: Trouble) -> _Times:
    """Return the times of a trouble, corrected to true time. `ended` is None if the end was not recorded."""
    run = trouble.run
    begun = run.started or run.first_entry
    started = begun and begun - trouble.ahead
    uptime = run.uptime
    times = [time for time in (started, trouble.since) if time is not None]
    return _Times(
        booted=started - timedelta(seconds=uptime) if started is not None and uptime is not None else None,
        started=min(times, default=None),
        run_started=started,
        ended=run.ended and run.ended - trouble.ahead,
    )


def _start_order(trouble: Trouble, boots: Mapping[str | None, float]) -> float:
    """Return the start of a trouble in seconds, by uptime if known: clock steps do not change it."""
    boot = boots.get(trouble.run.boot_id)
    if boot is None or trouble.since_uptime is None:
        return order(trouble.since)
    return boot + trouble.since_uptime


def _is_symptom(trouble: Trouble) -> bool:
    """Return True for a stuck service, a symptom or a contributing cause: most follow another failure."""
    if trouble.cause is not None and trouble.cause.rank in {"symptom", "contributing"}:
        return True
    return trouble.kind is Verdict.STUCK


def _is_last(trouble: Trouble) -> bool:
    """Return True if the trouble is the last choice for the root cause, such as a wait for the API."""
    return trouble.cause is not None and trouble.cause.is_last


def _is_minor(trouble: Trouble) -> bool:
    """Return True for a unit from a journal that fails on many healthy hosts, if its cause is not certain."""
    return _is_unexplained_unit(trouble) and often_fails(f"{trouble.service}.service")


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

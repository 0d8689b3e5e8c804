"""The progress of a build, in a size that does not grow with the number of its steps.

Repeated rounds of reports, which a host in a loop sends, are listed once with their number.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.http.collector_answers import Repeated

COMPLETE: Final = 100.0
"""Per cent."""
_MOST_LABELS: Final = 256
_MOST_BOOTS: Final = 32
_SECONDS_AFTER_END: Final = 3600.0
"""New steps within this number of seconds after the end of a complete build still belong to it."""


class StepFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that failed."""

    label: str
    name: str
    at: float
    logs: str = ""
    count: int = 1
    """The number of times that the step has failed in this build."""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A build so far. Times are the collector's, in seconds since 1970."""

    number: int
    """1 is the first build of a host."""
    started_at: float
    updated_at: float
    key: str = ""
    """The name of the build, as the template reports it; empty if it has none."""
    action: str = ""
    label: str = ""
    """The label of the latest step."""
    name: str = ""
    status: StepStatus = StepStatus.REPORTED
    boot_id: str = ""
    """The latest reported boot."""
    percentage: float | None = None
    """The latest reported percentage; 100 once the build is complete."""
    farthest: float = 0.0
    """The highest reported percentage."""
    fresh_at: float = 0.0
    """The time of the last progress: a report that is new in this build."""
    fresh_name: str = ""
    """The name of the step in that report."""
    open: dict[str, float] = {}
    """Label -> start time of each unfinished step."""
    seen: dict[str, int] = {}
    """Label and status -> number of reports."""
    repeats: dict[str, int] = {}
    """Label -> number of restarts of the step since the last progress."""
    again_name: str = ""
    """The step with the most restarts."""
    boots: tuple[str, ...] = ()
    """Boot ids since the last progress, in order."""
    failure: StepFailure | None = None
    """The latest failure, unless that step was done later."""
    ended_at: float | None = None
    """The time at which the build was complete. It stays complete until another build begins."""

    @property
    def again(self) -> int:
        """Return the highest number of restarts of one step since the build last made progress."""
        return max(self.repeats.values(), default=0)


class StepFinished(msgspec.Struct, frozen=True):
    """A step that a report finished."""

    label: str
    status: StepStatus
    seconds: float | None
    """The duration, or None if the start was not reported."""
    logs: str


def begins_build(progress: Progress | None, step: ReportedStep, now: float) -> bool:
    """Return True if a step begins a new build of a host, rather than a retry.

    It does if its build name or action differs from the present build. It also does if the present build is
    complete and already had this step, except for the step that completed it. A step that is new to a
    complete build, such as a first boot, belongs to that build for an hour.
    """
    if progress is None:
        return True
    if step.build and progress.key:
        return step.build != progress.key
    if step.action and progress.action and step.action != progress.action:
        return True
    if progress.ended_at is None or _completes(step) or step.label == progress.label:
        return False
    is_known = any(f"{step.label}:{status}" in progress.seen for status in StepStatus)
    return is_known or now - progress.ended_at > _SECONDS_AFTER_END


def begin_progress(step: ReportedStep, number: int, now: float) -> Progress:
    """Return the progress of a new build. Call `advance` with the step afterwards."""
    return Progress(
        number=number, started_at=now, updated_at=now, key=step.build, action=step.action, fresh_at=now
    )


def advance(progress: Progress, step: ReportedStep, now: float, *, is_last: bool = False) -> Progress:
    """Return the progress after a report.

    `is_last`: an operator defined this step as the last one.
    """
    report = f"{step.label}:{step.status}"
    # Progress is a report that is new in this build, or a higher percentage.
    is_further = report not in progress.seen or (step.percentage or 0.0) > progress.farthest
    repeats = {} if is_further else _count_restarts(progress, step)
    is_most = bool(repeats) and repeats.get(step.label) == max(repeats.values())
    is_complete = _completes(step) or (is_last and step.status is StepStatus.DONE)
    ended_at = now if progress.ended_at is None and is_complete else progress.ended_at
    percentage = progress.percentage if step.percentage is None else step.percentage
    return msgspec.structs.replace(
        progress,
        updated_at=max(now, progress.updated_at),
        key=step.build or progress.key,
        action=step.action or progress.action,
        label=step.label,
        name=step.name,
        status=step.status,
        boot_id=step.boot_id or progress.boot_id,
        percentage=percentage if ended_at is None else COMPLETE,
        farthest=max(progress.farthest, step.percentage or 0.0),
        fresh_at=max(now, progress.fresh_at) if is_further else progress.fresh_at,
        fresh_name=step.name if is_further else progress.fresh_name,
        open=_open(progress, step, now),
        seen=_increment(progress.seen, report),
        repeats=repeats,
        again_name=step.name if is_most else progress.again_name,
        boots=_boots_since_progress(progress, step, is_further=is_further),
        failure=_failure(progress, step, now),
        ended_at=ended_at,
    )


def list_finished_steps(progress: Progress, step: ReportedStep, now: float) -> tuple[StepFinished, ...]:
    """Return the steps that a report finishes, given the progress before it.

    These are the step whose end is reported, and a previous step that was reported without a status: it
    lasted until this report.
    """
    finished = []
    if progress.label and progress.status is StepStatus.REPORTED and progress.label != step.label:
        finished.append(
            StepFinished(progress.label, StepStatus.REPORTED, _seconds_since(progress.updated_at, now), "")
        )
    if step.status in {StepStatus.DONE, StepStatus.FAILED}:
        since = progress.open.get(step.label)
        finished.append(StepFinished(step.label, step.status, _seconds_since(since, now), step.logs))
    return tuple(finished)


def _seconds_since(since: float | None, now: float) -> float | None:
    """Return the seconds since a time; None if it is unknown or the clock was set back."""
    return None if since is None or now < since else now - since


def _completes(step: ReportedStep) -> bool:
    return step.percentage == COMPLETE and step.status in {StepStatus.DONE, StepStatus.REPORTED}


def _open(progress: Progress, step: ReportedStep, now: float) -> dict[str, float]:
    if step.status is StepStatus.REPORTED:  # progress within a step, which stays open
        return progress.open
    rest = {label: since for label, since in progress.open.items() if label != step.label}
    if step.status is StepStatus.INIT and len(rest) < _MOST_LABELS:
        rest[step.label] = now
    return rest


def _increment(counts: dict[str, int], report: str) -> dict[str, int]:
    if report not in counts and len(counts) >= _MOST_LABELS:
        return counts
    return {**counts, report: counts.get(report, 0) + 1}


def _count_restarts(progress: Progress, step: ReportedStep) -> dict[str, int]:
    """Return the number of restarts of each step, with this report.

    The end of an open step is not a restart. Nor is a repeated `done` or a repeated report without a status:
    templates repeat these in case one was lost, or to show that the host is alive.
    """
    is_same = (step.label, step.status) == (progress.label, progress.status)
    is_same = is_same and step.boot_id in {"", progress.boot_id}
    is_end = step.status in {StepStatus.DONE, StepStatus.FAILED} and step.label in progress.open
    if is_end or (is_same and step.status in {StepStatus.DONE, StepStatus.REPORTED}):
        return progress.repeats
    return {**progress.repeats, step.label: progress.repeats.get(step.label, 0) + 1}


def _boots_since_progress(progress: Progress, step: ReportedStep, *, is_further: bool) -> tuple[str, ...]:
    """Return the ids of the boots since the last progress, with this report."""
    if is_further:
        return (step.boot_id,) if step.boot_id else progress.boots[-1:]
    if not step.boot_id or step.boot_id in progress.boots:
        return progress.boots
    return (*progress.boots, step.boot_id)[-_MOST_BOOTS:]


def _failure(progress: Progress, step: ReportedStep, now: float) -> StepFailure | None:
    before = progress.failure
    if step.status is StepStatus.FAILED:
        count = progress.seen.get(f"{step.label}:{step.status}", 0) + 1
        return StepFailure(step.label, step.name, now, step.logs, count)
    if before is not None and step.status is StepStatus.DONE and step.label == before.label:
        return None
    return before


T = TypeVar("T")
_MAX_ROUND_REPORTS: Final = 32
"""Maximum number of reports in one round. Repetitions of longer rounds are not recognized."""


def group_rounds(items: Iterable[T], key: Callable[[T], Hashable]) -> tuple[Repeated[T], ...]:
    """Return the reports in order. A round that occurs several times in a row appears once, with its number.

    If a shorter and a longer round begin at the same report, the shorter one is used.
    """
    pending = list(items)
    keys = [key(item) for item in pending]
    rounds: list[Repeated[T]] = []
    at = 0
    while at < len(pending):
        length, count = _find_round(keys, at)
        end = at + length * count
        begin = at + length
        between = tuple(pending[begin : end - length])
        rounds.append(Repeated(tuple(pending[at:begin]), tuple(pending[end - length : end]), count, between))
        at = end
    return tuple(rounds)


def _find_round(keys: Sequence[Hashable], at: int) -> tuple[int, int]:
    """Return the length and count of the shortest repeated round that begins at an index."""
    for length in range(1, min(_MAX_ROUND_REPORTS, (len(keys) - at) // 2) + 1):
        count = 1
        while keys[at + count * length : at + (count + 1) * length] == keys[at : at + length]:
            count += 1
        if count > 1:
            return length, count
    return 1, 1

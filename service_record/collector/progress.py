"""How far a build of a host has come: what is kept of its steps, whatever their number. Pure."""

from typing import Final

import msgspec

from service_record.collector.steps import Status, Step

COMPLETE: Final = 100.0
"""Per cent."""
_MOST_LABELS: Final = 256
_MOST_BOOTS: Final = 32


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that failed."""

    label: str
    name: str
    at: float
    logs: str = ""
    count: int = 1
    """How often that step has failed in this build."""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A build so far. Times are the collector's, in seconds since 1970."""

    number: int
    """1 is the first build of a host."""
    started_at: float
    updated_at: float
    key: str = ""
    """What its template calls it."""
    action: str = ""
    label: str = ""
    """Of the latest step."""
    name: str = ""
    status: Status = Status.REPORTED
    percentage: float | None = None
    """The latest that was reported."""
    farthest: float = 0.0
    """The highest that was."""
    fresh_at: float = 0.0
    """When it last got further: something was reported that had not been in this build."""
    open: dict[str, float] = {}
    """Label -> since when, of steps that began and did not end."""
    seen: dict[str, int] = {}
    """Label and status -> how often they were reported."""
    again: int = 0
    """How often the latest step has been reported anew since the build last got further."""
    boots: tuple[str, ...] = ()
    """Boot ids since the build last got further, in order."""
    failure: Failure | None = None
    """The latest failure, unless that step was done later."""
    ended_at: float | None = None
    """When it was complete."""


class Ended(msgspec.Struct, frozen=True):
    """A step that came to its end with this report."""

    label: str
    status: Status
    seconds: float | None
    """None where its beginning was not reported."""
    logs: str


def begins_build(progress: Progress | None, step: Step) -> bool:
    """Whether a step is the first of a new build: a host that is installed anew, not one that tries again.

    It is when its template names another build or action than before, or when the build before is complete
    and the step is not the one that completed it.
    """
    if progress is None:
        return True
    if step.build and progress.key:
        return step.build != progress.key
    if step.action and progress.action and step.action != progress.action:
        return True
    return progress.ended_at is not None and not _completes(step) and step.label != progress.label


def first(step: Step, number: int, now: float) -> Progress:
    """A build that begins with a step, which still is to be taken in by `advance`."""
    return Progress(
        number=number, started_at=now, updated_at=now, key=step.build, action=step.action, fresh_at=now
    )


def advance(progress: Progress, step: Step, now: float, *, is_last: bool = False) -> Progress:
    """The build with one more report. `is_last`: of the steps that an operator defined it is the last."""
    report = f"{step.label}:{step.status}"
    is_further = report not in progress.seen or (step.percentage or 0.0) > progress.farthest
    return msgspec.structs.replace(
        progress,
        updated_at=now,
        key=step.build or progress.key,
        action=step.action or progress.action,
        label=step.label,
        name=step.name,
        status=step.status,
        percentage=progress.percentage if step.percentage is None else step.percentage,
        farthest=max(progress.farthest, step.percentage or 0.0),
        fresh_at=now if is_further else progress.fresh_at,
        open=_open(progress, step, now),
        seen=_counted(progress.seen, report),
        again=0 if is_further else progress.again + (step.status in {Status.INIT, Status.REPORTED}),
        boots=_boots(progress, step, is_further=is_further),
        failure=_failure(progress, step, now),
        ended_at=now if _completes(step) or (is_last and step.status is Status.DONE) else None,
    )


def ended(progress: Progress, step: Step, now: float) -> Ended | None:
    """What a report ends, seen from the build before it; None where it is no end."""
    if step.status in {Status.INIT, Status.REPORTED}:
        return None
    since = progress.open.get(step.label)
    return Ended(step.label, step.status, None if since is None else now - since, step.logs)


def _completes(step: Step) -> bool:
    return step.percentage == COMPLETE and step.status in {Status.DONE, Status.REPORTED}


def _open(progress: Progress, step: Step, now: float) -> dict[str, float]:
    rest = {label: since for label, since in progress.open.items() if label != step.label}
    if step.status is Status.INIT and len(rest) < _MOST_LABELS:
        rest[step.label] = now
    return rest


def _counted(seen: dict[str, int], report: str) -> dict[str, int]:
    if report not in seen and len(seen) >= _MOST_LABELS:
        return seen
    return {**seen, report: seen.get(report, 0) + 1}


def _boots(progress: Progress, step: Step, *, is_further: bool) -> tuple[str, ...]:
    known = progress.boots[-1:] if is_further else progress.boots
    if not step.boot_id or step.boot_id in known:
        return known
    return (*known, step.boot_id)[-_MOST_BOOTS:]


def _failure(progress: Progress, step: Step, now: float) -> Failure | None:
    before = progress.failure
    if step.status is Status.FAILED:
        count = progress.seen.get(f"{step.label}:{step.status}", 0) + 1
        return Failure(step.label, step.name, now, step.logs, count)
    if before is not None and step.status is Status.DONE and step.label == before.label:
        return None
    return before

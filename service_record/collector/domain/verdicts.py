"""Decide the verdict on a host (progressing, stuck, looping, failed, done or silent) and its reason.

The input is the latest reported state of the host. A host is judged again after a new report, and at the time
`HostVerdict.due_at` if there is no report until then.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from service_record.collector.domain.progress import Progress, StepFailure
from service_record.collector.domain.silence import (
    SILENT,
    SilenceBasis,
    SilenceBudget,
    SilenceBudgets,
    find_limit_start,
)
from service_record.collector.domain.steps import StepStatus
from service_record.diagnosis.budget import DEFAULT_SECONDS
from service_record.diagnosis.failures import signature

LOOP: Final = 3
"""Default number of starts of a step, or of boots, without progress that count as a loop.

Two starts are not a loop: the second may be a retry.
"""
_LONGEST_CAUSE: Final = 300
"""Maximum number of characters of a failure's last log line in a reason."""


class FleetVerdict(StrEnum):
    """The verdict on a host."""

    FAILED = "failed"
    LOOPING = "looping"
    STUCK = "stuck"
    SILENT = "silent"
    PROGRESSING = "progressing"
    DONE = "done"

    @property
    def is_bad(self) -> bool:
        return self not in {FleetVerdict.PROGRESSING, FleetVerdict.DONE}


ABANDONED: Final = "abandoned"
"""The verdict of a build that a newer one replaced before it was complete or failed. Hosts never have it."""


class RecordsVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdict on the service records of a host, stored as JSON in `hosts.records_verdict`."""

    verdict: str
    """A value of `diagnosis.findings.Verdict`."""
    reason: str
    """The root cause, as a sentence."""
    service: str = ""
    stage: str = ""
    at: float = 0.0
    """The time at which the latest of these records was received, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFacts:
    """The installation of a host in the terms of the assisted-service."""

    stage: str
    status: str
    info: str = ""
    updated_at: float
    limit: float
    """The seconds that its stage may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The facts by which a host is judged. Times are seconds since 1970 by the collector's clock."""

    heard_at: float
    """The time of the latest report: a step, a stage, record entries or a bundle."""
    group: str = ""
    release: str = ""
    progress: Progress | None = None
    installation: InstallationFacts | None = None
    records: RecordsVerdict | None = None


@dataclass(frozen=True, slots=True)
class HostVerdict:
    """The verdict on a host, with its reason."""

    verdict: FleetVerdict
    reason: str
    """One sentence."""
    since: float
    """The time of the event that decided the verdict: the last progress, report, completion or failure."""
    due_at: float | None = None
    """The time at which the verdict changes if there are no more reports, or None."""


def judge(facts: HostFacts, budgets: SilenceBudgets, now: float, loop_after: int = LOOP) -> HostVerdict:
    """Return the verdict on a host at the time `now`.

    `loop_after`: number of starts of a step, or of boots, without progress that count as a loop.
    """
    # The first rule that matches decides. A loop comes before a failure: each attempt of a loop may fail.
    return (
        _done(facts)
        or _looping(facts, loop_after)
        or _failed(facts)
        or _records_are_bad(facts)
        or _asks_for_help(facts)
        or _waiting(facts, budgets, now)
    )


def make_cause_id(verdict: FleetVerdict, reason: str, host: str) -> str:
    """Return a key that is equal for hosts with the same problem; empty for a good verdict.

    The key is a hash of the verdict and the reason without their variable parts: numbers, times, addresses,
    disks and the host's name.
    """
    if not verdict.is_bad:
        return ""
    same = f"{verdict}\0{signature(reason.replace(host, '<host>'))}"
    return hashlib.sha256(same.encode()).hexdigest()[:16]


def judge_overtaken(facts: HostFacts, last: HostVerdict | None) -> tuple[str, str]:
    """Return the final verdict and reason of a build that a newer build replaces.

    `last`: the host's latest verdict in this build, or None. It is used if it is bad and still up to date.
    """
    if (done := _done(facts)) is not None:
        return done.verdict.value, done.reason
    if last is not None and _is_current(last, facts.progress):
        return last.verdict.value, last.reason
    progress = facts.progress
    if (failed := _failed(facts) or _records_are_bad(facts)) is not None:
        return failed.verdict.value, failed.reason
    if progress is not None and progress.failure is not None:
        return FleetVerdict.FAILED.value, _failure(
            progress.failure, "; the host continued, and another build began"
        ).reason
    after = (
        f"after {_describe_step(progress)}" if progress and progress.label else "before a step was reported"
    )
    return ABANDONED, f"Another build began {after}."


def _is_current(last: HostVerdict, progress: Progress | None) -> bool:
    """Return True if a bad verdict is still valid.

    A loop is valid until there is progress, any other bad verdict until the next report.
    """
    if progress is None or not last.verdict.is_bad:
        return False
    return last.since >= (progress.fresh_at if last.verdict is FleetVerdict.LOOPING else progress.updated_at)


def duration(seconds: float) -> str:
    """Format a time limit for a sentence: `8 s`, `15 min`, `2 h 30 min`, `24 h`."""
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 2 * 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def _describe_step(progress: Progress) -> str:
    """Return the latest report as part of a sentence: `"Disk setup" started`."""
    ends = {StepStatus.INIT: "started", StepStatus.DONE: "finished", StepStatus.FAILED: "failed"}
    return f'"{progress.name}" {ends.get(progress.status, "was reported")}'


def _done(facts: HostFacts) -> HostVerdict | None:
    """Return the verdict `done` if the build is complete, which it stays until another build begins."""
    progress, installation = facts.progress, _installation(facts)
    if progress is not None and progress.ended_at is not None:
        return HostVerdict(FleetVerdict.DONE, f'Finished with "{progress.name}".', progress.ended_at)
    if installation is not None and _is_installed(installation):
        return HostVerdict(
            FleetVerdict.DONE, "Installed, as the assisted-service reports.", installation.updated_at
        )
    records = _records(facts)
    if progress is None and installation is None and records and records.verdict == "succeeded":
        return HostVerdict(FleetVerdict.DONE, "All its services succeeded.", records.at)
    return None


def _looping(facts: HostFacts, loop_after: int) -> HostVerdict | None:
    """Return the verdict `looping` if the host keeps rebooting, or restarts a step, without progress."""
    progress = facts.progress
    if progress is None:
        return None
    if len(progress.boots) >= loop_after:
        what = f"Rebooted {len(progress.boots)} times during {progress.fresh_name}"
    elif progress.again + 1 >= loop_after:
        what = f"{progress.again_name} started {progress.again + 1} times without progress"
    else:
        return None
    why = f"; {_failed_with(progress.failure)}" if progress.failure else ""
    return HostVerdict(FleetVerdict.LOOPING, f"{what}{why}.", progress.fresh_at)


def _failed(facts: HostFacts) -> HostVerdict | None:
    """Return the verdict `failed` if the latest step or the installation failed."""
    progress, installation = facts.progress, _installation(facts)
    if progress is not None and progress.failure is not None and progress.status is StepStatus.FAILED:
        return _failure(progress.failure)
    if installation is not None and (installation.status == "error" or installation.stage == "Failed"):
        where = f" in stage {installation.stage}" if installation.stage else ""
        sentence = _joined(f"The installation failed{where}", installation.info)
        return HostVerdict(FleetVerdict.FAILED, f"{sentence}.", installation.updated_at)
    return None


def _records_are_bad(facts: HostFacts) -> HostVerdict | None:
    """Return the verdict of the service records if it is bad and the host has made no progress since."""
    records = _records(facts)
    fresh_at = facts.progress.fresh_at if facts.progress else 0.0
    calm = {"running", "stopped", "unknown", "succeeded"}
    if records is None or records.at < fresh_at or records.verdict in calm:
        return None
    verdict = FleetVerdict.FAILED if records.verdict == "interrupted" else FleetVerdict(records.verdict)
    where = f"stage {records.stage} of {records.service}" if records.stage else records.service
    sentence = f"{where or 'a service'} {records.verdict}"
    return HostVerdict(verdict, f"{_joined(sentence, records.reason)}.", records.at)


def _asks_for_help(facts: HostFacts) -> HostVerdict | None:
    """Return a verdict if the installation needs user action (`stuck`) or is disabled (`progressing`)."""
    installation = _installation(facts)
    if installation is None:
        return None
    if installation.status == "disabled":
        takes_no_part = "It is disabled, and takes no part in the installation."
        return HostVerdict(FleetVerdict.PROGRESSING, takes_no_part, installation.updated_at)
    waits = installation.status in {"disconnected", "cancelled"}
    if not waits and "pending-user-action" not in installation.status:
        return None
    where = f" in stage {installation.stage}" if installation.stage else ""
    sentence = _joined(f"Somebody has to act{where}", installation.info)
    return HostVerdict(FleetVerdict.STUCK, f"{sentence}.", installation.updated_at)


def _waiting(facts: HostFacts, budgets: SilenceBudgets, now: float) -> HostVerdict:
    """Return the verdict by the time without a report.

    A host is `progressing` until its time limit has passed, then `stuck`, and later `silent`. Two hosts are
    never `stuck`: one with a failed step becomes `failed`, one that never reported anything becomes `silent`.
    """
    what, since, budget = _latest(facts, budgets)
    progress = facts.progress
    late_at = find_limit_start(since, budget.seconds, budgets.absences) + budget.seconds
    silence = max(2 * budget.seconds, SILENT)
    silent_at = find_limit_start(since, silence, budgets.absences) + silence
    if now < late_at:
        began_at = progress.started_at if progress else since
        reason = f"The next report is due within {duration(budget.seconds)} ({budget}) after {what}."
        return HostVerdict(FleetVerdict.PROGRESSING, reason, began_at, late_at)
    late = f"report for {duration(budget.seconds)} ({budget}) since {what}"
    if progress is not None and progress.failure is not None:
        return _failure(progress.failure, f"; no {late}")
    if not (progress and progress.label) and _installation(facts) is None and _records(facts) is None:
        advice = "Check whether the host boots, and from which device."
        reason = f"No report within {duration(budget.seconds)}. {advice}"
        return HostVerdict(FleetVerdict.SILENT, reason, since)
    if now < silent_at:
        return HostVerdict(FleetVerdict.STUCK, f"No {late}.", since, silent_at)
    return HostVerdict(FleetVerdict.SILENT, f"No report for {duration(silence)} since {what}.", since)


def _latest(facts: HostFacts, budgets: SilenceBudgets) -> tuple[str, float, SilenceBudget]:
    """Return the last report as part of a sentence, its time, and the time limit for the next report."""
    progress, installation = facts.progress, _installation(facts)
    since = max(facts.heard_at, progress.updated_at if progress else 0.0)
    if installation is not None and (progress is None or installation.updated_at >= progress.updated_at):
        budget = SilenceBudget(installation.limit, SilenceBasis.STAGE)
        what = f"stage {installation.stage}" if installation.stage else f"state {installation.status}"
        return f"{what} was reported", max(since, installation.updated_at), budget
    if progress is not None and progress.label:
        budget = budgets.of_step(progress.label, facts.group, facts.release)
        return _describe_step(progress), since, budget
    if _records(facts) is not None:
        return "its services ran", since, SilenceBudget(DEFAULT_SECONDS, SilenceBasis.DEFAULT)
    return "the host was registered", since, SilenceBudget(budgets.default, SilenceBasis.DEFAULT)


def _failure(failure: StepFailure, more: str = "") -> HostVerdict:
    return HostVerdict(FleetVerdict.FAILED, f"{_failed_with(failure)}{more}.", failure.at)


def _failed_with(failure: StepFailure) -> str:
    """Describe a failure in words: the step, the number of failures, and the last line of its logs."""
    times = f" {failure.count} times, the last time" if failure.count > 1 else ""
    last_line = next((line.strip() for line in reversed(failure.logs.splitlines()) if line.strip()), "")
    cause = last_line if len(last_line) <= _LONGEST_CAUSE else f"…{last_line[1 - _LONGEST_CAUSE :]}"
    return _joined(f"{failure.name} failed{times}", cause)


def _joined(what: str, why: str) -> str:
    """Join `what` and `why` with a colon, without final punctuation, so that the sentence can continue."""
    return f"{what}: {why.strip()}".rstrip(".: ")


def _installation(facts: HostFacts) -> InstallationFacts | None:
    """Return the installation if it belongs to the current build, not to an earlier one."""
    installation = facts.installation
    return None if installation is None or installation.updated_at < _began(facts) else installation


def _records(facts: HostFacts) -> RecordsVerdict | None:
    """Return the verdict of the records if it belongs to the current build, not to an earlier one."""
    records = facts.records
    return None if records is None or records.at < _began(facts) else records


def _began(facts: HostFacts) -> float:
    """Return the time at which the current build began; 0.0 if no step was ever reported."""
    return facts.progress.started_at if facts.progress else 0.0


def _is_installed(installation: InstallationFacts) -> bool:
    return installation.stage == "Done" or installation.status in {"installed", "added-to-existing-cluster"}

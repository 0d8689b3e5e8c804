"""The lines of a round: to the journal with their priorities, to people without; and the words in them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final

from service_record.display.phrases import location_text
from service_record.display.sentences import verdict_sentence
from service_record.http.answers import Answered, Outcome
from service_record.record.visible import visible
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, NoHost, Refused, View
from service_record.reporter.policy.round_context import RoundPlan

_STDERR: Final = 2


class Priority(IntEnum):
    """As syslog(3) counts them."""

    ERROR = 3
    WARNING = 4
    NOTICE = 5
    INFO = 6


@dataclass(frozen=True, slots=True)
class Log:
    """Lines on a file descriptor, unbuffered. Whoever reads them may be gone: that is never an error."""

    descriptor: int
    is_journal: bool
    """Lines begin with their priority: `<4>`; see sd-daemon(3)."""

    def error(self, text: str) -> None:
        """Something for a person to do; the round goes on without it."""
        self._say(Priority.ERROR, text)

    def warning(self, text: str) -> None:
        """Something did not go as it should, and may do so in a later round."""
        self._say(Priority.WARNING, text)

    def notice(self, text: str) -> None:
        """Something was done that others may see."""
        self._say(Priority.NOTICE, text)

    def info(self, text: str) -> None:
        self._say(Priority.INFO, text)

    def _say(self, priority: Priority, text: str) -> None:
        mark = f"<{priority.value}>" if self.is_journal else ""
        with suppress(OSError):
            os.write(self.descriptor, f"{mark}{visible(text)}\n".encode())


def log_for(environ: Mapping[str, str]) -> Log:
    """Standard error, which is the journal when systemd says so; see systemd.exec(5), $JOURNAL_STREAM."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    with suppress(OSError):
        status = os.fstat(_STDERR)
        return Log(_STDERR, (str(status.st_dev), str(status.st_ino)) == (device, inode))
    return Log(_STDERR, is_journal=False)


_NOTHING: Final = "no service has recorded a run on this host"


def sentence(evidence: HostEvidence) -> str:
    """`failed: bootkube in stage pull: the registry has no such image`, or why there is no verdict."""
    if evidence.diagnosis is not None:
        return verdict_sentence(evidence.diagnosis)
    return f"unknown: {evidence.unread or _NOTHING}"


def cause(evidence: HostEvidence) -> str:
    """Return the verdict with the line of the failure: what whoever sees only this has to know."""
    diagnosis = evidence.diagnosis
    facts = diagnosis.root.facts if diagnosis is not None and diagnosis.root is not None else None
    if facts is None or facts.location is None:
        return sentence(evidence)
    near = "near" if facts.is_approximate else "at"
    return f"{sentence(evidence)} ({near} {location_text(facts.location)})"


def page(evidence: HostEvidence, source: str, at: datetime) -> str:
    """Return what `analyze` prints of the records of `source`; the sentence where none can be judged."""
    if evidence.diagnosis is None or evidence.history is None:
        return f"{sentence(evidence)}\n"
    from service_record.display.verdict_page import analysis_text  # for bundles

    return analysis_text(evidence.diagnosis, evidence.history, source, at)


def view_text(view: View | None) -> str:
    """Describe the service's view of this host, in a few words."""
    match view:
        case None:
            return "not asked"
        case HostView():
            words = [f"stage {view.stage or 'none'}", f"status {view.status or 'none'}", view.role]
            return ", ".join(filter(None, words))
        case NoHost():
            return f"it knows no such host: {view.reason}"
        case Refused():
            return f"it refuses our token: {view.status} {view.text}".rstrip()
        case _:
            return outcome_text(view)


def outcome_text(outcome: Outcome) -> str:
    """Describe the outcome of a call, in a few words."""
    if isinstance(outcome, Answered):
        return f"answered {outcome.status} {outcome.text}".rstrip()
    return outcome.reason


def plan_lines(plan: RoundPlan) -> Iterator[str]:
    """Yield the rules that made the plan, and whether it is the last of all."""
    yield from plan.why
    if plan.stop is not None:
        yield f"stops: {plan.stop.reason}"

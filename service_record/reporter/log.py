"""The log of a round, with fields if it goes to the journal; and the phrases in its lines."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from service_record.display.phrases import location_text
from service_record.display.sentences import verdict_sentence
from service_record.http.answers import Answered, Outcome
from service_record.record import systemd
from service_record.record.journal_sending import MessageKind, is_journal, send_message
from service_record.record.visible import visible
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, NoHost, Refused, View
from service_record.reporter.policy.round_context import RoundPlan

_STDERR: Final = 2


@dataclass(frozen=True, slots=True)
class Log:
    """Logs to the journal, or writes lines to a file descriptor. Ignores errors: nobody may read it."""

    descriptor: int
    is_journal: bool
    """True if the descriptor leads to the journal. Then messages are sent with fields."""
    unit: str | None = None
    """The service that this process is part of."""
    socket: str | None = None
    """The socket of journald. [default: that of this host]"""

    def error(self, text: str, kind: MessageKind = MessageKind.TROUBLE) -> None:
        """Log a problem that somebody has to solve. The round continues."""
        self._write(3, text, kind)

    def warning(self, text: str, kind: MessageKind = MessageKind.TROUBLE) -> None:
        """Log a failure that a later round may not have."""
        self._write(4, text, kind)

    def notice(self, text: str, kind: MessageKind = MessageKind.ROUND) -> None:
        """Log an action that is visible outside the reporter."""
        self._write(5, text, kind)

    def info(self, text: str, kind: MessageKind = MessageKind.ROUND) -> None:
        self._write(6, text, kind)

    def failure(self, text: str, fields: Mapping[str, str]) -> None:
        """Log the verdict on a service that failed, with fields. Only to the journal: people see the page."""
        if self.is_journal:
            self._write(3, text, MessageKind.VERDICT, fields)

    def _write(
        self, priority: int, text: str, kind: MessageKind, fields: Mapping[str, str] | None = None
    ) -> None:
        if self.is_journal and send_message(kind, text, priority, fields, unit=self.unit, path=self.socket):
            return
        mark = f"<{priority}>" if self.is_journal else ""  # see sd-daemon(3)
        with suppress(OSError):
            os.write(self.descriptor, f"{mark}{visible(text)}\n".encode())


def open_log(environ: Mapping[str, str]) -> Log:
    """Return a log on standard error."""
    return Log(_STDERR, is_journal(_STDERR, environ), systemd.unit_of_process())


_NO_RUNS: Final = "no service has recorded a run on this host"


def describe_verdict(evidence: HostEvidence) -> str:
    """Return the verdict, or the reason why there is none, in one line.

    For example `failed: bootkube in stage pull: the registry has no such image`.
    """
    if evidence.diagnosis is not None:
        return verdict_sentence(evidence.diagnosis)
    return f"unknown: {evidence.unread or _NO_RUNS}"


def describe_cause(evidence: HostEvidence) -> str:
    """Return the verdict and the script line of the failure, if one is known."""
    facts = evidence.root.facts if evidence.root is not None else None
    if facts is None or facts.location is None:
        return describe_verdict(evidence)
    sentence, place = describe_verdict(evidence), location_text(facts.location)
    near = "near" if facts.is_approximate else "at"
    # A failure without a message is described by its place already.
    return sentence if place in sentence else f"{sentence} ({near} {place})"


def render_page(evidence: HostEvidence, source: str, at: datetime) -> str:
    """Return the output of `analyze` for the records of `source`, or the verdict line without a diagnosis."""
    if evidence.diagnosis is None or evidence.history is None:
        return f"{describe_verdict(evidence)}\n"
    from service_record.display.verdict_page import analysis_text  # only bundles need it

    return analysis_text(evidence.diagnosis, evidence.history, source, at)


def view_text(view: View | None) -> str:
    """Describe the service's view of this host for the log."""
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
    """Describe the outcome of a call for the log."""
    if isinstance(outcome, Answered):
        return f"answered {outcome.status} {outcome.text}".rstrip()
    return outcome.reason


def plan_lines(plan: RoundPlan) -> Iterator[str]:
    """Yield the rules behind the plan, and the reason to stop if the plan has one."""
    yield from plan.why
    if plan.stop is not None:
        yield f"stops: {plan.stop.reason}"

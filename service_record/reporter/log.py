r"""The log of a round, the verdict above the login prompts of the consoles, and the phrases in both.

agetty(8) prints the files of issue.d, and expands backslash sequences (`\n` is the host's name), so
backslashes are doubled. This early, a console may have no font beyond ASCII: other characters become `?`.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from service_record.display.phrases import location_text
from service_record.display.sentences import verdict_sentence
from service_record.display.text import cut_within, wrap
from service_record.http.answers import Answered, Outcome
from service_record.record import systemd
from service_record.record.atomic_write import write_whole
from service_record.record.journal_sending import MessageKind, is_journal, send_message
from service_record.record.programs import Deadline, ProgramError, run
from service_record.record.visible import visible
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, NoHost, Refused, View
from service_record.reporter.paths import Places

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


_ISSUE_WIDTH: Final = 79
"""The width of a row in cells. One less than 80, because some consoles add an empty row after a full one."""
_MAX_ISSUE_ROWS: Final = 2
"""The most rows of one message."""


def format_issue(verdict: str, advice: str = "") -> bytes:
    """Return the content of the issue file: verdict and advice, each in at most two rows of 79 cells."""
    rows = [*_wrap(f"service-record: {verdict}"), *_wrap(advice), ""]
    return "".join(f"{row}\n" for row in rows).replace("\\", r"\\").encode("ascii", "replace")


def write_issue(places: Places, content: bytes) -> None:
    """Write the issue file if it changed, and have waiting prompts show it. Raises OSError."""
    with suppress(OSError):
        if places.issue.read_bytes() == content:
            return
    write_whole(places.issue, content, mode=0o644)
    run_on_host(places, "agetty", "--reload")


def _wrap(text: str) -> list[str]:
    """Wrap the text between words into at most two rows. The middle of a longer text is left out."""
    text = " ".join(visible(text).split())
    if not text:
        return []
    for room in range(_MAX_ISSUE_ROWS * _ISSUE_WIDTH, _ISSUE_WIDTH, -1):
        rows = wrap(cut_within(text, room, " ... "), _ISSUE_WIDTH)
        if len(rows) <= _MAX_ISSUE_ROWS:
            return list(rows)
    return list(wrap(cut_within(text, _ISSUE_WIDTH, " ... "), _ISSUE_WIDTH))


def run_systemctl(places: Places, *arguments: str) -> None:
    """Run systemctl with these arguments, if systemd runs and the root is this host. Errors are ignored."""
    if systemd.is_running():
        run_on_host(places, "systemctl", "--quiet", *arguments)


def run_on_host(places: Places, *command: str) -> None:
    """Run a program for at most ten seconds, unless the root is a mounted disk. Errors are ignored."""
    if places.root != Path("/"):
        return
    with suppress(ProgramError):
        run(command, os.environ, Deadline(10), 1 << 20)

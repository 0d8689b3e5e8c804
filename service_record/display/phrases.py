"""The words for outcomes, endings and places: the same in every form for people."""

from typing import Final

from service_record.display.page import Glyphs, Ink
from service_record.display.text import duration, visible
from service_record.history.facts import Facts, Location
from service_record.history.outcome import Command, Outcome, Run, Span, Stage

VERBS: Final = {
    Outcome.FAILURE: "failed",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.RUNNING: "running",
    Outcome.SUCCESS: "succeeded",
}
"""Outcome -> its word, worst first."""

_INKS: Final = {
    Outcome.FAILURE: Ink.BAD,
    Outcome.INTERRUPTED: Ink.WORRYING,
    Outcome.RUNNING: Ink.BUSY,
    Outcome.SUCCESS: Ink.GOOD,
}
_MINUTE: Final = 60.0
_ORDINARY_RESULTS: Final = {None, "success", "exit-code", "signal", "core-dump"}
"""$SERVICE_RESULT values that say no more than exit status and signal do; see systemd.exec(5)."""


def ink(outcome: Outcome) -> Ink:
    return _INKS[outcome]


def glyph(outcome: Outcome, glyphs: Glyphs) -> str:
    return str(getattr(glyphs, outcome))


def headline(run: Run) -> str:
    """What a run came to and where: `failed in stage cvo-bootstrap`."""
    return VERBS[run.outcome] + whereabouts(run)


def whereabouts(run: Run) -> str:
    """The stage and command that a run is in, failed in or was interrupted in: ` in stage first`."""
    words = f" in stage {name(run.in_stage)}" if run.in_stage is not None else ""
    if run.in_command is None:
        return words
    command = next(c for c in run.commands if (c.name, c.outcome) == (run.in_command, run.outcome))
    return f"{words}{' of' if words else ' in'} {kind(command)} {name(run.in_command)}"


def kind(span: Stage | Command) -> str:
    if isinstance(span, Stage):
        return "stage"
    return "pre-command" if span.is_before else "post-command"


def lasted(span: Span, seconds: float | None = None) -> str:
    """How long a span took, or took so far when that is given; empty when it is not known.

    In whole seconds where the clock of its recorder had no others, as that of upstream's shim.
    """
    known = span.duration if seconds is None else seconds
    if known is None:
        return ""
    is_rough = span.uptime is None and span.started is not None and not span.started.microsecond
    if not is_rough or not known.is_integer() or known >= _MINUTE:
        return duration(known)
    return f"{known:.0f}s" if known else "<1s"


def name(text: str) -> str:
    return visible(text) or '""'


def ending(facts: Facts) -> str:
    """How a program ended: `exit 1`, `killed by SIGKILL (oom-kill)`; empty when that is not known."""
    words = ""
    if facts.signal is not None:
        words = "killed by a signal" if facts.signal == "unknown" else f"killed by SIG{visible(facts.signal)}"
    elif facts.exit_code is not None:
        words = f"exit {facts.exit_code}"
    if facts.service_result in _ORDINARY_RESULTS:
        # Of a signal, systemd's success says that the service was stopped, or ended as if it had been.
        return f"{words} (systemd: success)" if facts.signal and facts.service_result == "success" else words
    return f"{words} ({visible(facts.service_result or '')})".lstrip()


def place(location: Location) -> str:
    """`FILE:LINE in FUNCTION`, or what of it is known."""
    file = visible(location.file)
    if not location.function:
        return file
    if location.line is None:
        return f"{file} in {visible(location.function)}, line unknown"
    return f"{file}:{location.line} in {visible(location.function)}"

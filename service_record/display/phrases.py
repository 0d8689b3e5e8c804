"""The words for outcomes, endings and places: the same in every form for people."""

from typing import Final

from service_record.display.lines import Glyphs, Ink
from service_record.display.text import duration
from service_record.history.facts import Facts, Location, is_stop, is_stop_or_kill
from service_record.history.outcome import Command, Outcome, Run, Span, Stage
from service_record.record.visible import visible

VERBS: Final = {
    Outcome.FAILURE: "failed",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.RUNNING: "running",
    Outcome.STOPPED: "stopped",
    Outcome.SUCCESS: "succeeded",
}
"""Outcome -> its word, worst first."""

_INKS: Final = {
    Outcome.FAILURE: Ink.BAD,
    Outcome.INTERRUPTED: Ink.WORRYING,
    Outcome.RUNNING: Ink.BUSY,
    Outcome.STOPPED: Ink.CALM,
    Outcome.SUCCESS: Ink.GOOD,
}
_PURPOSES: Final = {"stop": "", "restart": " for a restart", "shutdown": " for a shutdown"}
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
    """The stage and command that a run is in, or was stopped, interrupted or failed in: ` in stage first`."""
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
    if is_stop(facts):
        return _stop(facts)
    words = _death(facts)
    if facts.exit_code == 0 and facts.service_result not in {None, "success"}:
        return f"exit 0, but systemd's result is {visible(facts.service_result or '')}"
    if facts.service_result in _ORDINARY_RESULTS:
        return words
    return f"{words} ({visible(facts.service_result or '')})".lstrip()


def _stop(facts: Facts) -> str:
    """Return how a program was stopped: `stopped by systemd for a restart (SIGTERM)`."""
    if facts.stop_request is None:
        return f"stopped by {_signal(facts)}"
    purpose = _PURPOSES.get(facts.stop_request, f" ({visible(facts.stop_request)})")
    exit_status = f"exit {facts.exit_code}" if facts.exit_code is not None else ""
    how = _signal(facts) if facts.signal not in {None, "unknown"} else exit_status
    return f"stopped by systemd{purpose}" + (f" ({how})" if how else "")


def _death(facts: Facts) -> str:
    if facts.signal is None:
        return f"exit {facts.exit_code}" if facts.exit_code is not None else ""
    return f"{'stopped or ' if is_stop_or_kill(facts) else ''}killed by {_signal(facts)}"


def _signal(facts: Facts) -> str:
    return "a signal" if facts.signal == "unknown" else f"SIG{visible(facts.signal or '')}"


def place(location: Location) -> str:
    """`FILE:LINE in FUNCTION`, or what of it is known."""
    file = visible(location.file)
    if not location.function:
        return file
    if location.line is None:
        return f"{file} in {visible(location.function)}, line unknown"
    return f"{file}:{location.line} in {visible(location.function)}"

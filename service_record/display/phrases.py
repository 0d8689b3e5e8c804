"""Texts for outcomes, exits, places, counts and damage, shared by all output formats for people."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

from service_record.display.text import (
    BLANK,
    Glyphs,
    Ink,
    Line,
    View,
    cell_len,
    count,
    cut,
    cut_within,
    duration,
    moment,
    split_lines,
    wrap,
    wrap_lines,
    zone,
)
from service_record.history import History, ServiceHistory
from service_record.history.outcome import (
    DERIVED,
    Command,
    Facts,
    Location,
    Outcome,
    Run,
    Span,
    Stage,
    is_stop,
    is_stop_or_kill,
)
from service_record.record.visible import visible

if TYPE_CHECKING:
    from service_record.diagnosis.failures import RunStep


VERBS: Final = {
    Outcome.FAILURE: "failed",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.RUNNING: "running",
    Outcome.STOPPED: "stopped",
    Outcome.SUCCESS: "succeeded",
}
"""Outcome -> its verb, worst first."""

_INKS: Final[Mapping[str, Ink]] = {
    Outcome.FAILURE: Ink.BAD,
    Outcome.INTERRUPTED: Ink.WORRYING,
    Outcome.RUNNING: Ink.BUSY,
    Outcome.STOPPED: Ink.CALM,
    Outcome.SUCCESS: Ink.GOOD,
}
_PURPOSES: Final = {"stop": "", "restart": " for a restart", "shutdown": " for a shutdown"}
_RANKS: Final = {"contributing": "adds", "form of death": "ended", "points to": "likely"}
"""Ranks of rules that are too long for a label -> their label."""
_MINUTE: Final = 60.0
_STOP_SIGNALS: Final = {"TERM", "INT", "HUP", "unknown"}
_ORDINARY_RESULTS: Final = {None, "success", "exit-code", "signal", "core-dump"}
"""Values of $SERVICE_RESULT that add nothing to the exit status or signal; see systemd.exec(5)."""


def ink(outcome: str) -> Ink:
    return _INKS[outcome]


def glyph(outcome: str, glyphs: Glyphs) -> str:
    return str(getattr(glyphs, outcome))


def headline(run: Run) -> str:
    """Return the outcome of a run with its place: `failed in stage cvo-bootstrap`."""
    return VERBS[run.outcome] + position_text(run)


def position_text(run: Run) -> str:
    """Return the stage and command that a run is in, or ended in: ` in stage first`. Empty for neither."""
    words = f" in stage {name(run.in_stage)}" if run.in_stage is not None else ""
    if run.in_command is None:
        return words
    command = next(c for c in run.commands if (c.name, c.outcome) == (run.in_command, run.outcome))
    return f"{words}{' of' if words else ' in'} {span_kind(command)} {name(run.in_command)}"


def span_kind(span: Stage | Command) -> str:
    if isinstance(span, Stage):
        return "stage"
    return "pre-command" if span.is_before else "post-command"


def duration_text(span: Span, seconds: float | None = None) -> str:
    """Return the duration of a span, or `seconds` if given, as text. Empty if it is unknown.

    Whole seconds if the recorder's clock has no fractions, like that of upstream's shim.
    """
    length = span.duration if seconds is None else seconds
    return "" if length is None else seconds_text(length, is_rough=is_rough(span))


def is_rough(span: Span) -> bool:
    """Return True if the times of a span have whole seconds."""
    return span.uptime is None and span.started is not None and not span.started.microsecond


def seconds_text(seconds: float, *, is_rough: bool) -> str:
    """Return a duration as text: of whole seconds if it is the difference of such times."""
    if not is_rough or not seconds.is_integer() or seconds >= _MINUTE:
        return duration(seconds)
    return f"{seconds:.0f}s" if seconds else "<1s"


def name(text: str) -> str:
    return visible(text) or '""'


def step_name(step: "RunStep") -> str:
    """Return the kind and name of a step: `stage pull`, `pre-command prepare`, `stage mount of prepare`."""
    within = f" of {name(step.command)}" if step.command is not None else ""
    return f"{step.kind} {name(step.name)}{within}"


def exit_text(facts: Facts) -> str:
    """Return the exit of a program: `exit 1`, `killed by SIGKILL (oom-kill)`. Empty if it is unknown."""
    if is_stop(facts):
        return _stop(facts)
    words = _death(facts)
    if facts.exit_code == 0 and facts.service_result not in {None, "success"}:
        return f"exit 0, but systemd's result is {visible(facts.service_result or '')}"
    if facts.service_result in _ORDINARY_RESULTS:
        return words
    limit = f": {visible(facts.time_limit)}=" if facts.time_limit is not None else ""
    return f"{words} ({visible(facts.service_result or '')}{limit})".lstrip()


def _stop(facts: Facts) -> str:
    """Return the stop of a program and its reason: `stopped by systemd for a restart (SIGTERM)`."""
    if facts.stop_request is None:
        # systemd also counts an end by SIGPIPE as a success, but that signal is no request to stop.
        verb = "stopped" if facts.signal in _STOP_SIGNALS else "ended"
        return f"{verb} by {_signal(facts)}"
    if facts.stop_request == "cancel":
        return "cancelled"
    purpose = _PURPOSES.get(facts.stop_request, f" ({visible(facts.stop_request)})")
    if facts.stopped_with is not None:
        purpose = f" because {visible(facts.stopped_with)} ended"
    exit_status = f"exit {facts.exit_code}" if facts.exit_code is not None else ""
    how = _signal(facts) if facts.signal not in {None, "unknown"} else exit_status
    return f"stopped by systemd{purpose}" + (f" ({how})" if how else "")


def _death(facts: Facts) -> str:
    if facts.signal is None:
        return f"exit {facts.exit_code}" if facts.exit_code is not None else ""
    return f"{'stopped or ' if is_stop_or_kill(facts) else ''}killed by {_signal(facts)}"


def _signal(facts: Facts) -> str:
    return "a signal" if facts.signal == "unknown" else f"SIG{visible(facts.signal or '')}"


def location_text(location: Location) -> str:
    """Return `FILE:LINE in FUNCTION`, or the known parts of it."""
    file = visible(location.file)
    if not location.function:
        return file
    if location.line is None:
        return f"{file} in {visible(location.function)}, line unknown"
    return f"{file}:{location.line} in {visible(location.function)}"


LABEL_WIDTH: Final = 9

_MAX_FRAMES: Final = 5
_MAX_MESSAGE_LINES: Final = 10
_MAX_MESSAGE_ROWS: Final = 4
"""A longer line of a message is cut to this many rows in the narrow output."""


def details(facts: Facts, view: View, indent: int, *, whole: bool = False) -> Iterator[Line]:
    """Yield the facts of a failure with labels. Long ones are cut unless `whole` is True."""
    limit = None if whole else _MAX_FRAMES
    inner, callers = facts.frames_around
    yield from _where(facts, view, indent)
    yield from _frames("into", inner, view, indent, limit)
    yield from _frames("from", callers, view, indent, limit)
    if facts.message:
        yield from _message(facts.message, view, indent, whole=whole)


def label_lines(label: str, texts: Iterable[tuple[str, Ink]], view: View, indent: int) -> Iterator[Line]:
    """Yield texts wrapped in a column, with the label to the left of the first row."""
    room = max(view.width - indent - LABEL_WIDTH, 20)
    for text, look in texts:
        for row in wrap(text, room):
            yield (" " * indent, Ink.PLAIN), (label.ljust(LABEL_WIDTH), Ink.FAINT), (row, look)
            label = ""


def _where(facts: Facts, view: View, indent: int) -> Iterator[Line]:
    texts = []
    if facts.location is not None:
        near = "near " if facts.is_approximate else ""
        texts.append((near + location_text(facts.location), Ink.STRONG))
    if facts.command is not None:
        texts.append((visible(facts.command), Ink.PLAIN))
    yield from label_lines("at" if facts.location is not None else "command", texts, view, indent)


def _frames(
    label: str, frames: Sequence[Location], view: View, indent: int, limit: int | None
) -> Iterator[Line]:
    texts = [(location_text(frame), Ink.PLAIN) for frame in frames[:limit]]
    if len(texts) < len(frames):
        texts.append((f"and {count(len(frames) - len(texts), 'frame')} more", Ink.FAINT))
    yield from label_lines(label, texts, view, indent)


def _message(message: str, view: View, indent: int, *, whole: bool) -> Iterator[Line]:
    """Yield the lines of a message, each row after a gutter. Lines of other programs may be very long."""
    room = max(view.width - indent - LABEL_WIDTH - 2, 20)
    lines = split_lines(message)
    if not whole:
        width = room * _MAX_MESSAGE_ROWS
        lines = [cut_within(line, width, view.glyphs.cut) for line in lines[-_MAX_MESSAGE_LINES:]]
    label = "message"
    for line in lines:
        for row in wrap(line, room):
            lead = (" " * indent, Ink.PLAIN), (label.ljust(LABEL_WIDTH), Ink.FAINT)
            yield *lead, (f"{view.glyphs.gutter} ", Ink.FAINT), (row, Ink.PLAIN)
            label = ""


def title(run: Run, view: View) -> Line:
    """Return `✗ bootkube failed in stage cvo-bootstrap`, cut to the width of the view."""
    color = ink(run.outcome)
    service = cut(name(run.service), view.width // 2, view.glyphs.cut)
    text = cut(headline(run), view.width - cell_len(service) - len("✗  "), view.glyphs.cut)
    return (f"{glyph(run.outcome, view.glyphs)} ", color), (service, Ink.STRONG), (f" {text}", color)


def run_summary(run: Run, view: View) -> str:
    """Return attempt, exit, duration and time: `attempt 3, exit 1 after 2m 3s, 2026-11-21 03:12:05Z`.

    A run that has not ended gets the time of its start or last entry instead.
    """
    parts = [f"attempt {run.attempt}"] if run.attempt > 1 else []
    if run.outcome is Outcome.RUNNING:
        parts.append(_format_time("started ", run.first_entry, view))
    elif run.outcome is Outcome.INTERRUPTED and not run.has_unclear_end:
        parts.append(_format_time("last entry ", run.last_entry, view))
    else:
        parts += [
            _end(run),
            _format_time("", run.ended, view)
            if run.ended
            else _format_time("last entry ", run.last_entry, view),
        ]
    ended_in_pre_command = any(
        command.is_before and (command.name, command.outcome) == (run.in_command, run.outcome)
        for command in run.commands
    )
    if run.has_no_start and not ended_in_pre_command:
        parts.append("no start recorded")
    if run.dropped:
        parts.append(f"{count(run.dropped, 'entry', 'entries')} lost")
    return ", ".join(filter(None, parts))


def _format_time(what: str, time: datetime | None, view: View) -> str:
    return f"{what if time else ''}{moment(time, view.clock, view.now)}"


def _end(run: Run) -> str:
    how = ""
    if run.outcome is Outcome.INTERRUPTED:
        how = exit_text(run.facts) or "ended with an unknown result"
    elif run.outcome is not Outcome.SUCCESS:
        how = exit_text(run.facts) or VERBS[run.outcome]
    if run.duration is None:
        return how
    return f"{how} after {duration_text(run)}".lstrip()


def rank_label(rank: str) -> str:
    return _RANKS.get(rank, rank)


_MAX_PIECES: Final = 3
_INDENT: Final = 2


_UNKNOWN_HERE: Final = "stages and failing lines are known only where a log names them"


def summary(history: History, source: str, view: View) -> Iterator[Line]:
    """Yield `3 services: 1 failed, 2 succeeded`, then the source of the records."""
    derived = {run.recorder for service in history.services for run in service.runs if run.is_derived}
    if history.services:
        what = "unit" if derived else "service"
        yield (count(len(history.services), what), Ink.STRONG), *_counts(history)
    else:
        yield (("no run matches", Ink.STRONG),)
    parts = [visible(source)]
    if history.boots:
        parts.append(count(len(history.boots), "boot"))
    damaged = sum(service.damaged_pieces for service in history.services)
    if damaged:
        parts.append(f"{count(damaged, 'damaged piece')}")
    yield from wrap_lines(", ".join(parts), Ink.FAINT, view)
    if derived:
        logs = ", ".join(sorted((recorder or "").removeprefix(DERIVED) for recorder in derived))
        yield from wrap_lines(f"derived from {logs}: {_UNKNOWN_HERE}", Ink.FAINT, view)


def _counts(history: History) -> Line:
    """Return `: 1 failed, 2 succeeded`, worst first."""
    outcomes = Counter(service.outcome for service in history.services)
    counts = [
        (f"{outcomes[outcome]} {verb}", ink(outcome)) for outcome, verb in VERBS.items() if outcomes[outcome]
    ]
    if outcomes[None]:
        counts.append((f"{outcomes[None]} without a run", Ink.FAINT))
    separators = [(": ", Ink.PLAIN), *[(", ", Ink.PLAIN)] * len(counts)]
    return tuple(chain.from_iterable(zip(separators, counts, strict=False)))


def left_out_sentences(service: ServiceHistory) -> Iterator[str]:
    """Yield the runs that rotations removed: `37 successful runs left out: the record had grown too long`."""
    marks = [run.left_out for run in service.runs if run.left_out is not None]
    kinds = {
        "successful run": sum(mark.succeeded for mark in marks),
        "stopped run": sum(mark.stopped for mark in marks),
        "failed run": sum(mark.failed for mark in marks),
        "run of boots that are gone": sum(mark.boot_runs for mark in marks),
    }
    counts = [count(number, what, what.replace("run", "runs", 1)) for what, number in kinds.items() if number]
    if counts:
        yield f"{', '.join(counts)} left out: the record had grown too long"


def damages(history: History, view: View, *, whole: bool = False) -> Iterator[Line]:
    """Yield the damage of each record. The first damaged pieces are shown, or with `whole` all of them."""
    local = [service for service in history.services if service.utc_offset is not None]
    if len(local) > 1:
        yield BLANK
        yield ((f"{view.glyphs.damaged} {count(len(local), 'record')}", Ink.WORRYING),)
        for sentence in local_times(local):
            yield from wrap_lines(sentence, Ink.PLAIN, view, _INDENT)
    for service in history.services:
        doubts = list(_anomalies(service, is_zone_shown=len(local) > 1))
        if not doubts and not service.malformed:
            continue
        yield BLANK
        yield _damage_title(service, view)
        for doubt in doubts:
            yield from wrap_lines(doubt, Ink.PLAIN, view, _INDENT)
        yield from _pieces(service, view, whole=whole)


def local_times(services: Iterable[ServiceHistory]) -> Iterator[str]:
    """Yield the services whose local times are labelled UTC. They share a host, so one zone is named."""
    local = [service for service in services if service.utc_offset is not None]
    if local:
        yield f"{_local(local[0].utc_offset)}: {', '.join(name(service.name) for service in local)}"


def _local(offset: timedelta | None) -> str:
    return f"times seem to be those of {zone(offset or timedelta())}, although labelled UTC"


def _anomalies(service: ServiceHistory, *, is_zone_shown: bool) -> Iterator[str]:
    if not service.runs and not service.malformed:
        yield "no entry in it"
    if service.utc_offset is not None and not is_zone_shown:
        yield _local(service.utc_offset)
    if service.is_unfinished:
        yield f"{visible(service.name)}.json.tmp lies beside it, from a write that did not end"
    if service.has_damaged_copy:
        yield f"{visible(service.name)}.json.damaged lies beside it, with what was damaged in it"


def _pieces(service: ServiceHistory, view: View, *, whole: bool) -> Iterator[Line]:
    pieces = service.malformed if whole else service.malformed[:_MAX_PIECES]
    for piece in pieces:
        text = visible(piece.text) if whole else cut(visible(piece.text), view.width // 2, view.glyphs.cut)
        line = f"line {piece.line}: {visible(piece.reason)}: {text}"
        yield from wrap_lines(line, Ink.PLAIN, view, _INDENT)
    rest = service.damaged_pieces - len(pieces)
    if rest > 0:
        where = "named by `validate`" if whole else "shown by --output wide"
        yield from wrap_lines(f"and {rest} more, {where}", Ink.FAINT, view, _INDENT)


def _damage_title(service: ServiceHistory, view: View) -> Line:
    lead, text = f"{view.glyphs.damaged} ", " record"
    if service.malformed:
        text += f": {count(service.damaged_pieces, 'damaged piece')}"
    label = cut(name(service.name), view.width - len(lead) - len(text), view.glyphs.cut)
    return (lead, Ink.WORRYING), (label, Ink.STRONG), (text, Ink.WORRYING)

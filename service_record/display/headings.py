"""One line of a run: what it came to, and when."""

from collections.abc import Iterator
from datetime import datetime

from rich.cells import cell_len

from service_record.display.page import Ink, Line, View
from service_record.display.phrases import VERBS, ending, glyph, headline, ink, lasted, name
from service_record.display.text import count, cut, moment, wrap
from service_record.history.outcome import Outcome, Run


def title(run: Run, view: View) -> Line:
    """`✗ bootkube failed in stage cvo-bootstrap`, in one line."""
    color = ink(run.outcome)
    service = cut(name(run.service), view.width // 2, view.glyphs.cut)
    told = cut(headline(run), view.width - cell_len(service) - len("✗  "), view.glyphs.cut)
    return (f"{glyph(run.outcome, view.glyphs)} ", color), (service, Ink.STRONG), (f" {told}", color)


def when(run: Run, view: View) -> str:
    """How and when it ended: `attempt 3, exit 1 after 2m 3s, 2026-11-21 03:12:05Z`."""
    parts = [f"attempt {run.attempt}"] if run.attempt > 1 else []
    if run.outcome is Outcome.RUNNING:
        parts.append(_at("started ", run.first_entry, view))
    elif run.outcome is Outcome.INTERRUPTED and run.ended is None:
        parts.append(_at("last entry ", run.last_entry, view))
    else:
        parts += [
            _end(run),
            _at("", run.ended, view) if run.ended else _at("last entry ", run.last_entry, view),
        ]
    if run.has_no_start and not _is_before_start(run):
        parts.append("no start recorded")
    if run.dropped:
        parts.append(f"{count(run.dropped, 'entry', 'entries')} lost")
    return ", ".join(filter(None, parts))


def _at(what: str, time: datetime | None, view: View) -> str:
    return f"{what if time else ''}{moment(time, view.clock, view.now)}"


def _is_before_start(run: Run) -> bool:
    """Return True if the run got no further than a pre-command, so that there was no start to record."""
    return any(
        command.is_before and (command.name, command.outcome) == (run.in_command, run.outcome)
        for command in run.commands
    )


def when_lines(run: Run, view: View, indent: int) -> Iterator[Line]:
    """`when` in lines of its own."""
    for row in wrap(when(run, view), view.width - indent):
        yield ((" " * indent + row, Ink.PLAIN),)


def _end(run: Run) -> str:
    how = ending(run.facts) or VERBS[run.outcome] if run.outcome is not Outcome.SUCCESS else ""
    if run.duration is None:
        return how
    return f"{how} after {lasted(run)}".lstrip()

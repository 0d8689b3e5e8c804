"""Everything that is known of every run: ids, times, commands, stages and facts."""

from collections.abc import Iterator
from typing import Final

from rich.cells import set_cell_size

from service_record.display.details import details, labelled
from service_record.display.headings import title, when_lines
from service_record.display.page import BLANK, Ink, Line, View
from service_record.display.phrases import ending, glyph, ink, kind, lasted, name
from service_record.display.summary import damages, left_out_sentences, summary
from service_record.display.text import cut, moment, visible
from service_record.history import History
from service_record.history.facts import NOTHING
from service_record.history.outcome import Command, Run, Stage, nested

_INDENT: Final = 2
_MAX_NESTING: Final = 4  # overlapping stages of threads nest without end


def wide(history: History, source: str, view: View) -> Iterator[Line]:
    """The lines of `show --output wide`: services in the order of their names, runs oldest first."""
    yield from summary(history, source, view)
    for service in history.services:
        for run in service.runs:
            yield BLANK
            yield from _run(run, view)
        yield from labelled("left out", [(text, Ink.FAINT) for text in left_out_sentences(service)], view, 0)
    yield from damages(history, view, whole=True)


def _run(run: Run, view: View) -> Iterator[Line]:
    yield title(run, view)
    yield from when_lines(run, view, _INDENT)
    yield from labelled("ids", ((text, Ink.PLAIN) for text in _ids(run)), view, _INDENT)
    yield from details(run.facts, view, _INDENT, whole=True)
    for command in run.commands:
        yield _span(command, view, _INDENT)
        yield from _own_facts(command, run, view, _INDENT)
        for stage in nested(command.stages):
            yield from _stage(stage, run, view, _INDENT * 2)
    for stage in nested(run.stages):
        yield from _stage(stage, run, view, _INDENT)


def _ids(run: Run) -> Iterator[str]:
    if run.boot_id is not None:
        yield f"boot {visible(run.boot_id)}"
    if run.invocation_id is not None:
        yield f"invocation {visible(run.invocation_id)}"
    if run.pid is not None:
        yield f"pid {run.pid}"
    if run.recorder is not None:
        yield f"recorder {visible(run.recorder)}"


def _stage(stage: Stage, run: Run, view: View, indent: int) -> Iterator[Line]:
    indent += min(stage.depth, _MAX_NESTING) * _INDENT
    yield _span(stage, view, indent)
    yield from _own_facts(stage, run, view, indent)


def _span(span: Stage | Command, view: View, indent: int) -> Line:
    """`✓ stage first    1.2s  2026-11-21 01:05:10Z`."""
    known = span.started or span.ended
    at = moment(known, view.clock, view.now)
    room = min(view.width // 2, view.width - len(f"✓  {'':8}  {at}")) - indent
    what = cut(f"{kind(span)} {name(span.name)}", room, view.glyphs.cut)
    return (
        (f"{' ' * indent}{glyph(span.outcome, view.glyphs)} ", ink(span.outcome)),
        (f"{set_cell_size(what, room)} {lasted(span):>8}  ", Ink.PLAIN),
        (at, Ink.FAINT),
    )


def _own_facts(span: Stage | Command, run: Run, view: View, indent: int) -> Iterator[Line]:
    """What the failure of a stage or command adds to that of its run."""
    if span.facts in {NOTHING, run.facts}:
        return
    how = ending(span.facts)
    if how:
        yield from labelled("ended", [(how, Ink.PLAIN)], view, indent + _INDENT)
    yield from details(span.facts, view, indent + _INDENT, whole=True)

"""The timeline for people: a chart for each boot, in as many columns as there are."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from service_record.display.page import BLANK, Glyphs, Ink, Line, View
from service_record.display.phrases import glyph, ink, lasted, name
from service_record.display.summary import damages, summary
from service_record.display.text import count, cut, duration, moment, wrap, zone
from service_record.display.timeline.axis import offset
from service_record.display.timeline.bars import axis_line, bar_line, scale_for
from service_record.display.timeline.charts import Bar, Chart, Kind, Row
from service_record.history import History

MAX_BOOTS: Final = 3
"""How many boots are shown unless all are wanted."""

_INDENT: Final = 2
_MAX_NESTING: Final = 4
_LEAST_TOOK: Final = 8
_GAP: Final = "  "
_LEAST_BARS: Final = 20


def timeline_page(
    history: History,
    source: str,
    found: Sequence[Chart],
    view: View,
    *,
    wide: bool = False,
    flat: bool = False,
) -> Iterator[Line]:
    """The lines of `timeline`; `wide` has every boot, and times, `flat` whole names for any order of rows."""
    yield from summary(history, source, view)
    shown = found if wide else found[-MAX_BOOTS:]
    if len(shown) < len(found):
        left_out = count(len(found) - len(shown), "earlier boot")
        left_out += " left out: --boot 1 shows the first, --output wide all"
        for row in wrap(left_out, view.width):
            yield ((row, Ink.FAINT),)
    for chart in shown:
        yield BLANK
        yield from _chart(chart, len(history.boots), view, wide=wide, flat=flat)
    yield from _untimed(history, view)
    yield from damages(history, view, whole=wide)


def _untimed(history: History, view: View) -> Iterator[Line]:
    """The runs that are in no chart, since their entries have no times."""
    for service in history.services:
        runs = sum(run.first_entry is None for run in service.runs.heads)
        if runs:
            yield BLANK
            for row in wrap(
                f"{name(service.name)}: {count(runs, 'run')} without times, not drawn", view.width
            ):
                yield ((row, Ink.FAINT),)


def _chart(chart: Chart, boots: int, view: View, *, wide: bool, flat: bool) -> Iterator[Line]:
    first, *notes = chart_notes(chart, view)
    for text in (f"{boot_title(chart, boots)}, {first}", *notes):
        for line in wrap(text, view.width):
            yield ((line, Ink.FAINT),)
    labels = [_label(row, view.glyphs, flat=flat) for row in chart.rows]
    times = [_started(row, view) if wide else "" for row in chart.rows]
    lasted = [took(row.longest) for row in chart.rows]
    took_width = max(_LEAST_TOOK, *(len(each) + 1 for each in lasted))
    fixed = took_width + max(map(cell_len, times)) + len(_GAP)
    room = min(max(map(_width, labels)), max(view.width * 3 // 8, 24), view.width - fixed - _LEAST_BARS)
    scale = scale_for(chart.begin, chart.end, max(view.width - room - fixed, _LEAST_BARS))
    what = "longest" if any(len(row.bars) > 1 for row in chart.rows) else "took"
    yield (f"{what:>{room + took_width}}".ljust(room + fixed), Ink.FAINT), *axis_line(scale, view.glyphs)
    for row, label, longest, time in zip(chart.rows, labels, lasted, times, strict=True):
        yield (
            *_fitted(label, room, view.glyphs),
            (f"{longest:>{took_width}}", Ink.PLAIN),
            (set_cell_size(time, fixed - took_width), Ink.FAINT),
            *bar_line(row.bars, scale, view.glyphs),
        )


def boot_title(chart: Chart, boots: int) -> str:
    """`boot 1 of 3`; `all runs` where none names its boot."""
    return f"boot {chart.number} of {boots}" if chart.boot_id is not None else "all runs"


def chart_notes(chart: Chart, view: View) -> Iterator[str]:
    """What offsets count from, and what the clock did meanwhile."""
    boot = f"{name(chart.boot_id)[:8]}, " if chart.boot_id is not None else ""
    by = "" if chart.clock.is_by_uptime else ", by the clock"
    recorded = " as recorded" if chart.clock.ahead else ""
    yield f"{boot}from {moment(chart.clock.time(0), view.clock, view.now)}{recorded}; times since then{by}"
    for ahead in chart.clock.put_right:
        yield f"times recorded in {zone(ahead)}, although labelled UTC, are put right here"
    for step in chart.clock_steps:
        way = "ahead" if step.seconds > 0 else "back"
        yield f"clock set {duration(abs(step.seconds))} {way}, before {offset(round(step.uptime))}"


def took(bar: Bar) -> str:
    """`9.5s`; `9.5s+` where it took longer, or may have."""
    if bar.seconds is None:
        return ""
    return lasted(bar.span, bar.seconds) + ("" if bar.is_whole else "+")


def row_name(row: Row, *, flat: bool = False) -> str:
    """What a row is called: alone where it stands below its service, and else with that."""
    lead = {Kind.PRE_COMMAND: "pre: ", Kind.POST_COMMAND: "post: "}.get(row.kind, "")
    if not flat or row.kind is Kind.SERVICE:
        return lead + name(row.name)
    within = f"{name(row.service)}: " + (f"{name(row.command)}: " if row.command is not None else "")
    return within + lead + name(row.name)


def _label(row: Row, glyphs: Glyphs, *, flat: bool) -> Line:
    """`  ✗ cvo-bootstrap`, and how often."""
    indent = 0 if flat else min(row.depth, _MAX_NESTING) * _INDENT
    lead = f"{' ' * indent}{glyph(row.outcome, glyphs)} "
    strength = Ink.STRONG if row.kind is Kind.SERVICE else Ink.PLAIN
    times = f" {glyphs.times}{len(row.bars)}" if len(row.bars) > 1 else ""
    return (lead, ink(row.outcome)), (row_name(row, flat=flat), strength), (times, Ink.FAINT)


def _fitted(label: Line, room: int, glyphs: Glyphs) -> Line:
    """The label in so many cells; of one that is too long, the name is cut."""
    lead, (text, strength), (times, faint) = label
    text = cut(text, room - cell_len(lead[0]) - cell_len(times), glyphs.cut)
    rest = " " * max(room - _width((lead, (text, strength), (times, faint))), 0)
    return lead, (text, strength), (times + rest, faint)


def _width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def _started(row: Row, view: View) -> str:
    time = next((bar.time for bar in row.bars if bar.time is not None), None)
    return _GAP + moment(time, view.clock, view.now) if time is not None else ""

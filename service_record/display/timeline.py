"""Draw charts in the cells of a terminal. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.display.charts import Bar, Chart, Row, RowKind, is_drawn, offset, ticks
from service_record.display.phrases import VERBS, damages, glyph, ink, name, summary
from service_record.display.text import (
    BLANK,
    Glyphs,
    Ink,
    Line,
    View,
    cell_len,
    count,
    cut,
    duration,
    moment,
    set_cell_size,
    wrap_lines,
    zone,
)
from service_record.history import History
from service_record.history.outcome import Outcome

_MIN_TICK_CELLS: Final = 10
_RANKS: Final[Mapping[str, int]] = {outcome: -number for number, outcome in enumerate(VERBS)}
"""Outcome -> its rank, worst last."""


class Scale(msgspec.Struct, frozen=True):
    """A time axis of `width` cells from `begin` to `end`, in seconds, with ticks at round times."""

    begin: float
    end: float
    width: int
    ticks: tuple[float, ...] = ()

    def cell(self, at: float) -> int:
        """Return the cell of an offset; the first or last cell if it is outside the axis."""
        if self.end <= self.begin:
            return 0
        return min(max(int((at - self.begin) / (self.end - self.begin) * self.width), 0), self.width - 1)


def make_scale(begin: float, end: float, width: int) -> Scale:
    """Return a scale with as many ticks as fit with their labels."""
    scale = Scale(begin, end, width)
    for most in range(max(width // _MIN_TICK_CELLS, 1), 0, -1):
        scale = replace(scale, ticks=tuple(ticks(begin, end, most)))
        places = [(scale.cell(tick), len(offset(tick)) + len("│ ")) for tick in scale.ticks]
        if all(cell + needed <= following for (cell, needed), (following, _) in pairwise(places)):
            break
    return scale


def axis_line(scale: Scale, glyphs: Glyphs) -> Line:
    """Return the ticks with their labels. A label that does not fit before the edge is left out."""
    text = ""
    for tick in scale.ticks:
        label = f"{glyphs.gutter}{offset(tick)}"
        text = text.ljust(scale.cell(tick))
        text += label if len(text) + len(label) <= scale.width else glyphs.gutter
    return ((text[: scale.width], Ink.FAINT),)


def bar_line(bars: Iterable[Bar], scale: Scale, glyphs: Glyphs) -> Line:
    """Return the bars of one row over the grid. If several end in one cell, it shows the worst outcome."""
    cells = [(" ", Ink.PLAIN)] * scale.width
    for tick in scale.ticks:
        cells[scale.cell(tick)] = (glyphs.gutter, Ink.FAINT)
    bars = list(bars)
    for bar in bars:
        first, last = _cells(bar, scale)
        ready = last if bar.ready is None else min(max(scale.cell(bar.ready), first), last)
        cells[first:ready] = [(glyphs.bar, ink(bar.look))] * (ready - first)
        cells[ready:last] = [(glyphs.up, Ink.FAINT)] * (last - ready)
    for bar in sorted(bars, key=lambda bar: _RANKS[bar.look]):
        sign = glyphs.ongoing if bar.look == Outcome.RUNNING else glyph(bar.look, glyphs)
        cells[_cells(bar, scale)[1]] = (sign, ink(bar.look))
    groups = groupby(cells, key=lambda cell: cell[1])
    return tuple(("".join(text for text, _ in group), color) for color, group in groups)


def _cells(bar: Bar, scale: Scale) -> tuple[int, int]:
    """Return the first cell of a bar, and the last, which has its sign."""
    last = scale.cell(bar.end) if bar.end is not None else scale.width - 1
    return (scale.cell(bar.start) if bar.start is not None else last), last


MAX_BOOTS: Final = 3
"""The number of boots in the narrow output."""

_INDENT: Final = 2
_MAX_NESTING: Final = 4
_MIN_DURATION_CELLS: Final = 8
_GAP: Final = "  "
_MIN_BAR_CELLS: Final = 20


def timeline_page(
    history: History,
    source: str,
    charts: Sequence[Chart],
    view: View,
    *,
    wide: bool = False,
    flat: bool = False,
) -> Iterator[Line]:
    """Yield the lines of `timeline`.

    `wide` shows all boots, and the start times of rows. `flat` shows the service in each row's name, for rows
    that are not below their service.
    """
    yield from summary(history, source, view)
    visible_charts = charts if wide else charts[-MAX_BOOTS:]
    if len(visible_charts) < len(charts):
        left_out = count(len(charts) - len(visible_charts), "earlier boot")
        left_out += " left out: --boot 1 shows the first, --output wide all"
        yield from wrap_lines(left_out, Ink.FAINT, view)
    for chart in visible_charts:
        yield BLANK
        yield from _chart(chart, len(history.boots), view, wide=wide, flat=flat)
        yield from chain_lines(chart, view)
    for service in history.services:
        runs = sum(not is_drawn(run) for run in service.runs)
        if runs:
            yield BLANK
            text = f"{name(service.name)}: {count(runs, 'run')} without times, not drawn"
            yield from wrap_lines(text, Ink.FAINT, view)
    yield from damages(history, view, whole=wide)


_MIN_LINK_FRACTION: Final = 0.01
"""A link of the critical chain that took a smaller fraction of the start-up is left out."""


def chain_lines(chart: Chart, view: View) -> Iterator[Line]:
    """Yield the critical chain of the start-up: its units, with the duration of each start."""
    if not chart.chain:
        return
    whole = chart.chain[-1].ready - chart.begin
    shortest = whole * _MIN_LINK_FRACTION
    links = [link for link in chart.chain if link.ready - link.started + link.gap >= shortest]
    yield BLANK
    yield from wrap_lines("critical chain, by the times at which units became ready:", Ink.FAINT, view)
    for link in links:
        at = f"{link.ready:>9.3f}s"
        took = f"  {duration(link.ready - link.started)}"
        gap = f", {duration(link.gap)} after the one before" if link.gap >= shortest else ""
        yield (at, Ink.FAINT), (f"  {name(link.service)}", Ink.PLAIN), (took + gap, Ink.FAINT)


def _chart(chart: Chart, boots: int, view: View, *, wide: bool, flat: bool) -> Iterator[Line]:
    first, *notes = chart_notes(chart, view)
    for text in (f"{boot_title(chart, boots)}, {first}", *notes):
        yield from wrap_lines(text, Ink.FAINT, view)
    labels = [_label(row, view.glyphs, flat=flat) for row in chart.rows]
    times = [_start_text(row, view) if wide else "" for row in chart.rows]
    lasted = [row.longest.took for row in chart.rows]
    took_width = max(_MIN_DURATION_CELLS, *(len(each) + 1 for each in lasted))
    fixed = took_width + max(map(cell_len, times)) + len(_GAP)
    room = min(max(map(_width, labels)), max(view.width * 3 // 8, 24), view.width - fixed - _MIN_BAR_CELLS)
    scale = make_scale(chart.begin, chart.end, max(view.width - room - fixed, _MIN_BAR_CELLS))
    what = "longest" if any(len(row.bars) > 1 for row in chart.rows) else "took"
    yield (f"{what:>{room + took_width}}".ljust(room + fixed), Ink.FAINT), *axis_line(scale, view.glyphs)
    for row, label, longest, time in zip(chart.rows, labels, lasted, times, strict=True):
        yield (
            *_fit_label(label, room, view.glyphs),
            (f"{longest:>{took_width}}", Ink.PLAIN),
            (set_cell_size(time, fixed - took_width), Ink.FAINT),
            *bar_line(row.bars, scale, view.glyphs),
        )


def boot_title(chart: Chart, boots: int) -> str:
    """Return `boot 1 of 3`, or `all runs` if no run has a boot id."""
    if chart.log:
        return f"all runs of {name(chart.log)}"
    return f"boot {chart.number} of {boots}" if chart.boot_id is not None else "all runs"


def chart_notes(chart: Chart, view: View) -> Iterator[str]:
    """Yield the time that offsets count from, then notes on wrong times and on steps of the clock."""
    boot = f"{name(chart.boot_id)[:8]}, " if chart.boot_id is not None else ""
    by = "" if chart.clock.is_by_uptime else ", by the clock"
    recorded = " as recorded" if chart.clock.ahead else ""
    begin = chart.clock.time(0)
    if begin is None:
        yield f"{boot}without dates; times since the {'first line of its log' if chart.log else 'boot'}"
    else:
        yield f"{boot}from {moment(begin, view.clock, view.now)}{recorded}; times since then{by}"
    for ahead in chart.clock.corrected_offsets:
        yield f"times recorded in {zone(ahead)}, although labelled UTC, are put right here"
    for step in chart.clock_steps:
        way = "ahead" if step.seconds > 0 else "back"
        yield f"clock set {duration(abs(step.seconds))} {way}, before {offset(round(step.uptime))}"


def _label(row: Row, glyphs: Glyphs, *, flat: bool) -> Line:
    """Return the sign and the name of a row, and the number of its bars if there are several."""
    indent = 0 if flat else min(row.depth, _MAX_NESTING) * _INDENT
    lead = f"{' ' * indent}{glyph(row.latest.look, glyphs)} "
    strength = Ink.STRONG if row.kind is RowKind.SERVICE else Ink.PLAIN
    times = f" {glyphs.times}{len(row.bars)}" if len(row.bars) > 1 else ""
    return (lead, ink(row.latest.look)), (row.title(flat=flat), strength), (times, Ink.FAINT)


def _fit_label(label: Line, room: int, glyphs: Glyphs) -> Line:
    """Return the label in exactly `room` cells, padded or with its name cut."""
    lead, (text, strength), (times, faint) = label
    text = cut(text, room - cell_len(lead[0]) - cell_len(times), glyphs.cut)
    rest = " " * max(room - _width((lead, (text, strength), (times, faint))), 0)
    return lead, (text, strength), (times + rest, faint)


def _width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def _start_text(row: Row, view: View) -> str:
    time = next((bar.time for bar in row.bars if bar.time is not None), None)
    return _GAP + moment(time, view.clock, view.now) if time is not None else ""

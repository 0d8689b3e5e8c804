"""The timeline as a page: a chart of each boot, and every failure with what its journal said.

A chart is bars as SVG, row by row, and a table for those who do not see bars, or want the numbers.
Positions are in percent of the width, so that it fits every screen without a script. Bars that nobody could
tell apart are drawn as one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final
from xml.etree.ElementTree import Element

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.failures import FailureGroup, failures_of
from service_record.display.charts import Bar, Chart, Row, RowKind, offset
from service_record.display.html.frame import Section, element, facts_list, inked, page, preformatted
from service_record.display.phrases import VERBS, damages, glyph, headline, name, step_name, summary, when
from service_record.display.text import View, count
from service_record.display.timeline import (
    CUT_WIDTH,
    Axis,
    Tick,
    axis_of,
    boot_title,
    chart_notes,
    labelled_ticks,
    row_name,
    took,
)
from service_record.history import History, ServiceHistory
from service_record.history.build import true_time
from service_record.history.outcome import Outcome, Repeat, order, repeats

_ID: Final = "failures"


def failures_ids(history: History) -> dict[str, str]:
    """Service -> where a page has its failures; of those that have some."""
    return {
        service.name: f"{_ID}-{number}" for number, service in enumerate(history.services) if _is_bad(service)
    }


def failures_section(history: History, view: View) -> Section | None:
    """Return every failure and interruption, with those of stages that a run survived; None without any.

    The service that failed first comes first: others may follow from it.
    """
    places = failures_ids(history)
    bad = sorted((service for service in history.services if service.name in places), key=_first_end)
    content = [
        element("section", element("h3", name(each.name)), *_cards(each, view), id=places[each.name])
        for each in bad
    ]
    return Section(_ID, "Failures", content) if content else None


def _is_bad(service: ServiceHistory) -> bool:
    return any(run.outcome.is_bad for run in service.runs) or bool(failures_of(service.runs))


def _first_end(service: ServiceHistory) -> float:
    """Return when the first bad run ended; of a service that survived its failures, the last."""
    ends = (true_time(run.last_entry, service) for run in service.runs if run.outcome.is_bad)
    return order(next(ends, service.runs[-1].last_entry))


def _cards(service: ServiceHistory, view: View) -> Iterator[Element]:
    for failure in failures_of(service.runs):
        yield _failure(failure, view)
    for repeat in repeats(service.runs):
        if repeat.last.outcome is Outcome.INTERRUPTED:
            yield _interruption(repeat, view)


def _failure(failure: FailureGroup, view: View) -> Element:
    what = step_name(failure.step) if failure.step is not None else "the service"
    run = failure.last
    went_on = "" if run.outcome is Outcome.FAILURE else f"; the run {VERBS[run.outcome]}"
    times = f"{count(failure.count, 'time')}, the last: " if failure.count > 1 else ""
    return element(
        "article",
        element("h4", f"{view.glyphs.failure} {what} failed", class_="failure"),
        element("p", f"{times}{when(run, view)}{went_on}", class_="faint"),
        facts_list(failure.facts),
        class_="card failure",
    )


def _interruption(repeat: Repeat, view: View) -> Element:
    times = f"{count(repeat.count, 'time')}, the last: " if repeat.count > 1 else ""
    return element(
        "article",
        element("h4", f"{view.glyphs.interrupted} {headline(repeat.last)}", class_="interrupted"),
        element("p", times + when(repeat.last, view), class_="faint"),
        class_="card interrupted",
    )


_UNWRAPPED: Final = 1 << 16
"""Columns: browsers wrap lines themselves."""


def timeline_html(
    history: History, source: str, charts: Sequence[Chart], view: View, *, flat: bool = False
) -> str:
    """Return the page of `timeline --output html`."""
    view = replace(view, width=_UNWRAPPED)
    lead = [element("p", *inked(line)) for line in summary(history, source, view)]
    sections = chart_sections(history, charts, failures_ids(history), view, flat=flat)
    failed = failures_section(history, view)
    damaged = list(damages(history, view, whole=True))
    if failed is not None:
        sections.append(failed)
    if damaged:
        sections.append(Section("damage", "Damaged records", [preformatted(damaged)]))
    return page(f"Timeline of {source}", lead, sections, view.now)


def chart_sections(
    history: History, charts: Sequence[Chart], targets: Mapping[str, str], view: View, *, flat: bool = False
) -> list[Section]:
    """Return a section for each boot; `targets` are where the page has the failures of a service."""
    sections = [chart_section(chart, len(history.boots), targets, view, flat=flat) for chart in charts]
    if sections:
        first = sections[0]
        sections[0] = replace(first, content=[patterns(), *first.content])
    return sections


_MAX_TOLD: Final = 20
"""Executions of one row."""
_HEADS: Final = ("What", "Attempt", "Outcome", "From", "To", "Took")
_NUMBERS: Final = {"Attempt", "From", "To", "Took"}


def chart_table(chart: Chart, view: View, identity: str) -> Element:
    """Return the table, folded; each row of the chart has its last executions."""
    heads = (element("th", head, scope="col", class_=_class(head)) for head in _HEADS)
    rows = [line for number, row in enumerate(chart.rows) for line in _rows(row, row_id(chart, number), view)]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    summary = element("summary", "The same as a table")
    return element("details", summary, element("div", table, class_="scroll", tabindex="0"), id=identity)


def row_id(chart: Chart, number: int) -> str:
    """Return where a page has the table's row for a row of the chart."""
    return f"boot-{chart.number}-row-{number}"


def _rows(row: Row, identity: str, view: View) -> Iterator[Element]:
    what = row_name(row, flat=True)
    hidden = len(row.bars) - _MAX_TOLD
    if hidden > 0:
        note = f"{what}: {hidden} earlier executions left out; --output json has them"
        yield element("tr", element("td", note, class_="faint", colspan=str(len(_HEADS))))
    for number, bar in enumerate(row.bars[-_MAX_TOLD:]):
        texts = dict(zip(_HEADS, _texts(bar, what, view), strict=True))
        cells = [element("td", text, class_=_class(head, bar)) for head, text in texts.items()]
        yield element("tr", *cells, **({"id": identity} if number == 0 else {}))


def _texts(bar: Bar, what: str, view: View) -> tuple[str, ...]:
    outcome = f"{glyph(bar.outcome, view.glyphs)} {VERBS[bar.outcome]}"
    return what, str(bar.run.attempt), outcome, _offset(bar.start), _offset(bar.end), took(bar)


def _offset(at: float | None) -> str:
    return offset(round(at, 3)) if at is not None else ""


def _class(head: str, bar: Bar | None = None) -> str:
    if bar is not None and head == "Outcome":
        return bar.outcome.value
    return "number" if head in _NUMBERS else "text"


class DrawnBars(msgspec.Struct, frozen=True):
    """One bar or several, from `begin` to `end`."""

    begin: float
    end: float
    bar: Bar
    """The latest of them."""
    count: int = 1
    is_followed: bool = False
    """True when the next bar leaves no room behind this one."""

    @property
    def outcome(self) -> Outcome:
        return self.bar.outcome


def thinned(bars: Iterable[Bar], least: float, edge: float) -> list[DrawnBars]:
    """Return the bars in their order; draw those alike, short and less than `least` seconds apart as one.

    What is running ends at the edge.
    """
    drawn = list(_joined(bars, least, edge))
    followed = [later.begin - earlier.end < 2 * least for earlier, later in pairwise(drawn)]
    return [
        replace(one, is_followed=is_followed)
        for one, is_followed in zip(drawn, [*followed, False], strict=True)
    ]


def _joined(bars: Iterable[Bar], least: float, edge: float) -> Iterator[DrawnBars]:
    last: DrawnBars | None = None
    for bar in bars:
        end = bar.end if bar.end is not None else edge
        this = DrawnBars(bar.first, end, bar)
        if last is None:
            last = this
        elif last.outcome is bar.outcome and this.begin - last.end < least and end - this.begin < least:
            last = replace(last, end=max(last.end, end), bar=bar, count=last.count + 1)
        else:
            yield last
            last = this
    if last is not None:
        yield last


_ROOM: Final = 95.0
"""Percent of the width that bars may take; signs stand behind them."""
_LEAST_WIDTH: Final = 0.15
"""Percent."""
_LEAST_APART: Final = 0.005
"""Of the whole time: bars that are closer and shorter are drawn as one."""
_MAX_TICKS: Final = 8
_MAX_LABEL: Final = 44
_DEEPEST: Final = 4


class _Drawing(msgspec.Struct, frozen=True):
    """The inputs that all bars of a chart share."""

    chart: Chart
    view: View
    axis: Axis
    ticks: tuple[Tick, ...]
    targets: Mapping[str, str]

    def percent(self, at: float) -> float:
        return self.axis.part(at) * _ROOM


def chart_section(chart: Chart, boots: int, targets: Mapping[str, str], view: View, *, flat: bool) -> Section:
    """Return the page's section for one boot of so many; `targets` are the places of a service's failures."""
    axis = axis_of(chart)
    drawing = _Drawing(chart, view, axis, tuple(labelled_ticks(axis, _MAX_TICKS, _ROOM / 100)), targets)
    rows = [_row(row, number, drawing, flat=flat) for number, row in enumerate(chart.rows)]
    width = min(max((_label_length(row, flat=flat) for row in chart.rows), default=0), _MAX_LABEL)
    section, title = f"boot-{chart.number}", boot_title(chart, boots)
    return Section(
        section,
        title[0].upper() + title[1:],
        [
            *(element("p", text, class_="faint") for text in (*chart_notes(chart, view), *_cut_notes(axis))),
            element("a", "Skip the bars", class_="skip", href=f"#{section}-table"),
            element("ul", _axis(drawing), *rows, class_="chart", style=f"--label: {width}ch"),
            chart_table(chart, view, f"{section}-table"),
        ],
    )


def patterns() -> Element:
    """Return the patterns of failed bars and of cuts, so that not colour alone shows them; once in a page."""
    square, stripes = (
        element("rect", width="6", height="6"),
        element("path", d="M-1,1l2,-2M0,6l6,-6M5,7l2,-2"),
    )
    size = {"width": "6", "height": "6", "patternUnits": "userSpaceOnUse"}
    hatched = element("pattern", square, stripes, id="hatched", **size)
    ground = element("rect", width="8", height="12")
    zigzag = element("path", d="M-2,14L10,-2")
    size = {"width": "8", "height": "12", "patternUnits": "userSpaceOnUse"}
    broken = element("pattern", ground, zigzag, id="broken", **size)
    return element("svg", element("defs", hatched, broken), width="0", height="0", aria_hidden="true")


def _cut_notes(axis: Axis) -> Iterator[str]:
    for cut in axis.cuts:
        begin, end = (offset(float(round(at))) for at in (cut.begin, cut.end))
        yield f"cut out of the axis: {begin} to {end}, in which nothing began or ended"


def _axis(drawing: _Drawing) -> Element:
    svg = element("svg", *_cut_marks(drawing))
    for tick in drawing.ticks:
        kind = "minor" if tick.is_minor else "major"
        at = f"{tick.part * 100:.3f}%"
        anchor = {"dx": "-4", "text_anchor": "end"} if tick.is_left else {"dx": "4"}
        svg.append(element("line", x1=at, x2=at, y1="8", y2="24", class_=kind))
        svg.append(element("text", tick.label, x=at, y="18", class_=kind, **anchor))
    what = "longest" if any(len(row.bars) > 1 for row in drawing.chart.rows) else "took"
    head = element("span", what, class_="took faint")
    return element("li", element("span"), head, svg, class_="axis", aria_hidden="true")


def _cut_marks(drawing: _Drawing) -> Iterable[Element]:
    """Return a band for each cut of the axis, so that a bar across it is seen to be broken."""
    places = (f"{drawing.percent(cut.begin):.3f}%" for cut in drawing.axis.cuts)
    return (
        element("rect", x=at, y="0", width=f"{CUT_WIDTH * _ROOM:.3f}%", height="24", class_="cut")
        for at in places
    )


def _row(row: Row, number: int, drawing: _Drawing, *, flat: bool) -> Element:
    depth = 0 if flat else min(row.depth, _DEEPEST)
    return element(
        "li",
        _label(row, drawing.view, flat=flat),
        element("span", took(row.longest), class_="took"),
        element("svg", *_grid(drawing), *_bars(row, number, drawing), *_cut_marks(drawing)),
        class_=f"depth-{depth}",
    )


def _label(row: Row, view: View, *, flat: bool) -> Element:
    text = row_name(row, flat=flat)
    times = f" {view.glyphs.times}{len(row.bars)}" if len(row.bars) > 1 else ""
    return element(
        "span",
        element("span", glyph(row.outcome, view.glyphs), class_=row.outcome.value, title=VERBS[row.outcome]),
        " ",
        element("span", text, class_="strong" if row.kind is RowKind.SERVICE else "plain"),
        element("span", times, class_="faint"),
        class_="label",
    )


def _label_length(row: Row, *, flat: bool) -> int:
    """Return the length of a label in characters, with everything around the name."""
    return len(row_name(row, flat=flat)) + 3 * (0 if flat else min(row.depth, _DEEPEST)) + len("✗  times")


def _grid(drawing: _Drawing) -> Iterator[Element]:
    for tick in drawing.ticks:
        at = f"{tick.part * 100:.3f}%"
        yield element("line", x1=at, x2=at, y1="0", y2="24", class_="minor" if tick.is_minor else "major")


def _bars(row: Row, number: int, drawing: _Drawing) -> Iterable[Element]:
    least = drawing.axis.seconds_per_width * _LEAST_APART
    return (_bar(drawn, row, number, drawing) for drawn in thinned(row.bars, least, drawing.chart.end))


def _bar(drawn: DrawnBars, row: Row, number: int, drawing: _Drawing) -> Element:
    """Return a bar that can be focused: it links to the failures of its service, or to its row of
    the table.
    """
    target = drawing.targets.get(row.service) if drawn.outcome.is_bad else None
    begin, right = drawing.percent(drawn.begin), drawing.percent(drawn.end)
    outcome = drawn.outcome.value
    width = max(right - begin, _LEAST_WIDTH)
    link = element(
        "a",
        element("title", _described(drawn, row)),
        element("rect", x=f"{begin:.3f}%", y="6", width=f"{width:.3f}%", height="12", class_=outcome),
        href=f"#{target or row_id(drawing.chart, number)}",
    )
    if not drawn.is_followed:
        is_running = drawn.outcome is Outcome.RUNNING
        sign = drawing.view.glyphs.ongoing if is_running else glyph(drawn.outcome, drawing.view.glyphs)
        link.append(element("text", sign, x=f"{right:.3f}%", dx="5", y="16", class_=outcome))
    return link


def _described(drawn: DrawnBars, row: Row) -> str:
    """Return a bar for those who do not see it: `bootkube, attempt 2: failed, from 2m to 2m 30s, 30.0s`."""
    bar, what = drawn.bar, row_name(row, flat=True)
    if drawn.count > 1:
        several = f"{count(drawn.count, 'execution')} {VERBS[drawn.outcome]}"
        return f"{what}: {several}, from {_seconds(drawn.begin)} to {_seconds(drawn.end)}"
    parts = [f"{what}, attempt {bar.run.attempt}: "]
    parts.append(headline(bar.run) if row.kind is RowKind.SERVICE else VERBS[drawn.outcome])
    parts.append(f", from {_seconds(bar.start)}" if bar.start is not None else ", start not recorded")
    if bar.end is not None:
        parts.append(f" to {_seconds(bar.end)}")
    if bar.seconds is not None:
        parts.append(f", {took(bar)}")
    return "".join(parts)


def _seconds(at: float) -> str:
    return offset(round(at, 1))

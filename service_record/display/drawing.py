"""A chart as pages draw it: rows of bars on one axis, and what their table says.

Histories and builds become this one value. Places are in percent of the width, so that a chart fits every
screen without a script.

On the axis of a page, one run of three days would squeeze the two minutes in which everything else happened
into a line. So a time in which nothing began or ended is drawn as a narrow band, when it is nearly all of the
chart. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.display.charts import Bar, Chart, Row, RowKind, offset, ticks
from service_record.display.phrases import VERBS, glyph, headline
from service_record.display.text import View, count
from service_record.display.timeline import boot_title, chart_notes, row_name, took
from service_record.history.outcome import Outcome

_MAX_CUTS: Final = 3
_LEAST_CUT_SECONDS: Final = 60
"""A shorter quiet time is no trouble to read, and every cut costs a note."""
_SQUEEZED: Final = 0.15
"""Share of the chart: when all that happens has no more room than this, the axis is cut."""
_LEAST_SECONDS: Final = 0.001
"""The least time that is a reason to cut; records have milliseconds."""
_MARGIN: Final = 0.15
"""Share of what is left: so much of a quiet time is still drawn on each side of its cut."""
_EDGES_OF_ONE: Final = 2
"""The begin and the end of a bar: where all bars have the same, none squeezes another."""
CUT_WIDTH: Final = 0.06
"""Share of the width that a cut takes."""


class QuietTime(msgspec.Struct, frozen=True):
    """A time that is left out, in seconds since the beginning of the chart's boot."""

    begin: float
    end: float


class Tick(msgspec.Struct, frozen=True):
    """A grid line with its label."""

    part: float
    label: str
    is_minor: bool
    """True when a narrow screen has no room for it."""
    is_left: bool
    """True when the label stands left of its line."""

    @property
    def look(self) -> str:
        return "minor" if self.is_minor else "major"


class Axis(msgspec.Struct, frozen=True):
    """The time from `begin` to `end`, without the cuts."""

    begin: float
    end: float
    cuts: tuple[QuietTime, ...] = ()

    @property
    def segments(self) -> list[tuple[float, float]]:
        """Return the times that are drawn to scale, earliest first."""
        edges = [self.begin, *(edge for cut in self.cuts for edge in (cut.begin, cut.end)), self.end]
        return list(zip(edges[::2], edges[1::2], strict=True))

    @property
    def seconds_per_width(self) -> float:
        """Return how many seconds the whole width would hold at this scale."""
        drawn = sum(end - begin for begin, end in self.segments)
        return drawn / (1 - len(self.cuts) * CUT_WIDTH)

    def part(self, at: float) -> float:
        """Return where an offset stands: 0 at the left edge, 1 at the right edge."""
        scale = self.seconds_per_width
        if scale <= 0:
            return 0.0
        drawn = sum(_within(at, begin, end) * (end - begin) for begin, end in self.segments) / scale
        return min(drawn + sum(_within(at, cut.begin, cut.end) * CUT_WIDTH for cut in self.cuts), 1.0)


def _within(at: float, begin: float, end: float) -> float:
    """Return how much of the time from `begin` to `end` is over: 0 before it, 1 after it."""
    return min(max((at - begin) / (end - begin), 0.0), 1.0) if end > begin else 0.0


def axis_of(chart: Chart) -> Axis:
    """Return the axis of a chart, with as few cuts as make the rest readable."""
    whole = chart.end - chart.begin
    edges = set[float]()
    for row in chart.rows:
        for bar in row.bars:
            edges |= {bar.first, bar.end if bar.end is not None else chart.end}
    if len(edges) <= _EDGES_OF_ONE:
        return Axis(chart.begin, chart.end)
    edges |= {chart.begin, chart.end}
    inside = sorted(edge for edge in edges if chart.begin <= edge <= chart.end)
    gaps = [(begin, end) for begin, end in pairwise(inside) if end - begin >= _LEAST_CUT_SECONDS]
    gaps.sort(key=lambda gap: gap[1] - gap[0], reverse=True)
    for number in range(1, min(_MAX_CUTS, len(gaps)) + 1):
        rest = whole - sum(end - begin for begin, end in gaps[:number])
        if _LEAST_SECONDS <= rest <= whole * _SQUEEZED:
            return Axis(chart.begin, chart.end, tuple(_cuts(sorted(gaps[:number]), rest * _MARGIN)))
    return Axis(chart.begin, chart.end)


def _cuts(gaps: Sequence[tuple[float, float]], margin: float) -> Iterator[QuietTime]:
    for begin, end in gaps:
        if end - begin > 2 * margin:
            yield QuietTime(begin + margin, end - margin)


_WIDE: Final = 640
"""Pixels that a chart has at least on a wide screen."""
_NARROW: Final = 330
"""Pixels on a telephone."""
_PIXELS_PER_CHARACTER: Final = 6.5
_PIXELS_AROUND: Final = 10
_LAST_LABEL: Final = 0.88
"""Share of the width; behind it a label stands left of its line."""


def labelled_ticks(axis: Axis, most: int, room: float) -> list[Tick]:
    """Return at most about `most` grid lines, each with its label; the last is on every screen.

    `room` is the share of the width that the axis takes. A line whose label would run into another is left
    out.
    """
    segments = axis.segments
    scale = axis.seconds_per_width
    places = [
        tick
        for begin, end in segments
        for tick in ticks(begin, end, max(round(most * (end - begin) / scale), 1) if scale > 0 else 1)
    ]
    placed = [Tick(axis.part(at) * room, offset(at), is_minor=False, is_left=False) for at in places]
    if not placed:
        return []
    last = replace(placed[-1], is_left=placed[-1].part > _LAST_LABEL)
    majors = _fitting(placed[:-1], last, _NARROW)
    every = _fitting(placed[:-1], last, _WIDE)
    return [*(replace(tick, is_minor=tick not in majors) for tick in every), last]


def _fitting(before: Sequence[Tick], last: Tick, width: int) -> list[Tick]:
    """Return the ticks whose labels fit on a screen so wide, from the left."""
    chosen: list[Tick] = []
    edge, limit = -1.0, _extent(last, width)[0]
    for tick in before:
        begin, end = _extent(tick, width)
        if begin >= edge and end <= limit:
            chosen.append(tick)
            edge = end
    return chosen


def _extent(tick: Tick, width: int) -> tuple[float, float]:
    """Return the left and right edge of a line with its label, in pixels."""
    line = tick.part * width
    label = len(tick.label) * _PIXELS_PER_CHARACTER + _PIXELS_AROUND
    return (line - label, line) if tick.is_left else (line, line + label)


ROOM: Final = 95.0
"""Percent of the width that bars may take; signs stand behind them."""


class DrawnBar(msgspec.Struct, frozen=True, kw_only=True):
    """A bar at its place, which links to what more is known of it."""

    begin: float
    width: float
    look: str
    """The class of its colour and pattern."""
    text: str
    """The same for those who do not see it."""
    target: str
    """The place in the page with more about it."""
    sign: str = ""
    """Drawn behind the bar, unless it is empty."""
    is_repeated: bool = False
    """True when it is drawn for several that are not alike in time."""
    silence: float = 0.0
    """The width of the time behind it for which nothing of it was heard."""
    marks: tuple[tuple[str, float], ...] = ()
    """Kind and place of each mark on it: its typical end, its budget."""


class DrawnExecution(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table."""

    id: str = ""
    """Its place in the page, if bars link to it."""
    number: int
    look: str
    outcome: str
    begin: str
    end: str
    took: str


class DrawnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of bars with its name, its latest outcome and its longest duration."""

    name: str
    whole_name: str
    """The name that says more where the row stands alone."""
    is_strong: bool
    depth: int = 0
    look: str
    sign: str
    word: str
    times: int
    took: str
    bars: Sequence[DrawnBar]
    executions: Sequence[DrawnExecution]
    note: str = ""
    """A note on executions that the table leaves out."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A chart with its table."""

    id: str
    title: str
    notes: Sequence[str] = ()
    counted: str
    """The head of the column of numbers."""
    ticks: Sequence[Tick]
    cuts: Sequence[float] = ()
    """Places where the axis is cut."""
    rows: Sequence[DrawnRow]

    @property
    def cut_width(self) -> float:
        return CUT_WIDTH * ROOM

    @property
    def head(self) -> str:
        """Return the head of the durations."""
        return "longest" if any(row.times > 1 for row in self.rows) else "took"

    @property
    def marks(self) -> set[str]:
        """Return the kinds of marks on its bars."""
        return {kind for row in self.rows for bar in row.bars for kind, _ in bar.marks}

    @property
    def label_width(self) -> int:
        """Return the characters of the longest label, with all that stands around the name."""
        lengths = (len(row.name) + 3 * row.depth + len("✗  times") for row in self.rows)
        return min(max(lengths, default=0), _MAX_LABEL)


class JoinedBars(msgspec.Struct, frozen=True):
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


def thinned(bars: Iterable[Bar], least: float, edge: float) -> list[JoinedBars]:
    """Return the bars in their order; draw those alike, short and less than `least` seconds apart as one.

    What is running ends at the edge.
    """
    drawn = list(_joined(bars, least, edge))
    followed = [later.begin - earlier.end < 2 * least for earlier, later in pairwise(drawn)]
    return [
        replace(one, is_followed=is_followed)
        for one, is_followed in zip(drawn, [*followed, False], strict=True)
    ]


def _joined(bars: Iterable[Bar], least: float, edge: float) -> Iterator[JoinedBars]:
    last: JoinedBars | None = None
    for bar in bars:
        end = bar.end if bar.end is not None else edge
        this = JoinedBars(bar.first, end, bar)
        if last is None:
            last = this
        elif last.outcome is bar.outcome and this.begin - last.end < least and end - this.begin < least:
            last = replace(last, end=max(last.end, end), bar=bar, count=last.count + 1)
        else:
            yield last
            last = this
    if last is not None:
        yield last


MAX_TICKS: Final = 8
_MAX_LABEL: Final = 44
_LEAST_WIDTH: Final = 0.15
"""Percent."""
_LEAST_APART: Final = 0.005
"""Of the whole time: bars that are closer and shorter are drawn as one."""
_DEEPEST: Final = 4
_MAX_TOLD: Final = 20
"""Executions of one row."""


class _BootChart(msgspec.Struct, frozen=True):
    """The inputs that all rows of a boot's chart share."""

    chart: Chart
    axis: Axis
    targets: Mapping[str, str]
    view: View
    flat: bool


def boot_drawing(
    chart: Chart, boots: int, targets: Mapping[str, str], view: View, *, flat: bool = False
) -> Drawing:
    """Return what is drawn of one boot of so many; `targets` are the places of a service's failures."""
    axis = axis_of(chart)
    boot = _BootChart(chart, axis, targets, view, flat)
    title = boot_title(chart, boots)
    return Drawing(
        id=f"boot-{chart.number}",
        title=title[0].upper() + title[1:],
        notes=(*chart_notes(chart, view), *_cut_notes(axis)),
        counted="Attempt",
        ticks=labelled_ticks(axis, MAX_TICKS, ROOM / 100),
        cuts=[axis.part(cut.begin) * ROOM for cut in axis.cuts],
        rows=[_row(row, f"boot-{chart.number}-row-{n}", boot) for n, row in enumerate(chart.rows)],
    )


def _cut_notes(axis: Axis) -> Iterator[str]:
    for cut in axis.cuts:
        begin, end = (offset(float(round(at))) for at in (cut.begin, cut.end))
        yield f"cut out of the axis: {begin} to {end}, in which nothing began or ended"


def _row(row: Row, identity: str, boot: _BootChart) -> DrawnRow:
    least = boot.axis.seconds_per_width * _LEAST_APART
    what, hidden = row_name(row, flat=True), len(row.bars) - _MAX_TOLD
    return DrawnRow(
        name=row_name(row, flat=boot.flat),
        whole_name=what,
        is_strong=row.kind is RowKind.SERVICE,
        depth=0 if boot.flat else min(row.depth, _DEEPEST),
        look=row.outcome.value,
        sign=glyph(row.outcome, boot.view.glyphs),
        word=VERBS[row.outcome],
        times=len(row.bars),
        took=took(row.longest),
        bars=[_bar(drawn, row, identity, boot) for drawn in thinned(row.bars, least, boot.chart.end)],
        executions=[
            _execution(bar, identity if number == 0 else "", boot.view)
            for number, bar in enumerate(row.bars[-_MAX_TOLD:])
        ],
        note=f"{what}: {hidden} earlier executions left out; --output json has them" if hidden > 0 else "",
    )


def _bar(drawn: JoinedBars, row: Row, identity: str, boot: _BootChart) -> DrawnBar:
    """Return a bar that links to the failures of its service, or to its row of the table."""
    begin, end = (boot.axis.part(at) * ROOM for at in (drawn.begin, drawn.end))
    glyphs = boot.view.glyphs
    sign = glyphs.ongoing if drawn.outcome is Outcome.RUNNING else glyph(drawn.outcome, glyphs)
    return DrawnBar(
        begin=begin,
        width=max(end - begin, _LEAST_WIDTH),
        look=drawn.outcome.value,
        text=_described(drawn, row),
        target=boot.targets.get(row.service, identity) if drawn.outcome.is_bad else identity,
        sign="" if drawn.is_followed else sign,
    )


def _described(drawn: JoinedBars, row: Row) -> str:
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


def _seconds(at: float | None, digits: int = 1) -> str:
    return offset(round(at, digits)) if at is not None else ""


def _execution(bar: Bar, identity: str, view: View) -> DrawnExecution:
    return DrawnExecution(
        id=identity,
        number=bar.run.attempt,
        look=bar.outcome.value,
        outcome=f"{glyph(bar.outcome, view.glyphs)} {VERBS[bar.outcome]}",
        begin=_seconds(bar.start, 3),
        end=_seconds(bar.end, 3),
        took=took(bar),
    )

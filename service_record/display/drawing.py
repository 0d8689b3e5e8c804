"""The chart of an HTML page: rows of bars on one time axis, and the table below them. Pure.

The pages of a history and of a collector's builds use it. Positions are percentages of the width, so a chart
fits every screen without a script.

If a host did nothing for three days, its two minutes of activity would be too narrow to see. So long quiet
times, in which nothing began or ended, are cut out of the axis and drawn as narrow bands.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby, pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.display.charts import Bar, Chart, Row, offset, ticks
from service_record.display.text import Glyphs, View, count, utc
from service_record.display.timeline import boot_title, chart_notes
from service_record.history.outcome import Outcome

_MAX_CUTS: Final = 3
_LEAST_CUT_SECONDS: Final = 60
"""Shorter quiet times are not cut, because the reader needs a note for each cut."""
_SQUEEZED_PART: Final = 0.15
"""The axis is cut if all activity takes less than this share of it."""
_LEAST_SECONDS: Final = 0.001
"""Activity that is shorter is no reason to cut: records have milliseconds."""
_MARGIN_PART: Final = 0.15
"""This share of the activity's time stays uncut on each side of a cut."""
_EDGES_OF_ONE_BAR: Final = 2
"""If all bars share one begin and one end, nothing is squeezed."""
CUT_WIDTH: Final = 0.06
"""The share of the width that each cut takes."""


class Tick(msgspec.Struct, frozen=True):
    """A grid line with its label."""

    part: float
    label: str
    is_minor: bool
    """True if a narrow screen has no room for it."""
    is_left: bool
    """True if the label is left of its line."""

    @property
    def look(self) -> str:
        return "minor" if self.is_minor else "major"


class Axis(msgspec.Struct, frozen=True):
    """The time axis from `begin` to `end`, without the cuts. Times are offsets in seconds."""

    begin: float
    end: float
    cuts: tuple[tuple[float, float], ...] = ()
    """The begin and end of each cut, earliest first."""

    @property
    def segments(self) -> list[tuple[float, float]]:
        """Return the times that are drawn to scale, earliest first."""
        edges = [self.begin, *chain.from_iterable(self.cuts), self.end]
        return list(zip(edges[::2], edges[1::2], strict=True))

    @property
    def seconds_per_width(self) -> float:
        """Return how many seconds the whole width would hold at this scale."""
        drawn = sum(end - begin for begin, end in self.segments)
        return drawn / (1 - len(self.cuts) * CUT_WIDTH)

    def part(self, at: float) -> float:
        """Return the position of an offset: 0 at the left edge, 1 at the right edge."""
        scale = self.seconds_per_width
        if scale <= 0:
            return 0.0
        drawn = sum(_elapsed_part(at, begin, end) * (end - begin) for begin, end in self.segments) / scale
        return min(drawn + sum(_elapsed_part(at, *cut) * CUT_WIDTH for cut in self.cuts), 1.0)


def _elapsed_part(at: float, begin: float, end: float) -> float:
    """Return the part of the time from `begin` to `end` that lies before `at`: 0 to 1."""
    return min(max((at - begin) / (end - begin), 0.0), 1.0) if end > begin else 0.0


def make_axis(begin: float, end: float, reached: float, rows: Iterable[Row]) -> Axis:
    """Return the axis of these rows, with as few cuts as make the rest readable.

    Bars without an end are drawn until `reached`.
    """
    bars = [bar for row in rows for bar in row.bars]
    edges = {at for bar in bars for at in (bar.first, reached if bar.end is None else bar.end)}
    if len(edges) <= _EDGES_OF_ONE_BAR:
        return Axis(begin, end)
    edges |= {begin, end, *(at for bar in bars for _, at in bar.marks)}
    inside = sorted(edge for edge in edges if begin <= edge <= end)
    gaps = [gap for gap in pairwise(inside) if gap[1] - gap[0] >= _LEAST_CUT_SECONDS]
    gaps.sort(key=lambda gap: gap[1] - gap[0], reverse=True)
    for number in range(1, min(_MAX_CUTS, len(gaps)) + 1):
        rest = end - begin - sum(until - since for since, until in gaps[:number])
        if _LEAST_SECONDS <= rest <= (end - begin) * _SQUEEZED_PART:
            margin = rest * _MARGIN_PART
            cuts = [(since + margin, until - margin) for since, until in sorted(gaps[:number])]
            return Axis(begin, end, tuple(cut for cut in cuts if cut[0] < cut[1]))
    return Axis(begin, end)


_WIDE_PIXELS: Final = 640
"""The least width of a chart on a wide screen."""
_NARROW_PIXELS: Final = 330
"""The width on a telephone."""
_PIXELS_PER_CHARACTER: Final = 6.5
_PIXELS_AROUND: Final = 10
_LAST_LABEL_PART: Final = 0.88
"""The label of a line beyond this share of the width is left of it."""


def labelled_ticks(axis: Axis) -> list[Tick]:
    """Return the grid lines with their labels. A line whose label would overlap another is left out.

    The last line is on every screen.
    """
    segments = axis.segments
    scale = axis.seconds_per_width
    places = [
        tick
        for begin, end in segments
        for tick in ticks(begin, end, max(round(_MAX_TICKS * (end - begin) / scale), 1) if scale > 0 else 1)
    ]
    placed = [Tick(axis.part(at) * ROOM / 100, offset(at), is_minor=False, is_left=False) for at in places]
    if not placed:
        return []
    last = replace(placed[-1], is_left=placed[-1].part > _LAST_LABEL_PART)
    majors = _choose_ticks(placed[:-1], last, _NARROW_PIXELS)
    every = _choose_ticks(placed[:-1], last, _WIDE_PIXELS)
    return [*(replace(tick, is_minor=tick not in majors) for tick in every), last]


def _choose_ticks(before: Sequence[Tick], last: Tick, width: int) -> list[Tick]:
    """Return the ticks whose labels fit into a chart of `width` pixels, chosen from the left."""
    chosen: list[Tick] = []
    edge, limit = -1.0, _tick_edges(last, width)[0]
    for tick in before:
        begin, end = _tick_edges(tick, width)
        if begin >= edge and end <= limit:
            chosen.append(tick)
            edge = end
    return chosen


def _tick_edges(tick: Tick, width: int) -> tuple[float, float]:
    """Return the left and right edge of a tick with its label, in pixels."""
    line = tick.part * width
    label = len(tick.label) * _PIXELS_PER_CHARACTER + _PIXELS_AROUND
    return (line - label, line) if tick.is_left else (line, line + label)


ROOM: Final = 95.0
"""Percent of the width for bars. The rest is for the sign after the last bar."""
MAX_EXECUTIONS: Final = 20
"""The limit of table lines for one row."""
MAX_BARS: Final = 500
"""In a row with more bars, close bars are joined even if only one of them failed."""
MAX_ROWS: Final = 500
"""The limit of rows for one boot: browsers take seconds for ten times as many, and nobody reads them."""
_MAX_TICKS: Final = 8
_MAX_LABEL: Final = 44
_LEAST_WIDTH_PERCENT: Final = 0.15
_LEAST_APART_PART: Final = 0.005
"""A share of the whole time. Bars that are shorter, and closer to each other, are drawn as one."""
_DEEPEST: Final = 4
_RUNNING_SIGN: Final = "→"
_BAD: Final = frozenset(outcome for outcome in Outcome if outcome.is_bad)


class JoinedBars(msgspec.Struct):
    """One or more bars of a row that are drawn as one, from `begin` to `end`."""

    begin: float
    end: float
    bar: Bar
    """The latest bar, or the latest that failed."""
    index: int
    """The number of that bar in its row, from 0."""
    count: int = 1
    is_mixed: bool = False
    """True if the bars ended differently."""
    is_followed: bool = False
    """True if the next bar is so close that there is no room for a sign."""


def join_bars(bars: Iterable[Bar], least: float, edge: float) -> list[JoinedBars]:
    """Join bars of the same look that are shorter than `least` seconds and less than that apart.

    In a row of more than `MAX_BARS`, bars of different looks are joined as well. Bars without an end are
    drawn until `edge`.
    """
    bars = list(bars)
    is_crowded = len(bars) > MAX_BARS
    joined: list[JoinedBars] = []
    for index, bar in enumerate(bars):
        last = joined[-1] if joined else None
        begin, end = bar.first, bar.end if bar.end is not None else max(edge, bar.first)
        is_short = last is not None and begin - last.end < least and end - begin < least
        is_alike = last is not None and last.bar.look == bar.look
        if last is not None and is_short and (is_alike or is_crowded):
            if is_alike or bar.look == Outcome.FAILURE:
                last.bar, last.index = bar, index
            last.is_mixed |= not is_alike
            last.end, last.count = max(last.end, end), last.count + 1
        else:
            joined.append(JoinedBars(begin, end, bar, index))
    for earlier, later in pairwise(joined):
        earlier.is_followed = later.begin - earlier.end < 2 * least
    return joined


class DrawnBar(msgspec.Struct, frozen=True, kw_only=True):
    """A bar with its position and width in percent."""

    begin: float
    width: float
    bar: Bar
    index: int
    """The number of the bar in its row, from 0."""
    text: str
    sign: str
    """The sign after the bar; empty for none."""
    target: str
    """The HTML id that the bar links to. If it is empty, the bar links to its row of the table."""
    silence: float
    """The width of the time without a report that follows the bar."""
    marks: Sequence[tuple[str, float]]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A chart with its table."""

    id: str
    title: str
    remarks: tuple[str, ...] = ()
    axis: Axis
    reached: float
    """The latest known time. Bars without an end are drawn until then."""
    is_overdue: bool = False
    """True if nothing was reported from `reached` to the end of the axis."""
    digits: int = 3
    """The decimal places of seconds in the table."""
    rest: str = ""
    """A note that says where the lines are that the table leaves out."""
    rows: Sequence[Row]
    is_flat: bool = False
    """True if each row names its service, because rows are not grouped by service."""
    glyphs: Glyphs = msgspec.field(default_factory=Glyphs)
    targets: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Service -> the id of its failures on the page. Its bad bars link there."""

    @property
    def ticks(self) -> list[Tick]:
        return labelled_ticks(self.axis)

    @property
    def notes(self) -> list[str]:
        """Return the remarks, and a note for each cut of the axis."""
        cuts = (" to ".join(offset(round(at)) for at in cut) for cut in self.axis.cuts)
        return [
            *self.remarks,
            *(f"cut out of the axis: {cut}, in which nothing began or ended" for cut in cuts),
        ]

    @property
    def cuts(self) -> list[tuple[float, float]]:
        return [(self._percent(begin), CUT_WIDTH * ROOM) for begin, _ in self.axis.cuts]

    @property
    def zoom(self) -> str:
        """Return the begin and end of each segment as JSON, in seconds and in percent, for the page's script.

        Empty if the axis has no length.
        """
        if self.axis.seconds_per_width <= 0:
            return ""
        segments = [
            [round(at, 3) for at in (*segment, *map(self._percent, segment))]
            for segment in self.axis.segments
        ]
        return msgspec.json.encode(segments).decode()

    @property
    def has_entries(self) -> bool:
        """Return True if any bar has the time of an entry."""
        return any(bar.started or bar.ended for row in self.rows for bar in row.bars)

    def name(self, row: Row) -> str:
        return row.title(flat=self.is_flat)

    def depth(self, row: Row) -> int:
        return 0 if self.is_flat else min(row.depth, _DEEPEST)

    def sign(self, bar: Bar) -> str:
        return str(getattr(self.glyphs, bar.look)) if bar.sign is None else bar.sign

    def entry_time(self, time: datetime | None) -> str:
        return utc(time) if time is not None else ""

    @property
    def head(self) -> str:
        return "longest" if any(len(row.bars) > 1 for row in self.rows) else "took"

    @property
    def marks(self) -> set[str]:
        return {kind for row in self.rows for bar in self.bars(row) for kind, _ in bar.marks}

    @property
    def label_width(self) -> int:
        """Return the length of the longest label in characters, including indent, sign and count."""
        lengths = (len(self.name(row)) + 3 * self.depth(row) + len("✗  times") for row in self.rows)
        return min(max(lengths, default=0), _MAX_LABEL)

    def bars(self, row: Row) -> list[DrawnBar]:
        least = self.axis.seconds_per_width * _LEAST_APART_PART
        return [self._bar(joined, row) for joined in join_bars(row.bars, least, self.reached)]

    def offset(self, at: float | None) -> str:
        """Return an offset as the table shows it; empty if it is unknown."""
        return offset(round(at, self.digits)) if at is not None else ""

    def _percent(self, at: float) -> float:
        return self.axis.part(at) * ROOM

    def _bar(self, joined: JoinedBars, row: Row) -> DrawnBar:
        bar, begin = joined.bar, self._percent(joined.begin)
        width = max(self._percent(joined.end) - begin, _LEAST_WIDTH_PERCENT)
        title = row.title(flat=True)
        text = bar.text or _describe_bar(bar, title)
        sign = _RUNNING_SIGN if bar.look == Outcome.RUNNING else self.sign(bar)
        if joined.count > 1:
            some = "some of which" if joined.is_mixed else ""
            several = " ".join(filter(None, (count(joined.count, "execution"), some, bar.word)))
            text = f"{title}: {several}, from {_format_offset(joined.begin)} to {_format_offset(joined.end)}"
        return DrawnBar(
            begin=begin,
            width=width,
            bar=bar,
            index=joined.index,
            text=text,
            sign="" if joined.is_followed else sign,
            target=bar.target or (self.targets.get(row.service, "") if bar.look in _BAD else ""),
            silence=max(ROOM - begin - width, 0.0) if self.is_overdue and bar.end is None else 0.0,
            marks=[(kind, self._percent(at)) for kind, at in bar.marks if at <= self.axis.end],
        )


def boot_drawing(
    chart: Chart, boots: int, targets: Mapping[str, str], view: View, *, flat: bool = False
) -> Drawing:
    """Return the drawing of one boot's chart, titled `boot N of BOOTS`.

    `targets` maps a service to the HTML id of its failures, to which its bars link. At most `MAX_ROWS` rows
    are drawn, those of services with troubles and the latest others.
    """
    title = boot_title(chart, boots)
    rows = _select_rows(chart.rows)
    remarks = list(chart_notes(chart, view))
    if hidden := len(chart.rows) - len(rows):
        remarks.append(f"{count(hidden, 'row')} left out: name services to see theirs; --output json has all")
    return Drawing(
        id=f"boot-{chart.number}",
        title=title[0].upper() + title[1:],
        remarks=tuple(remarks),
        axis=make_axis(chart.begin, chart.end, chart.end, rows),
        reached=chart.end,
        rest="--output json has them",
        rows=rows,
        is_flat=flat,
        glyphs=view.glyphs,
        targets=targets,
    )


def _select_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """Return at most `MAX_ROWS` rows in their order, those of services with troubles first of all."""
    if len(rows) <= MAX_ROWS:
        return rows
    blocks = [list(block) for _, block in groupby(rows, key=lambda row: row.service)]
    by_interest = sorted(
        range(len(blocks)),
        key=lambda n: (not any(bar.look in _BAD for row in blocks[n] for bar in row.bars), -n),
    )
    kept: dict[int, list[Row]] = {}
    room = MAX_ROWS
    for number in by_interest:
        if room <= 0:
            break
        kept[number] = blocks[number][:room]
        room -= len(kept[number])
    return [row for number in sorted(kept) for row in kept[number]]


def _describe_bar(bar: Bar, title: str) -> str:
    """Describe a bar in words, like `bootkube, attempt 2: failed, from 2m to 2m 30s, 30.0s`."""
    parts = [f"{title}, attempt {bar.number}: {bar.headline}"]
    parts.append(f", from {_format_offset(bar.start)}" if bar.start is not None else ", start not recorded")
    if bar.end is not None:
        parts.append(f" to {_format_offset(bar.end)}")
    if bar.seconds is not None:
        parts.append(f", {bar.took}")
    return "".join(parts)


def _format_offset(at: float) -> str:
    return offset(round(at, 1))

"""The axis of a chart: where an offset stands, and which long quiet times are cut out of it. Pure.

One run of three days would squeeze the two minutes in which everything else happened into a line. So a time
in which nothing began or ended is drawn as a narrow band, when it is nearly all of the chart.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.display.charts import Chart, offset, ticks

_MAX_CUTS: Final = 3
_LEAST_CUT_SECONDS: Final = 60
"""A shorter quiet time is no trouble to read, and every cut costs a note."""
_SQUEEZED: Final = 0.15
"""Share of the chart: when all that happens has no more room than this, the axis is cut."""
_LEAST_SECONDS: Final = 0.001
"""What happens in less is no reason to cut; records have milliseconds."""
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

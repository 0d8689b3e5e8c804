"""Bars and their axis in the cells of a terminal: a sign at its end, and colour, say what each came to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final

from service_record.display.page import Glyphs, Ink, Line
from service_record.display.phrases import VERBS, glyph, ink
from service_record.display.timeline.axis import offset, ticks
from service_record.display.timeline.charts import Bar
from service_record.history.outcome import Outcome

_LEAST_CELLS: Final = 10
"""Between two ticks."""
_WORST_LAST: Final = tuple(reversed(VERBS))


@dataclass(frozen=True, slots=True)
class Scale:
    """So many cells for the time from `begin` to `end`, and the round times in it."""

    begin: float
    end: float
    width: int
    ticks: tuple[float, ...] = ()

    def cell(self, at: float) -> int:
        if self.end <= self.begin:
            return 0
        return min(max(int((at - self.begin) / (self.end - self.begin) * self.width), 0), self.width - 1)


def scale_for(begin: float, end: float, width: int) -> Scale:
    """A scale with as many ticks as their labels leave room for."""
    scale = Scale(begin, end, width)
    for most in range(max(width // _LEAST_CELLS, 1), 0, -1):
        scale = replace(scale, ticks=tuple(ticks(begin, end, most)))
        places = [(scale.cell(tick), len(offset(tick)) + len("│ ")) for tick in scale.ticks]
        if all(cell + needed <= following for (cell, needed), (following, _) in pairwise(places)):
            break
    return scale


def axis_line(scale: Scale, glyphs: Glyphs) -> Line:
    """The ticks and their labels; a label that does not fit before the edge is left out."""
    text = ""
    for tick in scale.ticks:
        label = f"{glyphs.gutter}{offset(tick)}"
        text = text.ljust(scale.cell(tick))
        text += label if len(text) + len(label) <= scale.width else glyphs.gutter
    return ((text[: scale.width], Ink.FAINT),)


def bar_line(bars: Iterable[Bar], scale: Scale, glyphs: Glyphs) -> Line:
    """The bars of one row over the grid; where several end in one cell, the sign of the worst is seen."""
    cells = [(" ", Ink.PLAIN)] * scale.width
    for tick in scale.ticks:
        cells[scale.cell(tick)] = (glyphs.gutter, Ink.FAINT)
    bars = list(bars)
    for bar in bars:
        first, last = _cells(bar, scale)
        cells[first:last] = [(glyphs.bar, ink(bar.outcome))] * (last - first)
    for bar in sorted(bars, key=lambda bar: _WORST_LAST.index(bar.outcome)):
        cells[_cells(bar, scale)[1]] = (_sign(bar, glyphs), ink(bar.outcome))
    return _joined(cells)


def _cells(bar: Bar, scale: Scale) -> tuple[int, int]:
    """The first cell of a bar, and the one of its sign."""
    last = scale.cell(bar.end) if bar.end is not None else scale.width - 1
    return (scale.cell(bar.start) if bar.start is not None else last), last


def _sign(bar: Bar, glyphs: Glyphs) -> str:
    return glyphs.ongoing if bar.outcome is Outcome.RUNNING else glyph(bar.outcome, glyphs)


def _joined(cells: Sequence[tuple[str, Ink]]) -> Line:
    groups = groupby(cells, key=lambda cell: cell[1])
    return tuple(("".join(text for text, _ in group), color) for color, group in groups)

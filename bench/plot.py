"""Lines over two logarithmic axes, as an SVG that reads on light and on dark pages."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from bench.table import duration

WIDTH: Final = 920
HEIGHT: Final = 460
X_MIN, X_MAX, Y_MIN, Y_MAX = 84, 640, 48, 396
"""Positions of the axes; to the right of them stand the names of the lines."""
NAME_HEIGHT: Final = 20
_COLOURS: Final = (
    ("#0b62c4", "#6cb6ff"),
    ("#b35900", "#f0a35e"),
    ("#1a7f37", "#57c96f"),
    ("#8250df", "#c297ff"),
    ("#cf222e", "#ff8078"),
)
"""Of each line, on a light page and on a dark one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Measurements of one thing: seconds, by the amount of something."""

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Seconds (up) over an amount (to the right), both in powers; 0 has a place of its own at the left."""

    title: str
    amount: str
    lines: Sequence[Line]
    base: int = 10
    """The amounts are powers of it."""

    def svg(self) -> str:
        """Return the whole file."""
        return "\n".join([*self._head(), *self._grid(), *self._lines(), "</svg>", ""])

    @property
    def _amounts(self) -> list[int]:
        return sorted({amount for line in self.lines for amount, _ in line.points})

    @property
    def _decades(self) -> range:
        seconds = [value for line in self.lines for _, value in line.points]
        return range(math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds))) + 1)

    def _x(self, amount: int) -> float:
        places = [self._power(each) for each in self._amounts]
        share = (self._power(amount) - places[0]) / (places[-1] - places[0])
        return X_MIN + share * (X_MAX - X_MIN)

    def _power(self, amount: int) -> float:
        """Return the place of an amount on the axis, in powers; that of 0 is one before the least."""
        least = math.log(min(each for each in self._amounts if each), self.base)
        return math.log(amount, self.base) if amount else least - 1

    def _y(self, seconds: float) -> float:
        decades = self._decades
        share = (math.log10(seconds) - decades[0]) / (decades[-1] - decades[0])
        return Y_MAX - share * (Y_MAX - Y_MIN)

    def _head(self) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="14">'
        )
        yield f"<title>{escape(self.title)}</title>"
        yield "<style>"
        yield "text { fill: #1f2328 } .grid { stroke: #d0d7de } .line { fill: none; stroke-width: 2 }"
        yield from (_coloured(number, light) for number, (light, _) in enumerate(_COLOURS))
        yield "@media (prefers-color-scheme: dark) {"
        yield "text { fill: #e6edf3 } .grid { stroke: #3d444d }"
        yield from (_coloured(number, dark) for number, (_, dark) in enumerate(_COLOURS))
        yield "}"
        yield "</style>"
        yield f'<text x="{X_MIN}" y="26" font-size="16" font-weight="600">{escape(self.title)}</text>'

    def _grid(self) -> Iterator[str]:
        for decade in self._decades:
            y = self._y(10.0**decade)
            yield f'<path class="grid" d="M{X_MIN} {y:.1f}H{X_MAX}"/>'
            label = duration(10.0**decade).replace("us", "µs")
            yield f'<text x="{X_MIN - 8}" y="{y + 5:.1f}" text-anchor="end">{label}</text>'
        for amount in self._amounts:
            x = self._x(amount)
            yield f'<path class="grid" d="M{x:.1f} {Y_MIN}V{Y_MAX}"/>'
            yield f'<text x="{x:.1f}" y="{Y_MAX + 20}" text-anchor="middle">{amount:,}</text>'
        middle = (X_MIN + X_MAX) / 2
        yield f'<text x="{middle}" y="{Y_MAX + 46}" text-anchor="middle">{escape(self.amount)}</text>'

    def _lines(self) -> Iterator[str]:
        for number, (line, y) in enumerate(zip(self.lines, self._names_at(), strict=True)):
            points = [(self._x(amount), self._y(seconds)) for amount, seconds in line.points]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            yield f'<path class="line c{number}" d="M{path}"/>'
            yield from (f'<circle class="dot c{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
            x, last = points[-1]
            way = f"M{x + 5:.1f} {last:.1f}L{X_MAX + 18} {y:.1f}"
            yield f'<path class="line c{number}" stroke-dasharray="2 3" d="{way}"/>'
            yield f'<text class="name c{number}" x="{X_MAX + 24}" y="{y + 5:.1f}">{escape(line.name)}</text>'

    def _names_at(self) -> list[float]:
        """Return the height of each line's name: beside its last point, without overlaps."""
        ends = sorted((self._y(line.points[-1][1]), number) for number, line in enumerate(self.lines))
        heights = [0.0] * len(ends)
        lowest = 0.0
        for y, number in ends:
            heights[number] = lowest = max(y, lowest + NAME_HEIGHT)
        return heights


def _coloured(number: int, colour: str) -> str:
    name = f".c{number}"
    return f".line{name} {{ stroke: {colour} }} .dot{name}, .name{name} {{ fill: {colour} }}"

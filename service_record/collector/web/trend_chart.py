"""Bar charts of the builds of each day. The template draws them as SVG, without scripts or inline styles."""

from dataclasses import dataclass
from typing import Final

from service_record.collector.domain.build_days import BuildDay, BuildSeries
from service_record.collector.web.pages import iso_day, per_cent, took
from service_record.display.text import count

WIDTH: Final = 10
"""Width of a day, in units of the SVG. The charts are stretched to the width of the page."""
HEIGHT: Final = 100
_GAP: Final = 1.5
_LEAST: Final = 2.0
"""Height of the smallest bar, so that one failure among thousands of builds is visible."""


@dataclass(frozen=True, slots=True)
class TrendBar:
    """A rectangle of a chart."""

    x: float
    y: float
    width: float
    height: float
    look: str
    """Its class: success, interrupted, failure, median or longest."""


@dataclass(frozen=True, slots=True)
class TrendDay:
    """The bars of one day, and the text that describes them."""

    day: BuildDay
    text: str
    bars: tuple[TrendBar, ...]
    x: float
    """The left edge of the day. Its whole column shows the text."""


@dataclass(frozen=True, slots=True)
class TrendChart:
    """A chart with one column for each day."""

    title: str
    days: tuple[TrendDay, ...]
    highest: str
    """The value at the upper edge."""

    @property
    def width(self) -> int:
        return len(self.days) * WIDTH


@dataclass(frozen=True, slots=True)
class Trend:
    """A series with its charts, and a sentence for each chart."""

    series: BuildSeries
    results: TrendChart
    results_text: str
    durations: TrendChart
    durations_text: str


def draw_trend(series: BuildSeries) -> Trend:
    """Return the charts of a series."""
    return Trend(
        series,
        _draw_results(series),
        _describe_results(series.whole),
        _draw_durations(series),
        _describe_durations(series.whole),
    )


def _draw_results(series: BuildSeries) -> TrendChart:
    """Return the chart of successful, unfinished and failed builds as stacked bars."""
    most = max((day.total for day in series.days), default=0)
    days = []
    for number, day in enumerate(series.days):
        bars, top = [], float(HEIGHT)
        for look, value in (("success", day.done), ("interrupted", day.unfinished), ("failure", day.failed)):
            if value:
                height = max(value / most * HEIGHT, _LEAST)
                top = max(top - height, 0.0)
                bars.append(_bar(number, top, height, look))
        days.append(
            TrendDay(day, f"{iso_day(day.day)}: {_describe_results(day)}", tuple(bars), number * WIDTH)
        )
    return TrendChart("Results of builds by day", tuple(days), count(most, "build"))


def _draw_durations(series: BuildSeries) -> TrendChart:
    """Return the chart of the durations of successful builds, with the bar of p50 in front of that of p95."""
    most = max((day.p95 or 0.0 for day in series.days), default=0.0)
    days = []
    for number, day in enumerate(series.days):
        bars = []
        for look, value in (("longest", day.p95), ("median", day.p50)):
            if value is not None:
                height = max(value / most * HEIGHT if most else 0.0, _LEAST)
                bars.append(_bar(number, HEIGHT - height, height, look))
        days.append(
            TrendDay(day, f"{iso_day(day.day)}: {_describe_durations(day)}", tuple(bars), number * WIDTH)
        )
    return TrendChart("Durations of successful builds by day", tuple(days), took(most))


def _describe_results(day: BuildDay) -> str:
    """Return the results in words: `12 builds, 92 % succeeded: 11 done, 1 failed`."""
    if day.success_rate is None:
        return "no builds"
    parts = ((day.done, "done"), (day.failed, "failed"), (day.unfinished, "unfinished"))
    counts = ", ".join(f"{number} {word}" for number, word in parts if number)
    return f"{count(day.total, 'build')}, {per_cent(day.success_rate)} succeeded: {counts}"


def _describe_durations(day: BuildDay) -> str:
    if day.p50 is None or day.p95 is None:
        return "no successful builds"
    return (
        f"half of {count(day.done, 'build')} took at most {took(day.p50)}, 95 of 100 at most {took(day.p95)}"
    )


def _bar(number: int, top: float, height: float, look: str) -> TrendBar:
    return TrendBar(number * WIDTH + _GAP / 2, round(top, 2), WIDTH - _GAP, round(height, 2), look)

"""The timeline of a build: its boots, steps and services as rows of bars on one time axis.

The result is a `Drawing`, like the charts of `analyze --output html`. The bars of boots and steps come from
reports, those of services from service records.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from service_record.collector.domain.records_page import ServiceSpan
from service_record.collector.domain.silence import SilenceBudgets
from service_record.collector.store.host_rows import Boot
from service_record.collector.web.pages import LOOKS, SIGNS
from service_record.display.charts import Bar, Row, RowKind, offset
from service_record.display.drawing import Drawing, make_axis
from service_record.display.text import duration
from service_record.http.collector_answers import BuildSummary, Repeated, ShownStep

_SIGNS_AND_WORDS: Final = {
    "success": ("✓", "done"),
    "failure": ("✗", "failed"),
    "running": ("→", "not done yet"),
    "interrupted": ("▲", "never ended"),
    "stopped": ("■", "stopped"),
    "told": ("·", "reported"),
    "boot": ("", "booted"),
}
_LOOKS: Final = {"done": "success", "failed": "failure", "init": "running", "reported": "told"}


def _bar(begin: float, end: float | None, look: str, target: str = "") -> Bar:
    """Return a bar. Times are in seconds since 1970."""
    sign, word = _SIGNS_AND_WORDS[look]
    return Bar(start=begin, end=end, look=look, sign=sign, word=word, number=1, target=target)


def service_rows(services: Iterable[ServiceSpan], begin: float, end: float) -> Iterator[Row]:
    """Yield a row for each service that ran between `begin` and `end`, by the host's clock.

    The times of its bars are seconds since 1970.
    """
    for service in services:
        bars = tuple(
            _bar(max(first, begin), last, look)
            for first, last, look in service.runs
            if first <= end and (last is None or last >= begin)
        )
        if bars:
            yield Row(kind=RowKind.SERVICE, name=service.name, bars=bars)


@dataclass(frozen=True, slots=True)
class Pace:
    """The typical and the longest duration of steps on hosts of one group and release."""

    budgets: SilenceBudgets = field(default_factory=SilenceBudgets)
    group: str = ""
    release: str = ""

    def typical(self, label: str) -> float | None:
        """Return the typical duration of a step in seconds, or None if there are too few builds."""
        return self.budgets.typical_of_step(label, self.group, self.release)

    def budget(self, label: str) -> float:
        """Return the seconds that may pass without a report while this step is the latest."""
        return self.budgets.of_step(label, self.group, self.release).seconds


def step_rows(
    steps: Sequence[Repeated[ShownStep]], *, is_over: bool, end: float, pace: Pace
) -> Iterator[Row]:
    """Yield a row for each step, ordered by priority and then by first report.

    `end` is the time of the last report. The times of the bars are seconds since 1970.
    """
    bars: dict[str, list[Bar]] = {}
    reports: dict[str, ShownStep] = {}
    latest = ""
    for step in (step for group in steps for step in group.reports):
        reports[step.label] = step
        latest = step.label
        _apply_report(bars.setdefault(step.label, []), step)
    targets = {f"step-{step.id}" for group in steps for step in group.latest}
    for label, row in sorted(bars.items(), key=lambda item: reports[item[0]].priority):
        last = row[-1]
        if is_over and last.end is None:
            row[-1] = _bar(last.first, max(end, last.first), "interrupted", last.target)
        elif last.end is None:
            marks: list[tuple[str, float]] = []
            if (typical := pace.typical(label)) is not None:
                marks.append(("typical", last.first + typical))
            if label == latest:
                marks.append(("budget", max(end, last.first) + pace.budget(label)))
            row[-1] = replace(last, marks=tuple(marks))
        linked = (bar if bar.target in targets else replace(bar, target="") for bar in row)
        yield Row(kind=RowKind.STAGE, name=reports[label].name, bars=tuple(linked))


def _apply_report(bars: list[Bar], step: ShownStep) -> None:
    """Apply one report to the bars of a step: it begins a bar, ends the open bar, or becomes a point."""
    at, look, target = step.received_at, _LOOKS[step.status], f"step-{step.id}"
    last = bars[-1] if bars and bars[-1].end is None else None
    if last is not None and step.status == "init":
        bars[-1] = _bar(last.first, at, "interrupted", last.target)
    if last is not None and step.status in {"done", "failed"}:
        bars[-1] = _bar(last.first, at, look, target)
        return
    if last is not None and step.status == "reported":
        return
    bars.append(_bar(at, None if step.status == "init" else at, look, target))


def boot_rows(boots: Sequence[Boot], end: float | None) -> Iterator[Row]:
    """Yield a row with a bar for each boot until the next one, or nothing if there are no boots."""
    if boots:
        ends = [*(boot.begin for boot in boots[1:]), end]
        bars = (_bar(boot.begin, until, "boot") for boot, until in zip(boots, ends, strict=True))
        yield Row(kind=RowKind.SERVICE, name="boots" if len(boots) > 1 else "boot", bars=tuple(bars))


_MAX_AHEAD_FACTOR: Final = 4
"""Marks that are farther in the future than this many times the elapsed time are not drawn, because they
would squeeze the bars. The text of the bar still names them.
"""


def build_drawing(
    build: BuildSummary,
    steps: Sequence[Repeated[ShownStep]],
    boots: Sequence[Boot],
    services: Iterable[Row],
    now: float,
    *,
    is_latest: bool = True,
    pace: Pace | None = None,
) -> Drawing:
    """Return the timeline of a build.

    The axis ends when the build ended, or now if it is running. If a report is overdue, the bars end at the
    last report.
    """
    pace = pace or Pace()
    is_over = not is_latest or build.ended_at is not None or build.verdict in {"failed", "done"}
    ran = tuple(services)
    ends = [bar.end for row in ran for bar in row.bars if bar.end is not None]
    last_report = max([build.updated_at, *ends])
    latest = steps[-1].latest[-1].label if steps else ""
    is_overdue = not is_over and now > last_report + pace.budget(latest)
    if is_over:
        reached = max([build.ended_at or build.updated_at, *ends])
    else:
        reached = last_report if is_overdue else max(now, last_report)
    whole = Bar(
        start=build.started_at,
        end=reached if is_over else None,
        look=LOOKS.get(build.verdict, "running"),
        sign=SIGNS.get(build.verdict, "→"),
        word=build.verdict or "not done yet",
        number=1,
    )
    rows = [
        Row(kind=RowKind.SERVICE, name=f"build {build.number}", bars=(whole,)),
        *boot_rows(boots, reached if is_over else None),
        *step_rows(steps, is_over=is_over, end=build.updated_at, pace=pace),
        *ran,
    ]
    farthest = reached + _MAX_AHEAD_FACTOR * (reached - build.started_at)
    marks = (at for row in rows for bar in row.bars for _, at in bar.marks)
    end = max([reached, *(at for at in marks if at <= farthest)])
    drawn = [_place_row(row, build.started_at, reached) for row in rows]
    return Drawing(
        id="timeline",
        title="Timeline",
        axis=make_axis(0.0, end - build.started_at, reached - build.started_at, drawn),
        reached=reached - build.started_at,
        is_overdue=is_overdue,
        digits=0,
        rows=drawn,
    )


def _place_row(row: Row, zero: float, reached: float) -> Row:
    """Return a row with offsets from `zero`, and with the durations and the texts of its bars."""
    bars = []
    for number, bar in enumerate(row.bars, start=1):
        start, end = bar.first - zero, None if bar.end is None else bar.end - zero
        seconds = max(reached - bar.first, 0.0) if end is None else end - start
        placed = replace(
            bar,
            start=start,
            end=end,
            seconds=None if bar.look == "told" or (end is None and seconds == 0) else seconds,
            is_whole=end is not None and bar.look != "interrupted",
            number=number,
            marks=tuple((kind, at - zero) for kind, at in bar.marks),
        )
        bars.append(replace(placed, text=_describe(row.name, placed)))
    return replace(row, bars=tuple(bars))


def _describe(name: str, bar: Bar) -> str:
    """Return the text of a bar, such as `Disk setup: done, from 10s to 2m 30s, 2m 20s`."""
    what, begin = f"{name}: {bar.word}", offset(round(bar.first))
    if bar.look == "told":
        return f"{what}, at {begin}"
    for kind, at in bar.marks:
        if kind == "typical":
            what += f", which typically takes {duration(at - bar.first)}"
        else:
            what += f", overdue at {offset(round(at))}"
    until = f"to {offset(round(bar.end))}, {duration(bar.end - bar.first)}" if bar.end is not None else "on"
    return f"{what}, from {begin} {until}"

"""A build of a host on one axis of time: its boots, its steps, and its services, as rows of bars. Pure.

It becomes the same `Drawing` as the charts of `analyze --output html`, from what hosts reported instead of
from records alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from service_record.collector.domain.progress import Repeated
from service_record.collector.domain.records_page import ServiceRan
from service_record.collector.domain.silence import SilenceBudgets
from service_record.collector.store.host_rows import Boot, BuildSummary, StepShown
from service_record.collector.web.pages import LOOKS, SIGNS
from service_record.display.charts import offset
from service_record.display.drawing import (
    MAX_TICKS,
    ROOM,
    Axis,
    Drawing,
    DrawnBar,
    DrawnExecution,
    DrawnRow,
    labelled_ticks,
)
from service_record.display.text import duration

_MOST_BARS: Final = 60
"""Bars of one row; the earliest of more are drawn as one."""
_SIGNS: Final = {"success": "✓", "failure": "✗", "running": "→", "interrupted": "▲", "told": "·", "boot": ""}
_WORDS: Final = {
    "success": "done",
    "failure": "failed",
    "running": "not done yet",
    "interrupted": "never ended",
    "told": "reported",
    "boot": "booted",
}
_LOOKS: Final = {"done": "success", "failed": "failure", "init": "running", "reported": "told"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildBar:
    """Something with a duration; times are seconds since 1970."""

    begin: float
    end: float | None
    """The end; None before there is one."""
    look: str
    count: int = 1
    """The number of reports, of which only the first and the last time are known."""
    target: str = ""
    """The place in the page with more about it."""
    verdict: str = ""
    """The verdict of a build, which gives it its word and sign."""
    typical_at: float | None = None
    """The time at which a running step would typically have ended."""
    budget_at: float | None = None
    """The time from which it is overdue, unless something is reported."""

    @property
    def sign(self) -> str:
        return SIGNS[self.verdict] if self.verdict in SIGNS else _SIGNS[self.look]

    @property
    def word(self) -> str:
        return self.verdict or _WORDS[self.look]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRow:
    """A row of bars with its name."""

    name: str
    bars: tuple[BuildBar, ...]
    is_step: bool = False

    @property
    def latest(self) -> BuildBar:
        return self.bars[-1]

    @property
    def times(self) -> int:
        return sum(bar.count for bar in self.bars)


def service_rows(services: Iterable[ServiceRan], begin: float, end: float) -> Iterator[BuildRow]:
    """Yield a row for each service that ran in that time, by the clock of its host."""
    for service in services:
        bars = tuple(
            BuildBar(begin=max(first, begin), end=last, look=look)
            for first, last, look in service.runs
            if first <= end and (last is None or last >= begin)
        )
        if bars:
            yield BuildRow(name=service.name, bars=bars)


@dataclass(frozen=True, slots=True)
class Pace:
    """The usual and the longest time of steps on similar hosts."""

    budgets: SilenceBudgets = field(default_factory=SilenceBudgets)
    group: str = ""
    release: str = ""

    def typical(self, label: str) -> float | None:
        """Return the typical seconds of a step, if known."""
        return self.budgets.typical_of_step(label, self.group, self.release)

    def budget(self, label: str) -> float:
        """Return the seconds that may pass after the last report, if that was of this step."""
        return self.budgets.of_step(label, self.group, self.release).seconds


def step_rows(
    steps: Sequence[Repeated[StepShown]], *, is_over: bool, end: float, pace: Pace
) -> Iterator[BuildRow]:
    """Yield a row for each step, by priority, and within a priority in the order of their first reports.

    `end` is when the last report came.
    """
    bars: dict[str, list[BuildBar]] = {}
    reports: dict[str, StepShown] = {}
    latest = ""
    for step in (step for group in steps for step in group.reports):
        reports[step.label] = step
        latest = step.label
        _take(bars.setdefault(step.label, []), step)
    targets = {f"step-{step.id}" for group in steps for step in group.latest}
    for label, of_label in sorted(bars.items(), key=lambda row: reports[row[0]].priority):
        last = of_label[-1]
        if is_over and last.end is None:
            of_label[-1] = replace(last, end=max(end, last.begin), look="interrupted")
        elif last.end is None:
            typical = pace.typical(label)
            of_label[-1] = replace(
                last,
                typical_at=None if typical is None else last.begin + typical,
                budget_at=max(end, last.begin) + pace.budget(label) if label == latest else None,
            )
        linked = (bar if bar.target in targets else replace(bar, target="") for bar in of_label)
        yield BuildRow(name=reports[label].name, bars=tuple(linked), is_step=True)


def _take(bars: list[BuildBar], step: StepShown) -> None:
    """Process one report: it begins a bar, ends the open one, or is a point outside of any."""
    at, look, target = step.received_at, _LOOKS[step.status], f"step-{step.id}"
    last = bars[-1] if bars and bars[-1].end is None else None
    if last is not None and step.status == "init":
        bars[-1] = replace(last, end=at, look="interrupted")
    if last is not None and step.status in {"done", "failed"}:
        bars[-1] = replace(last, end=at, look=look, target=target)
        return
    if last is not None and step.status == "reported":
        return
    bars.append(BuildBar(begin=at, end=None if step.status == "init" else at, look=look, target=target))


def boot_rows(boots: Sequence[Boot], end: float | None) -> Iterator[BuildRow]:
    """Yield each boot until the next; none if no step names one."""
    if boots:
        ends = [*(boot.begin for boot in boots[1:]), end]
        bars = (
            BuildBar(begin=boot.begin, end=until, look="boot")
            for boot, until in zip(boots, ends, strict=True)
        )
        yield BuildRow(name="boots" if len(boots) > 1 else "boot", bars=tuple(bars))


def thinned(row: BuildRow) -> BuildRow:
    """Return a row with as many bars as can be drawn; the earliest of more are drawn as one."""
    if len(row.bars) <= _MOST_BARS:
        return row
    early, late = row.bars[: 1 - _MOST_BARS], row.bars[1 - _MOST_BARS :]
    joined = replace(early[-1], begin=early[0].begin, count=sum(bar.count for bar in early))
    return replace(row, bars=(joined, *late))


_LEAST_WIDTH: Final = 0.6
"""Percent."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """All rows of a build."""

    begin: float
    end: float
    """The end of the axis."""
    rows: tuple[BuildRow, ...]
    reached: float
    """Up to when anything is known: until now, or for a host that is overdue until its last report."""
    is_overdue: bool = False

    @property
    def drawing(self) -> Drawing:
        """Return what is drawn of it."""
        return Drawing(
            id="timeline",
            title="Timeline",
            counted="Times",
            ticks=labelled_ticks(self._axis, MAX_TICKS, ROOM / 100),
            rows=[self._row(row) for row in self.rows],
        )

    def offset(self, at: float) -> str:
        """Return a time relative to the beginning: `1m 10s`."""
        return offset(round(at - self.begin))

    @property
    def _axis(self) -> Axis:
        return Axis(0.0, self.end - self.begin)

    def _percent(self, at: float) -> float:
        return self._axis.part(at - self.begin) * ROOM

    def _row(self, row: BuildRow) -> DrawnRow:
        return DrawnRow(
            name=row.name,
            whole_name=row.name,
            is_strong=not row.is_step,
            look=row.latest.look,
            sign=row.latest.sign,
            word=row.latest.word,
            times=row.times,
            took=self._took(row),
            bars=[self._bar(bar, row) for bar in row.bars],
            executions=[self._execution(bar) for bar in row.bars],
        )

    def _bar(self, bar: BuildBar, row: BuildRow) -> DrawnBar:
        begin = self._percent(bar.begin)
        width = max(self._percent(self._end_of(bar)) - begin, _LEAST_WIDTH)
        is_silent = bar.end is None and self.is_overdue
        marks = (("typical", bar.typical_at), ("budget", bar.budget_at))
        return DrawnBar(
            begin=begin,
            width=width,
            look=bar.look,
            text=self._described(bar, row),
            target=bar.target or "timeline-table",
            sign=bar.sign if bar is row.latest else "",
            is_repeated=bar.count > 1,
            silence=max(ROOM - begin - width, 0.0) if is_silent else 0.0,
            marks=tuple(
                (name, self._percent(at))
                for name, at in marks
                if at is not None and bar.end is None and at <= self.end
            ),
        )

    def _execution(self, bar: BuildBar) -> DrawnExecution:
        return DrawnExecution(
            number=bar.count,
            look=bar.look,
            outcome=f"{bar.sign} {bar.word}".lstrip(),
            begin=self.offset(bar.begin),
            end=self.offset(bar.end) if bar.end is not None else "",
            took=duration(self._end_of(bar) - bar.begin),
        )

    def _end_of(self, bar: BuildBar) -> float:
        """Return its end, or its end so far."""
        return max(self.reached, bar.begin) if bar.end is None else bar.end

    def _took(self, row: BuildRow) -> str:
        """Return the longest duration in a row; with a `+` if that is, or may be, too short."""
        longest = max(row.bars, key=lambda bar: self._end_of(bar) - bar.begin)
        if longest.look == "told" or (longest.end is None and self._end_of(longest) == longest.begin):
            return ""
        is_whole = longest.end is not None and longest.look != "interrupted"
        return duration(self._end_of(longest) - longest.begin) + ("" if is_whole else "+")

    def _described(self, bar: BuildBar, row: BuildRow) -> str:
        """`Disk setup: done, from 10s to 2m 30s, 2m 20s`."""
        often = f" {bar.count} times" if bar.count > 1 else ""
        what = f"{row.name}: {bar.word}{often}"
        if bar.look == "told" and bar.count == 1:
            return f"{what}, at {self.offset(bar.begin)}"
        if bar.typical_at is not None:
            what += f", which typically takes {duration(bar.typical_at - bar.begin)}"
        if bar.budget_at is not None:
            what += f", overdue at {self.offset(bar.budget_at)}"
        until = f"to {self.offset(bar.end)}, {duration(bar.end - bar.begin)}" if bar.end is not None else "on"
        return f"{what}, from {self.offset(bar.begin)} {until}"


_MOST_AHEAD: Final = 4
"""Times what has passed: typical ends and budgets farther ahead are said, but not drawn."""


def timeline(
    build: BuildSummary,
    steps: Sequence[Repeated[StepShown]],
    boots: Sequence[Boot],
    services: Iterable[BuildRow],
    now: float,
    *,
    is_latest: bool = True,
    pace: Pace | None = None,
) -> Timeline:
    """Return the timeline of a build, from its steps and boots, and from the services that ran.

    It ends when the build did. Of one that goes on it ends now; where a report is overdue, bars end at the
    last one.
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
    whole = BuildBar(
        begin=build.started_at,
        end=reached if is_over else None,
        look=LOOKS.get(build.verdict, "running"),
        verdict=build.verdict,
    )
    rows = [
        BuildRow(name=f"build {build.number}", bars=(whole,)),
        *boot_rows(boots, reached if is_over else None),
        *step_rows(steps, is_over=is_over, end=build.updated_at, pace=pace),
        *ran,
    ]
    farthest = reached + _MOST_AHEAD * (reached - build.started_at)
    marks = (at for row in rows for bar in row.bars for at in (bar.typical_at, bar.budget_at))
    return Timeline(
        build.started_at,
        max([reached, *(at for at in marks if at is not None and at <= farthest)]),
        tuple(thinned(row) for row in rows),
        reached,
        is_overdue,
    )

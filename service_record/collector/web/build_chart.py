"""The timeline of a build: its boots, steps and services as rows of bars on one time axis.

The result is a `Drawing`, like the charts of `analyze --output html`. The bars of boots and steps come from
reports, those of services from service records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from service_record.collector.domain.progress import Repeated
from service_record.collector.domain.records_page import ServiceRan
from service_record.collector.domain.silence import SilenceBudgets
from service_record.collector.store.host_rows import Boot, BuildSummary, StepShown
from service_record.collector.web.pages import LOOKS, SIGNS
from service_record.display.charts import offset
from service_record.display.drawing import ChartBar, ChartRow, Drawing, axis_for
from service_record.display.text import duration

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildBar:
    """A bar. Times are seconds since 1970."""

    begin: float
    end: float | None
    """None if it has not ended yet."""
    look: str
    target: str = ""
    """The id of the page's element with details, or empty."""
    verdict: str = ""
    """The verdict, for the bar of a whole build: it replaces the word and sign of `look`."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """`typical`: time when such a step typically ends; `budget`: time from which it is overdue."""

    @property
    def sign(self) -> str:
        return SIGNS[self.verdict] if self.verdict in SIGNS else _SIGNS_AND_WORDS[self.look][0]

    @property
    def word(self) -> str:
        return self.verdict or _SIGNS_AND_WORDS[self.look][1]

    def seconds(self, reached: float) -> float:
        """Return the duration in seconds, up to `reached` if it has not ended."""
        return max(reached - self.begin, 0.0) if self.end is None else self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRow:
    """A row of bars with its name."""

    name: str
    bars: tuple[BuildBar, ...]
    is_step: bool = False


def service_rows(services: Iterable[ServiceRan], begin: float, end: float) -> Iterator[BuildRow]:
    """Yield a row for each service that ran between `begin` and `end`, by the host's clock."""
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
    """The typical and the longest duration of steps on hosts of one group and release."""

    budgets: SilenceBudgets = field(default_factory=SilenceBudgets)
    group: str = ""
    release: str = ""

    def typical(self, label: str) -> float | None:
        """Return the typical duration of a step in seconds, or None."""
        return self.budgets.typical_of_step(label, self.group, self.release)

    def budget(self, label: str) -> float:
        """Return the seconds that may pass without a report while this step is the latest."""
        return self.budgets.of_step(label, self.group, self.release).seconds


def step_rows(
    steps: Sequence[Repeated[StepShown]], *, is_over: bool, end: float, pace: Pace
) -> Iterator[BuildRow]:
    """Yield a row for each step, ordered by priority and then by first report.

    `end` is the time of the last report.
    """
    bars: dict[str, list[BuildBar]] = {}
    reports: dict[str, StepShown] = {}
    latest = ""
    for step in (step for group in steps for step in group.reports):
        reports[step.label] = step
        latest = step.label
        _apply_report(bars.setdefault(step.label, []), step)
    targets = {f"step-{step.id}" for group in steps for step in group.latest}
    for label, row in sorted(bars.items(), key=lambda item: reports[item[0]].priority):
        last = row[-1]
        if is_over and last.end is None:
            row[-1] = replace(last, end=max(end, last.begin), look="interrupted")
        elif last.end is None:
            typical = pace.typical(label)
            marks = {} if typical is None else {"typical": last.begin + typical}
            if label == latest:
                marks["budget"] = max(end, last.begin) + pace.budget(label)
            row[-1] = replace(last, marks=marks)
        linked = (bar if bar.target in targets else replace(bar, target="") for bar in row)
        yield BuildRow(name=reports[label].name, bars=tuple(linked), is_step=True)


def _apply_report(bars: list[BuildBar], step: StepShown) -> None:
    """Apply one report to a row: it begins a bar, ends the open bar, or is a point outside of all bars."""
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
    """Yield a row with a bar for each boot until the next one, or nothing if there are no boots."""
    if boots:
        ends = [*(boot.begin for boot in boots[1:]), end]
        bars = (
            BuildBar(begin=boot.begin, end=until, look="boot")
            for boot, until in zip(boots, ends, strict=True)
        )
        yield BuildRow(name="boots" if len(boots) > 1 else "boot", bars=tuple(bars))


_MAX_AHEAD_FACTOR: Final = 4
"""Marks that are farther in the future than this many times the elapsed time are not drawn, because they
would squeeze the bars. The text of the bar still names them.
"""


def build_drawing(
    build: BuildSummary,
    steps: Sequence[Repeated[StepShown]],
    boots: Sequence[Boot],
    services: Iterable[BuildRow],
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
    farthest = reached + _MAX_AHEAD_FACTOR * (reached - build.started_at)
    marks = (at for row in rows for bar in row.bars for at in bar.marks.values())
    end = max([reached, *(at for at in marks if at <= farthest)])
    drawn = [_chart_row(row, build.started_at, reached) for row in rows]
    return Drawing(
        id="timeline",
        title="Timeline",
        axis=axis_for(0.0, end - build.started_at, reached - build.started_at, drawn),
        reached=reached - build.started_at,
        is_overdue=is_overdue,
        digits=0,
        rows=drawn,
    )


def _chart_row(row: BuildRow, zero: float, reached: float) -> ChartRow:
    longest = max(row.bars, key=lambda bar: bar.seconds(reached))
    is_whole = longest.end is not None and longest.look != "interrupted"
    is_point = longest.look == "told" or (longest.end is None and longest.seconds(reached) == 0)
    return ChartRow(
        name=row.name,
        whole_name=row.name,
        is_strong=not row.is_step,
        took="" if is_point else duration(longest.seconds(reached)) + ("" if is_whole else "+"),
        bars=[
            ChartBar(
                start=bar.begin - zero,
                end=None if bar.end is None else bar.end - zero,
                look=bar.look,
                sign=bar.sign,
                word=bar.word,
                took=duration(bar.seconds(reached)),
                text=_describe(row.name, bar, zero),
                number=number,
                target=bar.target,
                marks=tuple((kind, at - zero) for kind, at in bar.marks.items()),
            )
            for number, bar in enumerate(row.bars, start=1)
        ],
    )


def _describe(name: str, bar: BuildBar, zero: float) -> str:
    """Return the text of a bar, such as `Disk setup: done, from 10s to 2m 30s, 2m 20s`."""

    def at(time: float) -> str:
        return offset(round(time - zero))

    what = f"{name}: {bar.word}"
    if bar.look == "told":
        return f"{what}, at {at(bar.begin)}"
    if "typical" in bar.marks:
        what += f", which typically takes {duration(bar.marks['typical'] - bar.begin)}"
    if "budget" in bar.marks:
        what += f", overdue at {at(bar.marks['budget'])}"
    until = f"to {at(bar.end)}, {duration(bar.end - bar.begin)}" if bar.end is not None else "on"
    return f"{what}, from {at(bar.begin)} {until}"

"""Charts: rows of bars on one time axis, made from a history. Pure.

`timeline` draws a chart in a terminal and writes it as a document, `drawing` draws it on a page. The
collector makes the rows from the reports of a build.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from math import ceil, floor
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from service_record.display.phrases import VERBS, headline, is_rough, name, seconds_text
from service_record.history import History, ServiceHistory
from service_record.history.build import Now, true_time
from service_record.history.critical_chain import Link, critical_chain, startup_end, startup_seconds
from service_record.history.outcome import JOURNAL_RECORDER, Outcome, Run, Span, Stage, alike, order
from service_record.history.results import ClockStep

_LONGEST: Final = 1e10
"""Seconds, about 300 years. A damaged record may have any number."""


def believable(seconds: float | None) -> float | None:
    """Return an uptime or duration; None if it is negative or impossibly long."""
    return seconds if seconds is not None and 0 <= seconds <= _LONGEST else None


class BootClock(msgspec.Struct, frozen=True, kw_only=True):
    """Converts times and uptimes to offsets in a chart, which are seconds since `zero`."""

    zero: datetime | None
    """The time of the boot, or of the first entry if no entry has an uptime; None if no entry has a date."""
    is_by_uptime: bool
    last: float
    """The offset of the last entry."""
    now: float | None = None
    """The offset of the present, at least that of the last entry; None if the boot is over."""
    ahead: timedelta = timedelta()
    """The offset from UTC that all records share although labelled UTC. Their times are shown as recorded."""
    corrected_offsets: tuple[timedelta, ...] = ()
    """The offsets from UTC if the records have different ones. Their times are shown corrected."""

    def offsets(self, span: Span, run: Run, service: ServiceHistory) -> tuple[float | None, float | None]:
        """Return the offsets of the start and the end of a span.

        The end is None while the span is running. An interrupted span is drawn until the last entry of its
        run, although it may have lasted longer. The start is None if its entry was lost; for a run, the first
        entry is used instead.
        """
        start = believable(span.uptime) if self.is_by_uptime else None
        begun = run.first_entry if span is run and span.started is None else span.started
        if start is None and begun is not None:
            start = self.by_clock(begun, run, service)
        if span.outcome is Outcome.RUNNING:
            return start, None
        duration = believable(span.duration)
        if start is not None and duration is not None:
            return start, start + duration
        end = span.ended or (run.last_entry if span.outcome is Outcome.INTERRUPTED or span is run else None)
        if end is None:
            last = believable(run.last_uptime) if self.is_by_uptime and run.last_entry is None else None
            return start, start if start is None or last is None else max(start, last)
        return start, max(self.by_clock(end, run, service), start if start is not None else float("-inf"))

    def time(self, offset: float) -> datetime | None:
        """Return the displayed time of an offset; None if no entry has a date."""
        return None if self.zero is None else self.zero + timedelta(seconds=offset) + self.ahead

    def displayed_time(self, recorded: datetime, service: ServiceHistory) -> datetime:
        """Return the displayed time of a recorded time, by the clock of the chart."""
        return true_time(recorded, service) + self.ahead

    def by_clock(self, time: datetime, run: Run, service: ServiceHistory) -> float:
        """Return the offset of a time, counted back from the run's last entry if that has an uptime."""
        uptime = believable(run.last_uptime) if self.is_by_uptime else None
        if uptime is not None and run.last_entry is not None:
            return uptime - (run.last_entry - time).total_seconds()
        return (true_time(time, service) - self.zero).total_seconds() if self.zero is not None else 0.0


def boot_clock(runs: Sequence[tuple[Run, ServiceHistory]], boot_id: str | None, now: Now) -> BootClock:
    """Return the clock of a boot. `runs` are all its runs with times or, without dates, with uptimes.

    The time of the boot is calculated from the latest entry with an uptime: hosts set their clocks while they
    start, so later times are more reliable.
    """
    readings = [
        (uptime, true_time(run.last_entry, service))
        for run, service in runs
        if (uptime := believable(run.last_uptime)) is not None and run.last_entry is not None
    ]
    uptimes = [uptime for run, _ in runs if (uptime := believable(run.last_uptime)) is not None]
    times = [true_time(run.first_entry, service) for run, service in runs if run.first_entry is not None]
    if readings:
        uptime, last_time = max(readings, key=itemgetter(0))
        zero: datetime | None = last_time - timedelta(seconds=uptime)
    else:
        zero = min(times, default=None)
    offsets = sorted({service.utc_offset or timedelta() for _, service in runs})
    ahead, wrong = (offsets[0], []) if len(offsets) == 1 else (timedelta(), filter(None, offsets))
    clock = BootClock(
        zero=zero,
        is_by_uptime=bool(readings) or zero is None,
        last=0,
        ahead=ahead,
        corrected_offsets=tuple(wrong),
    )
    last = max(
        chain(
            (
                clock.by_clock(run.last_entry, run, service)
                for run, service in runs
                if run.last_entry is not None
            ),
            uptimes if clock.is_by_uptime else (),
        )
    )
    is_over = boot_id not in {None, now.boot_id}
    return replace(clock, last=last, now=None if is_over else max(last, _now(clock, now)))


def _now(clock: BootClock, now: Now) -> float:
    uptime = believable(now.uptime)
    if clock.is_by_uptime and uptime is not None:
        return uptime
    if clock.zero is None:
        return 0.0
    return (now.time - clock.zero).total_seconds()


_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_STEPS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 20, 30),
    *(count * _MINUTE for count in (1, 2, 5, 10, 20, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Possible distances of two ticks, in seconds."""
_USUAL: Final = 10
_MARGIN: Final = 0.1
_NEAR_BOOT: Final = 0.3


def ticks(begin: float, end: float, most: int) -> list[float]:
    """Return at most `most` round offsets in seconds, evenly spread from `begin` to `end`."""
    if end <= begin:
        return [begin]
    step = _step(end - begin, most)
    first, last = ceil(begin / step), floor(end / step)
    return [round(count * step, 3) for count in range(first, last + 1)][:most]


def round_begin(begin: float, end: float) -> float:
    """Return the start of an axis: the boot or a round time before `begin`, if that needs little room."""
    if 0 <= begin <= (end - begin) * _NEAR_BOOT:
        return 0.0
    step = _step(end - begin, _USUAL)
    earlier = floor(begin / step) * step
    return earlier if begin - earlier <= (end - begin) * _MARGIN else begin


def _step(span: float, most: int) -> float:
    """Return the smallest step with which `most` steps cover the span."""
    least = span / max(most, 1)
    if least > _STEPS[-1]:
        return _STEPS[-1] * ceil(least / _STEPS[-1])
    return _STEPS[bisect_left(_STEPS, least)]


def offset(seconds: float) -> str:
    """Return an offset as text: `0s`, `0.25s`, `1m 10s`, `2h`, `1d 12h`."""
    if seconds < 0:
        return f"-{offset(-seconds)}"
    whole, part = divmod(round(seconds, 3), _MINUTE)
    days, rest = divmod(int(whole) * _MINUTE, _DAY)
    hours, rest = divmod(rest, _HOUR)
    amounts = ((days, "d"), (hours, "h"), (rest // _MINUTE, "m"), (round(part, 3), "s"))
    return " ".join(f"{amount:g}{unit}" for amount, unit in amounts if amount) or "0s"


_RunAndService: TypeAlias = tuple[Run, ServiceHistory]
_Key: TypeAlias = tuple["RowKind", str, int, str]
_Place: TypeAlias = tuple[tuple[float, int], ...]
"""A sort key: start and number of each stage around a span, outermost first, and of the span itself."""


class RowKind(StrEnum):
    SERVICE = "service"
    PRE_COMMAND = "pre-command"
    STAGE = "stage"
    POST_COMMAND = "post-command"


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. Its offsets are seconds since the zero of the chart."""

    start: float | None
    """None if the entry of the start was lost."""
    end: float | None
    """None while it is running; the last known offset if it was interrupted."""
    ready: float | None = None
    """The end of its start-up, if a journal has it. `seconds` is then the duration of the start-up."""
    seconds: float | None = None
    """The duration, if it is known."""
    is_whole: bool = True
    """False if `seconds` is only a lower limit: it is running or was interrupted."""
    is_rough: bool = False
    """True if its times are whole seconds, because the recorder's clock has no fractions."""
    look: str
    """The class of its colour and pattern on a page: an outcome, `told` for a report, or `boot`."""
    sign: str | None = None
    """The sign after the bar. If it is None, the sign of `look` is used."""
    word: str
    """The outcome in a word."""
    headline: str = ""
    """The outcome with its place: `failed in stage pull`."""
    number: int
    """Its attempt."""
    time: datetime | None = None
    """The displayed time of its start, or of its end if the start is unknown."""
    started: datetime | None = None
    """The time of its start entry, as recorded."""
    ended: datetime | None = None
    """The time of its end entry, as recorded."""
    target: str = ""
    """The id of a part of the page that says more about it than the table."""
    marks: tuple[tuple[str, float], ...] = ()
    """Kind and offset of each mark on it: `typical`, its typical end, and `budget`, when it is overdue."""
    text: str = ""
    """The tooltip of the bar. If it is empty, the tooltip is made from the other fields."""

    @property
    def took(self) -> str:
        """The duration as text: `9.5s`, or `9.5s+` if that is a lower limit. Empty if it is unknown."""
        if self.seconds is None:
            return ""
        return seconds_text(self.seconds, is_rough=self.is_rough) + ("" if self.is_whole else "+")

    @property
    def first(self) -> float:
        """The first known offset of the bar."""
        return self.start if self.start is not None else self.end or 0.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The executions of one service, stage or command that share a row, in order."""

    kind: RowKind
    service: str = ""
    """Empty for a step that a host reported."""
    name: str
    depth: int = 0
    """0 for a service, 1 for its commands and stages, 2 or more for nested stages."""
    command: str | None = None
    """The pre- or post-command that the stage is part of."""
    bars: tuple[Bar, ...]

    @property
    def latest(self) -> Bar:
        return self.bars[-1]

    @property
    def longest(self) -> Bar:
        return max(self.bars, key=_length)

    def title(self, *, flat: bool) -> str:
        """Return the displayed name; with `flat`, preceded by the names of its service and command."""
        lead = {RowKind.PRE_COMMAND: "pre: ", RowKind.POST_COMMAND: "post: "}.get(self.kind, "")
        text = lead + name(self.name)
        if not flat or self.kind is RowKind.SERVICE or not self.service:
            return text
        within = f"{name(self.command)}: " if self.command is not None else ""
        return f"{name(self.service)}: {within}{text}"


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """The chart of one boot, or of all runs if no run has a boot id."""

    boot_id: str | None
    number: int
    """The number of the boot, from 1; 0 if no boot is known."""
    log: str = ""
    """The service whose log has no dates. Its offsets count from the first line of the log."""
    clock: BootClock
    begin: float
    end: float
    rows: tuple[Row, ...]
    clock_steps: tuple[ClockStep, ...] = ()
    chain: tuple[Link, ...] = ()
    """The critical chain of the start-up, if a journal shows it. Its times are offsets in the chart."""


def charts(
    history: History, now: Now, *, apart: bool = False, by_duration: bool = False, startup: bool = False
) -> list[Chart]:
    """Return the charts of a history, oldest boot first. Runs without any time are left out.

    Runs without a date are drawn by their uptimes: in the chart of their boot or, if nothing says which boot
    that is, in a chart of their own. Only the uptimes in a journal count from the boot of the host, so
    each service of an installer's log without dates has its own chart.

    A service has one row for all its runs or, with `apart`, one for each group of runs that ended alike.
    Services are sorted by their start, with their stages and commands below them. With `by_duration`, all
    rows are sorted together, longest first. With `startup`, a chart ends when the host has started, if a
    journal shows that.
    """
    boots: dict[str | None, list[_RunAndService]] = {boot_id: [] for boot_id in history.boots}
    starts = _boot_starts(history)
    steps = _steps(history)
    numbers: dict[str | None, int] = {boot_id: number for number, boot_id in enumerate(history.boots, 1)}
    for service in history.services:
        for run in service.runs:
            if run.first_entry is not None:
                boot_of_run = run.boot_id if run.boot_id in starts else _find_boot(run, service, starts)
                boots.setdefault(boot_of_run, []).append((run, service))
    undated: dict[tuple[str | None, str], list[_RunAndService]] = {}
    for service in history.services:
        for run in service.runs:
            if run.first_entry is None and is_drawn(run):
                is_of_log = run.is_derived and not (run.recorder or "").startswith(JOURNAL_RECORDER)
                log = service.name if is_of_log else ""
                place = boots.get(run.boot_id) if run.boot_id is not None and not log else None
                has_uptimes = place and any(believable(one.last_uptime) is not None for one, _ in place)
                if place is not None and has_uptimes:
                    place.append((run, service))
                else:
                    undated.setdefault((run.boot_id, log), []).append((run, service))
    # An installation is before the boots of the installed host.
    groups = [*undated.items(), *(((boot_id, ""), runs) for boot_id, runs in boots.items())]
    drawn = [
        _chart(
            boot_id,
            log,
            numbers.get(boot_id, 0),
            placed,
            steps=steps.get(boot_id, ()),
            now=now,
            apart=apart,
        )
        for (boot_id, log), placed in groups
        if placed
    ]
    if startup:
        drawn = [_end_at_startup(chart) for chart in drawn]
    if not by_duration:
        return drawn
    return [
        replace(chart, rows=tuple(sorted(chart.rows, key=lambda row: _length(row.longest), reverse=True)))
        for chart in drawn
    ]


def is_drawn(run: Run) -> bool:
    """Return True if a run has a date or an uptime, so that a chart shows it."""
    return run.first_entry is not None or believable(run.last_uptime) is not None


def _boot_starts(history: History) -> dict[str | None, float]:
    """Return the time of the first entry of each boot, in seconds since 1970, oldest boot first."""
    starts: dict[str | None, float] = dict.fromkeys(history.boots, float("inf"))
    for service in history.services:
        for run in service.runs:
            if run.boot_id in starts:
                written = order(true_time(run.first_entry, service))
                starts[run.boot_id] = min(starts[run.boot_id], written)
    return starts


def _find_boot(run: Run, service: ServiceHistory, starts: Mapping[str | None, float]) -> str | None:
    """Return the boot of a run without a boot id: the latest that began before it, or else the first."""
    time = order(true_time(run.first_entry, service))
    before = [boot_id for boot_id, begin in starts.items() if begin <= time]
    return before[-1] if before else next(iter(starts), None)


def _steps(history: History) -> dict[str | None, list[ClockStep]]:
    """Return the steps of the clock by boot, without impossible ones."""
    steps: dict[str | None, list[ClockStep]] = {}
    for step in history.clock_steps:
        if believable(step.uptime) and believable(abs(step.seconds)):
            steps.setdefault(step.boot_id, []).append(step)
    return steps


def _chart(
    boot_id: str | None,
    log: str,
    number: int,
    placed: Sequence[_RunAndService],
    *,
    steps: Iterable[ClockStep],
    now: Now,
    apart: bool,
) -> Chart:
    # The uptimes of an installer's log count from its first line: that of the host is not comparable.
    clock = boot_clock(placed, boot_id, replace(now, uptime=None) if log else now)
    rows = _all_rows(placed, clock, apart=apart)
    bars = [bar for row in rows for bar in row.bars]
    offsets = [offset for bar in bars for offset in (bar.start, bar.end) if offset is not None]
    if clock.now is not None and any(bar.look == Outcome.RUNNING for bar in bars):
        offsets.append(clock.now)
    end = max([*offsets, clock.last])
    begin = round_begin(min(offsets, default=0.0), end)
    origin = 0.0 if clock.is_by_uptime or clock.zero is None else clock.zero.timestamp()
    chain = critical_chain(run for run, _ in placed)
    return Chart(
        chain=tuple(
            replace(link, started=link.started - origin, ready=link.ready - origin) for link in chain
        ),
        boot_id=boot_id,
        number=number,
        log=log,
        clock=clock,
        begin=begin,
        end=end,
        rows=rows,
        clock_steps=tuple(steps),
    )


def _end_at_startup(chart: Chart) -> Chart:
    end = startup_end(chart.chain)
    if end is None:
        return chart
    rows = (
        replace(row, bars=tuple(_cut(bar, end) for bar in row.bars if bar.first <= end)) for row in chart.rows
    )
    return replace(chart, rows=tuple(row for row in rows if row.bars), end=end)


def _cut(bar: Bar, end: float) -> Bar:
    return replace(bar, end=end) if bar.end is None or bar.end > end else bar


def _all_rows(placed: Iterable[_RunAndService], clock: BootClock, *, apart: bool) -> tuple[Row, ...]:
    """Return all rows, with those of a service together. Services are in the order of their starts."""
    services: dict[str, tuple[ServiceHistory, list[Run]]] = {}
    for run, service in placed:
        services.setdefault(service.name, (service, []))[1].append(run)
    blocks: list[list[Row]] = []
    for service, runs in services.values():
        groups = alike(runs) if apart else [runs]
        rows = sorted((_rows(service, group, clock) for group in groups), key=_block_start)
        blocks.append(list(chain.from_iterable(rows)))
    blocks.sort(key=_block_start)
    return tuple(chain.from_iterable(blocks))


def _block_start(rows: Sequence[Row]) -> float:
    return rows[0].bars[0].first


def _rows(service: ServiceHistory, runs: Iterable[Run], clock: BootClock) -> list[Row]:
    """Return the row for runs of a service, followed by the rows of its commands and stages.

    The latter are in the order of their starts. A stage with the id of its parent comes directly after the
    parent, before rows that begin later.
    """
    bars_by_key: dict[_Key, list[Bar]] = {}
    places: dict[_Key, _Place] = {}
    for run in runs:
        identified: dict[str, _Place] = {}
        for number, (key, span) in enumerate(_spans(run)):
            bar = _make_bar(span, run, service, clock)
            bars_by_key.setdefault(key, []).append(bar)
            place: _Place = ((bar.first, number),)
            if isinstance(span, Stage) and span.id is not None:
                place = identified[span.id] = (*identified.get(span.parent or "", ()), *place)
            places[key] = min(places.get(key, place), place)
    first, *others = bars_by_key.items()
    in_order = [first, *sorted(others, key=lambda item: places[item[0]])]
    return [
        Row(
            kind=kind,
            service=service.name,
            name=name_,
            depth=depth,
            command=command or None,
            bars=tuple(sorted(bars, key=attrgetter("first"))),
        )
        for (kind, command, depth, name_), bars in in_order
    ]


def _spans(run: Run) -> Iterator[tuple[_Key, Span]]:
    yield (RowKind.SERVICE, "", 0, run.service), run
    for before, kind in ((True, RowKind.PRE_COMMAND), (False, RowKind.POST_COMMAND)):
        for command in run.commands:
            if command.is_before is before:
                yield (kind, "", 1, command.name), command
                yield from _stages(command.stages, command.name, 2)
        if before:
            yield from _stages(run.stages, "", 1)


def _stages(stages: Iterable[Stage], command: str, depth: int) -> Iterator[tuple[_Key, Span]]:
    for stage in stages:
        yield (RowKind.STAGE, command, depth + stage.depth, stage.name), stage


_WHOLE: Final = frozenset({Outcome.SUCCESS, Outcome.FAILURE, Outcome.STOPPED})
"""Outcomes of executions whose end is known."""


def _make_bar(span: Span, run: Run, service: ServiceHistory, clock: BootClock) -> Bar:
    start, end = clock.offsets(span, run, service)
    seconds = believable(span.duration)
    if seconds is None and start is not None:
        end_offset = end if end is not None else clock.now
        seconds = (
            round(max(end_offset - start, 0.0), 3) if end_offset is not None and end_offset != start else None
        )
    startup = startup_seconds(span) if isinstance(span, Run) and not span.outcome.is_bad else None
    ready = start + startup if start is not None and startup is not None else None
    if ready is not None:
        seconds = startup
    recorded = span.started or span.ended
    time = clock.displayed_time(recorded, service) if recorded is not None else None
    is_whole = ready is not None or span.outcome in _WHOLE
    return Bar(
        start=start,
        end=end,
        ready=ready,
        seconds=seconds,
        is_whole=is_whole,
        is_rough=is_rough(span),
        look=span.outcome.value,
        word=VERBS[span.outcome],
        headline=headline(run) if span is run else VERBS[span.outcome],
        number=run.attempt,
        time=time,
        started=span.started,
        ended=span.ended,
    )


def _length(bar: Bar) -> float:
    return bar.seconds if bar.seconds is not None else -1.0

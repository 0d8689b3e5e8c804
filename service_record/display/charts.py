"""A history as charts: for each boot, rows of bars, with seconds since the boot as their offsets. Pure.

The one value that terminal, document and HTML are drawn from.
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

from service_record.history import History, ServiceHistory
from service_record.history.build import Now, true_time
from service_record.history.critical_chain import Link, critical_chain, startup_end, startup_seconds
from service_record.history.outcome import Command, Outcome, Run, Span, Stage, alike, order
from service_record.history.results import ClockStep

_LONGEST: Final = 1e10
"""Seconds, some 300 years. A record may have any number."""


def believable(seconds: float | None) -> float | None:
    """Return an uptime or duration, where it can be one."""
    return seconds if seconds is not None and 0 <= seconds <= _LONGEST else None


class BootClock(msgspec.Struct, frozen=True, kw_only=True):
    """The zero and the clock of a chart's offsets."""

    zero: datetime
    """The boot of the host, or the first entry of all where no entry has an uptime."""
    is_by_uptime: bool
    last: float
    """The offset of the last entry."""
    now: float | None = None
    """The present, or the last that is known of, as an offset; None when the boot is over."""
    ahead: timedelta = timedelta()
    """The distance of all its records' times from UTC, as far as known: times are shown as recorded."""
    put_right: tuple[timedelta, ...] = ()
    """The errors of the times, if only some are wrong: these are shown corrected."""

    def offsets(self, span: Span, run: Run, service: ServiceHistory) -> tuple[float | None, float | None]:
        """Return when a span of a run began and ended; of what is running, the end is None.

        What was interrupted ended at the last entry of its run, or later: nobody knows. The beginning is None
        when it was lost, but a run began with its first entry at the latest.
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
            return start, start
        return start, max(self.by_clock(end, run, service), start if start is not None else float("-inf"))

    def time(self, offset: float) -> datetime:
        """Return the time at an offset, as it is shown."""
        return self.zero + timedelta(seconds=offset) + self.ahead

    def corrected(self, recorded: datetime, service: ServiceHistory) -> datetime:
        """Return a time of a record, as it is shown: by the clock that the whole chart goes by."""
        return true_time(recorded, service) + self.ahead

    def by_clock(self, time: datetime, run: Run, service: ServiceHistory) -> float:
        """Return an offset from a time; measured from the last entry of the run, where that has an uptime."""
        uptime = believable(run.last_uptime) if self.is_by_uptime else None
        if uptime is not None and run.last_entry is not None:
            return uptime - (run.last_entry - time).total_seconds()
        return (true_time(time, service) - self.zero).total_seconds()


def boot_clock(runs: Sequence[tuple[Run, ServiceHistory]], boot_id: str | None, now: Now) -> BootClock:
    """Return the clock of a boot, given all runs in it that have times.

    The boot was when the run that recorded last says: clocks are set while hosts start, and are right later.
    """
    uptimes = ((believable(run.last_uptime), run, service) for run, service in runs)
    readings = [
        (uptime, true_time(run.last_entry, service))
        for uptime, run, service in uptimes
        if uptime is not None and run.last_entry is not None
    ]
    if readings:
        uptime, last_time = max(readings, key=itemgetter(0))
        zero = last_time - timedelta(seconds=uptime)
    else:
        zero = min(
            true_time(run.first_entry, service) for run, service in runs if run.first_entry is not None
        )
    offsets = sorted({service.utc_offset or timedelta() for _, service in runs})
    ahead, put_right = (offsets[0], []) if len(offsets) == 1 else (timedelta(), filter(None, offsets))
    clock = BootClock(zero=zero, is_by_uptime=bool(readings), last=0, ahead=ahead, put_right=tuple(put_right))
    last = max(
        clock.by_clock(run.last_entry, run, service) for run, service in runs if run.last_entry is not None
    )
    is_over = boot_id not in {None, now.boot_id}
    return replace(clock, last=last, now=None if is_over else max(last, _now(clock, now)))


def _now(clock: BootClock, now: Now) -> float:
    uptime = believable(now.uptime)
    if clock.is_by_uptime and uptime is not None:
        return uptime
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
"""Seconds between two ticks."""
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
    """Return where an axis begins: at the boot or a round time before `begin`, if that costs little room."""
    if 0 <= begin <= (end - begin) * _NEAR_BOOT:
        return 0.0
    step = _step(end - begin, _USUAL)
    earlier = floor(begin / step) * step
    return earlier if begin - earlier <= (end - begin) * _MARGIN else begin


def _step(span: float, most: int) -> float:
    """Return the least step of which `most` are no shorter than the span."""
    least = span / max(most, 1)
    if least > _STEPS[-1]:
        return _STEPS[-1] * ceil(least / _STEPS[-1])
    return _STEPS[bisect_left(_STEPS, least)]


def offset(seconds: float) -> str:
    """Return a round offset in full: `0s`, `0.25s`, `1m 10s`, `2h`, `1d 12h`."""
    if seconds < 0:
        return f"-{offset(-seconds)}"
    whole, part = divmod(round(seconds, 3), _MINUTE)
    days, rest = divmod(int(whole) * _MINUTE, _DAY)
    hours, rest = divmod(rest, _HOUR)
    amounts = ((days, "d"), (hours, "h"), (rest // _MINUTE, "m"), (round(part, 3), "s"))
    return " ".join(f"{amount:g}{unit}" for amount, unit in amounts if amount) or "0s"


_Placed: TypeAlias = tuple[Run, ServiceHistory]
_Key: TypeAlias = tuple["RowKind", str, int, str]
_Place: TypeAlias = tuple[tuple[float, int], ...]
"""The start of a span and its number among those of its run, behind the same of each stage that it is in."""


class RowKind(StrEnum):
    SERVICE = "service"
    PRE_COMMAND = "pre-command"
    STAGE = "stage"
    POST_COMMAND = "post-command"


class Bar(msgspec.Struct, frozen=True):
    """One execution, in seconds since the beginning of the chart's boot."""

    start: float | None
    """None when that was lost."""
    end: float | None
    """None while it is running; of what was interrupted, the last that is known of it."""
    seconds: float | None
    """The duration; what is running or was interrupted took at least as long."""
    span: Span
    run: Run
    time: datetime | None
    """The time shown for its beginning, or else its end."""
    ready: float | None = None
    """Where a journal says so, when it had started: `seconds` is how long that took."""

    @property
    def outcome(self) -> Outcome:
        return self.span.outcome

    @property
    def is_whole(self) -> bool:
        """False when it took `seconds` or longer."""
        return self.ready is not None or self.outcome in {Outcome.SUCCESS, Outcome.FAILURE, Outcome.STOPPED}

    @property
    def first(self) -> float:
        """Return the first offset that is known of it."""
        return self.start if self.start is not None else self.end or 0.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """All executions of one service, stage or command that are drawn beside each other, in their order."""

    kind: RowKind
    service: str
    name: str
    depth: int
    """0 for a service, 1 for what is right in it."""
    command: str | None = None
    """The pre- or post-command that a stage is part of."""
    bars: tuple[Bar, ...]

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the latest run."""
        return self.bars[-1].outcome

    @property
    def longest(self) -> Bar:
        return max(self.bars, key=_length)


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One boot; or all runs where none names its boot."""

    boot_id: str | None
    number: int
    """Of the boot, from 1; 0 when none is named."""
    clock: BootClock
    begin: float
    end: float
    rows: tuple[Row, ...]
    clock_steps: tuple[ClockStep, ...] = ()
    chain: tuple[Link, ...] = ()
    """The critical chain of the start-up, as far as a journal shows it. Times are offsets in the chart."""


def charts(
    history: History, now: Now, *, apart: bool = False, by_duration: bool = False, startup: bool = False
) -> list[Chart]:
    """Return the charts of a history, oldest boot first. A run without any time is in none.

    A row has all runs of a service; with `apart`, those that came to the same. Services are in the order of
    their start, with what is in them below; `by_duration` puts what took longest first, whatever it is. With
    `startup`, a chart ends when the host has started, if a journal tells that.
    """
    boots: dict[str | None, list[_Placed]] = {boot_id: [] for boot_id in history.boots}
    begun = _begun(history)
    steps = _steps(history)
    numbers: dict[str | None, int] = {boot_id: number for number, boot_id in enumerate(history.boots, 1)}
    for service in history.services:
        for run in service.runs:
            if run.first_entry is None:
                continue
            boot_of_run = run.boot_id if run.boot_id in begun else _boot_then(run, service, begun)
            boots.setdefault(boot_of_run, []).append((run, service))
    drawn = [
        _chart(boot_id, numbers.get(boot_id, 0), placed, steps.get(boot_id, ()), now, apart=apart)
        for boot_id, placed in boots.items()
        if placed
    ]
    if startup:
        drawn = [_until_started(chart) for chart in drawn]
    return [replace(chart, rows=_blamed(chart.rows)) for chart in drawn] if by_duration else drawn


def _begun(history: History) -> dict[str | None, float]:
    """Return when the first entry of each boot was written, oldest boot first."""
    begun: dict[str | None, float] = dict.fromkeys(history.boots, float("inf"))
    for service in history.services:
        for run in service.runs:
            if run.boot_id in begun:
                written = order(true_time(run.first_entry, service))
                begun[run.boot_id] = min(begun[run.boot_id], written)
    return begun


def _boot_then(run: Run, service: ServiceHistory, begun: Mapping[str | None, float]) -> str | None:
    """Return the boot that was when a run began that names none: the latest before it, or else the first."""
    time = order(true_time(run.first_entry, service))
    before = [boot_id for boot_id, begin in begun.items() if begin <= time]
    return before[-1] if before else next(iter(begun), None)


def _steps(history: History) -> dict[str | None, list[ClockStep]]:
    """Return the believable steps of the clock in each boot."""
    steps: dict[str | None, list[ClockStep]] = {}
    for step in history.clock_steps:
        if believable(step.uptime) and believable(abs(step.seconds)):
            steps.setdefault(step.boot_id, []).append(step)
    return steps


def _chart(
    boot_id: str | None,
    number: int,
    placed: Sequence[_Placed],
    steps: Iterable[ClockStep],
    now: Now,
    *,
    apart: bool,
) -> Chart:
    clock = boot_clock(placed, boot_id, now)
    rows = _all_rows(placed, clock, apart=apart)
    bars = [bar for row in rows for bar in row.bars]
    offsets = [offset for bar in bars for offset in (bar.start, bar.end) if offset is not None]
    if clock.now is not None and any(bar.outcome is Outcome.RUNNING for bar in bars):
        offsets.append(clock.now)
    end = max([*offsets, clock.last])
    begin = round_begin(min(offsets, default=0.0), end)
    origin = 0.0 if clock.is_by_uptime else clock.zero.timestamp()
    chain = critical_chain(run for run, _ in placed)
    return Chart(
        chain=tuple(
            replace(link, started=link.started - origin, ready=link.ready - origin) for link in chain
        ),
        boot_id=boot_id,
        number=number,
        clock=clock,
        begin=begin,
        end=end,
        rows=rows,
        clock_steps=tuple(steps),
    )


def _until_started(chart: Chart) -> Chart:
    end = startup_end(chart.chain)
    if end is None:
        return chart
    rows = (
        replace(row, bars=tuple(_cut(bar, end) for bar in row.bars if bar.first <= end)) for row in chart.rows
    )
    return replace(chart, rows=tuple(row for row in rows if row.bars), end=end)


def _cut(bar: Bar, end: float) -> Bar:
    return replace(bar, end=end) if bar.end is None or bar.end > end else bar


def _all_rows(placed: Iterable[_Placed], clock: BootClock, *, apart: bool) -> tuple[Row, ...]:
    """Return the rows of each service together, in the order of their starts."""
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
    """Return the row of some runs of a service, and below it those of their parts, in the order of their
    starts.

    A stage that names the one that it is in comes behind that one, before whatever begins later.
    """
    bars_by_key: dict[_Key, list[Bar]] = {}
    places: dict[_Key, _Place] = {}
    for run in runs:
        identified: dict[str, _Place] = {}
        for number, (key, span) in enumerate(_spans(run)):
            bar = _bar(span, run, service, clock)
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
            name=name,
            depth=depth,
            command=command or None,
            bars=tuple(sorted(bars, key=attrgetter("first"))),
        )
        for (kind, command, depth, name), bars in in_order
    ]


def _spans(run: Run) -> Iterator[tuple[_Key, Span]]:
    yield (RowKind.SERVICE, "", 0, run.service), run
    for before in (True, False):
        for command in run.commands:
            if command.is_before is before:
                yield from _command(command)
        if before:
            yield from _stages(run.stages, "", 1)


def _command(command: Command) -> Iterator[tuple[_Key, Span]]:
    kind = RowKind.PRE_COMMAND if command.is_before else RowKind.POST_COMMAND
    yield (kind, "", 1, command.name), command
    yield from _stages(command.stages, command.name, 2)


def _stages(stages: Iterable[Stage], command: str, depth: int) -> Iterator[tuple[_Key, Span]]:
    for stage in stages:
        yield (RowKind.STAGE, command, depth + stage.depth, stage.name), stage


def _bar(span: Span, run: Run, service: ServiceHistory, clock: BootClock) -> Bar:
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
    time = clock.corrected(recorded, service) if recorded is not None else None
    return Bar(start, end, seconds, span, run, time, ready)


def _blamed(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: _length(row.longest), reverse=True))


def _length(bar: Bar) -> float:
    return bar.seconds if bar.seconds is not None else -1.0

"""Charts as a document for programs. Offsets and durations are seconds."""

from collections.abc import Iterable, Iterator
from typing import Literal

from service_record.display.charts import Bar, Chart, Row, RowKind
from service_record.display.machine import ProgramDocument
from service_record.display.show_document import VERSION, Count, FromOne, Time, utc_or_none
from service_record.history.outcome import Outcome


class BarDocument(ProgramDocument, frozen=True, kw_only=True):
    """An execution."""

    attempt: FromOne
    outcome: Outcome
    """How it ended, or that it has not ended."""
    start: float | None = None
    """Offset in seconds."""
    end: float | None = None
    duration: float | None = None


class RowDocument(ProgramDocument, frozen=True, kw_only=True):
    """A service, command or stage, and a line of --output jsonl."""

    boot_id: str | None = None
    """Only in --output jsonl."""
    service: str
    kind: RowKind
    command: str | None = None
    name: str
    depth: Count
    outcome: Outcome
    """How it ended, or that it has not ended."""
    longest: float | None = None
    """The seconds of the longest execution."""
    bars: tuple[BarDocument, ...]
    """Executions in the order of their start."""


class ClockChangeDocument(ProgramDocument, frozen=True, kw_only=True):
    at: float
    seconds: float


class LinkDocument(ProgramDocument, frozen=True, kw_only=True):
    """A service of the critical chain."""

    service: str
    start: float
    end: float
    gap: float


class BootDocument(ProgramDocument, frozen=True, kw_only=True):
    """A boot."""

    boot_id: str | None = None
    number: Count
    """From 1; 0 if no record names a boot."""
    zero: Time | None = None
    """The time that offsets count from. Missing if no entry has a date: offsets then count from the boot, or
    from the first line of an installer's log.
    """
    by_uptime: bool
    begin: float
    end: float
    clock_steps: tuple[ClockChangeDocument, ...]
    rows: tuple[RowDocument, ...]
    critical_chain: tuple[LinkDocument, ...] = ()


class TimelineDocument(ProgramDocument, frozen=True, kw_only=True):
    version: Literal[1]
    source: str
    """Where the records are."""
    boots: tuple[BootDocument, ...]
    """Boots, oldest first."""


def timeline_document(charts: Iterable[Chart], source: str) -> TimelineDocument:
    """Return the document of `timeline --output json` and `yaml`."""
    return TimelineDocument(version=VERSION, source=source, boots=tuple(map(_boot, charts)))


def row_lines(charts: Iterable[Chart]) -> Iterator[RowDocument]:
    """Yield the documents of `timeline --output jsonl`: each row, with its boot id."""
    for chart in charts:
        for row in chart.rows:
            yield _row(row, chart.boot_id)


def _boot(chart: Chart) -> BootDocument:
    return BootDocument(
        boot_id=chart.boot_id,
        number=chart.number,
        zero=utc_or_none(chart.clock.zero),
        by_uptime=chart.clock.is_by_uptime,
        begin=round(chart.begin, 3),
        end=round(chart.end, 3),
        clock_steps=tuple(
            ClockChangeDocument(at=round(step.uptime, 3), seconds=step.seconds) for step in chart.clock_steps
        ),
        rows=tuple(map(_row, chart.rows)),
        critical_chain=tuple(
            LinkDocument(
                service=link.service, start=round(link.started, 3), end=round(link.ready, 3), gap=link.gap
            )
            for link in chart.chain
        ),
    )


def _row(row: Row, boot_id: str | None = None) -> RowDocument:
    return RowDocument(
        boot_id=boot_id,
        service=row.service,
        kind=row.kind,
        command=row.command,
        name=row.name,
        depth=row.depth,
        outcome=Outcome(row.latest.look),
        longest=row.longest.seconds,
        bars=tuple(map(_bar, row.bars)),
    )


def _bar(bar: Bar) -> BarDocument:
    return BarDocument(
        attempt=bar.number,
        outcome=Outcome(bar.look),
        start=_milliseconds(bar.start),
        end=_milliseconds(bar.end),
        duration=_milliseconds(bar.seconds),
    )


def _milliseconds(seconds: float | None) -> float | None:
    """Return seconds that are rounded to milliseconds."""
    return None if seconds is None else round(seconds, 3)

"""A build of a host on one axis of time: the build, its boots, its steps, and the services that ran. Pure.

Drawn as the charts of `analyze --output html` are, from what hosts reported instead of from records alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service_record.collector.repeats import Repeated
from service_record.collector.store.boots import Boot
from service_record.collector.store.hosts import BuildSummary, StepShown
from service_record.collector.web.bars import Bar, Row, boot_rows, step_rows, thinned
from service_record.collector.web.words import LOOKS
from service_record.display.text import duration
from service_record.display.timeline.axis import offset, ticks

_ROOM: Final = 95.0
"""Per cent of the width that bars may take; signs stand behind them."""
_LAST_LABEL: Final = 88.0
"""Per cent at which a tick can still have a text."""
_LEAST_WIDTH: Final = 0.6
_MOST_TICKS: Final = 8


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar where it stands, in per cent of the width."""

    bar: Bar
    x: str
    width: str
    sign_x: str
    sign: str
    says: str
    """The same for those who do not see it."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """All rows of a build."""

    begin: float
    end: float
    rows: tuple[Row, ...]

    @property
    def ticks(self) -> list[tuple[str, str, str]]:
        """Position, text and class of each; those too far right for a text have none."""
        found = ticks(0.0, self.end - self.begin, _MOST_TICKS)
        places = [self._percent(self.begin + tick) for tick in found]
        return [
            (_told(at), offset(tick) if at <= _LAST_LABEL else "", "minor" if number % 2 else "major")
            for number, (tick, at) in enumerate(zip(found, places, strict=True))
        ]

    def drawn(self, row: Row) -> Iterator[Drawn]:
        """The bars of a row, in their order."""
        for bar in row.bars:
            left, right = self._percent(bar.begin), self._percent(self.end_of(bar))
            right = max(right, left + _LEAST_WIDTH)
            sign = bar.sign if bar is row.latest else ""
            says = self._says(row, bar)
            yield Drawn(bar, _told(left), _told(right - left), _told(right), sign, says)

    def end_of(self, bar: Bar) -> float:
        """Where it ends, or has come to."""
        return self.end if bar.end is None else bar.end

    def offset(self, at: float) -> str:
        """A time since the beginning: `1m 10s`."""
        return offset(round(at - self.begin))

    def took(self, row: Row) -> str:
        """How long the longest of a row took; a `+` after what took longer, or may have."""
        longest = max(row.bars, key=lambda bar: self.end_of(bar) - bar.begin)
        if longest.look == "told":
            return ""
        is_whole = longest.end is not None and longest.look != "interrupted"
        return duration(self.end_of(longest) - longest.begin) + ("" if is_whole else "+")

    def _says(self, row: Row, bar: Bar) -> str:
        """`Disk setup: done, from 10s to 2m 30s, 2m 20s`."""
        often = f" {bar.count} times" if bar.count > 1 else ""
        what = f"{row.name}: {bar.word}{often}"
        if bar.look == "told" and bar.count == 1:
            return f"{what}, at {self.offset(bar.begin)}"
        until = f"to {self.offset(bar.end)}, {duration(bar.end - bar.begin)}" if bar.end is not None else "on"
        return f"{what}, from {self.offset(bar.begin)} {until}"

    def _percent(self, at: float) -> float:
        whole = self.end - self.begin
        part = (at - self.begin) / whole if whole > 0 else 0.0
        return min(max(part, 0.0), 1.0) * _ROOM


def timeline(
    build: BuildSummary,
    steps: Sequence[Repeated[StepShown]],
    boots: Sequence[Boot],
    services: Iterable[Row],
    now: float,
    *,
    is_latest: bool = True,
) -> Timeline:
    """The timeline of a build, of its steps and boots as they are told, and of services that ran."""
    is_over = not is_latest or build.ended_at is not None or build.verdict in {"failed", "done"}
    ran = tuple(services)
    ends = [bar.end for row in ran for bar in row.bars if bar.end is not None]
    end = max([build.ended_at or build.updated_at, *ends]) if is_over else max(now, build.updated_at)
    whole = Bar(
        begin=build.started_at,
        end=end if is_over else None,
        look=LOOKS.get(build.verdict, "running"),
        verdict=build.verdict,
    )
    found = [
        Row(kind="build", name=f"build {build.number}", bars=(whole,)),
        *boot_rows(boots, None if not is_over else end),
        *step_rows(steps, is_over=is_over, end=build.updated_at),
        *ran,
    ]
    return Timeline(build.started_at, end, tuple(thinned(row) for row in found))


def _told(percent: float) -> str:
    return f"{percent:.3f}%"

"""Steps of a host's clock: where its time and its uptime disagree about how much has passed. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import attrgetter
from typing import Final

from service_record.entry import Entry
from service_record.history.spans import RunSpan

LEAST_STEP: Final = 2.0
"""Seconds. A recorder reads the time and the uptime one after the other, on a busy host not quite at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """One time that the clock was set, within a boot."""

    boot_id: str | None
    uptime: float
    """Of the first entry after it, in seconds since boot."""
    before: datetime
    """What the last entry before it has."""
    after: datetime
    """What the first entry after it has."""
    seconds: float
    """How far the clock was set: negative when back."""


def clock_steps(records: Iterable[Iterable[RunSpan]]) -> tuple[ClockStep, ...]:
    """The steps in each boot, in the order of uptime, that the runs of all services tell together."""
    boots: dict[str | None, list[_Reading]] = {}
    for runs in records:
        for boot_id, reading in _edges(runs):
            boots.setdefault(boot_id, []).append(reading)
    return tuple(step for boot_id, readings in boots.items() for step in _steps(boot_id, readings))


def _edges(runs: Iterable[RunSpan]) -> Iterator[tuple[str | None, "_Reading"]]:
    """The readings of one service around each step, and the first and last of each boot: all it takes."""
    last: dict[str | None, tuple[_Reading, bool]] = {}
    for entry in (entry for run in runs for entry in (run.first, run.last)):
        if entry.uptime is None:
            continue
        reading = _reading(entry, entry.uptime)
        before, is_told = last.get(entry.boot_id, (None, True))
        is_edge = before is None or abs(reading.ahead - before.ahead) >= LEAST_STEP
        if is_edge:
            if before is not None and not is_told:
                yield entry.boot_id, before
            yield entry.boot_id, reading
        last[entry.boot_id] = (reading, is_edge)
    yield from ((boot_id, reading) for boot_id, (reading, is_told) in last.items() if not is_told)


@dataclass(frozen=True, slots=True)
class _Reading:
    uptime: float
    time: datetime
    ahead: float
    """Time less uptime: what only a step of the clock changes."""


def _reading(entry: Entry, uptime: float) -> _Reading:
    time = entry.time
    return _Reading(uptime, time, time.timestamp() - uptime)


def _steps(boot_id: str | None, readings: Iterable[_Reading]) -> Iterator[ClockStep]:
    for before, after in pairwise(sorted(readings, key=attrgetter("uptime"))):
        seconds = after.ahead - before.ahead
        if abs(seconds) >= LEAST_STEP:
            yield ClockStep(
                boot_id=boot_id,
                uptime=after.uptime,
                before=before.time,
                after=after.time,
                seconds=round(seconds, 2),
            )

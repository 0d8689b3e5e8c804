"""Steps of a host's clock: where its time and its uptime disagree about how much has passed. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from operator import attrgetter, sub
from typing import Final, NamedTuple

import msgspec

from service_record.history.spans import RunSpan

LEAST_STEP: Final = 2.0
"""Seconds. A recorder reads the time and the uptime one after the other, on a busy host not quite at once."""


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
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
    boots: dict[str | None, list[_ClockReading]] = {}
    for runs in records:
        for boot_id, bounds in _by_boot(runs).items():
            boots.setdefault(boot_id, []).extend(_edges(bounds))
    return tuple(step for boot_id, readings in boots.items() for step in _steps(boot_id, readings))


class _ClockReading(NamedTuple):
    uptime: float
    time: datetime
    ahead: float
    """Time less uptime: what only a step of the clock changes."""


class _Bounds(NamedTuple):
    """The uptime and the time of the first and the last entry of each run, in their order."""

    uptimes: list[float]
    times: list[datetime]

    def add(self, uptime: float | None, time: datetime | None) -> None:
        if uptime is not None and time is not None:
            self.uptimes.append(uptime)
            self.times.append(time)


def _by_boot(runs: Iterable[RunSpan]) -> dict[str | None, _Bounds]:
    """Boot id -> what is known of the runs in that boot."""
    boots: dict[str | None, _Bounds] = defaultdict(lambda: _Bounds([], []))
    for run in runs:
        for entry in (run.first, run.last):
            boots[entry.boot_id].add(entry.uptime, entry.time)
    return {boot_id: bounds for boot_id, bounds in boots.items() if bounds.times}


def _edges(bounds: _Bounds) -> Iterator[_ClockReading]:
    """The readings of one service in one boot around each step, the first and the last: all it takes."""
    ahead = list(map(sub, map(datetime.timestamp, bounds.times), bounds.uptimes))
    has_steps = max(ahead) - min(ahead) >= LEAST_STEP
    steps = {
        place
        for place, (before, after) in enumerate(pairwise(ahead if has_steps else ()))
        if abs(after - before) >= LEAST_STEP
    }
    for place in sorted({0, *steps, *(place + 1 for place in steps), len(ahead) - 1}):
        yield _ClockReading(bounds.uptimes[place], bounds.times[place], ahead[place])


def _steps(boot_id: str | None, readings: Iterable[_ClockReading]) -> Iterator[ClockStep]:
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

"""What speaks against the clock of a host: set while the host ran, or never, gone back, or local. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from service_record.diagnosis.findings import BackwardBoot, ClockFinding, LocalTimes, UnsetClock
from service_record.history import History

WORTH_TELLING: Final = 10.0
"""Seconds. Smaller steps are what a time service does when it starts, and harm nobody."""
_NOTHING_RECORDED_BEFORE: Final = datetime(2021, 1, 1, tzinfo=UTC)
"""The year in which the format of records was made."""


def clock_findings(history: History) -> tuple[ClockFinding, ...]:
    """Local times, times of a clock that was never set, its steps, and boots before the boot before them."""
    steps = (step for step in history.clock_steps if abs(step.seconds) >= WORTH_TELLING)
    return (*_local(history), *_unset(history), *steps, *_backward(history))


def _local(history: History) -> Iterator[LocalTimes]:
    """Those of all records together, which are of one host, or of several where these were joined."""
    zones: dict[timedelta, list[str]] = {}
    for service in history.services:
        if service.utc_offset is not None:
            zones.setdefault(service.utc_offset, []).append(service.name)
    for offset, services in zones.items():
        yield LocalTimes(services=tuple(services), utc_offset=offset)


def _unset(history: History) -> Iterator[UnsetClock]:
    for service in history.services:
        times = [run.first_entry for run in service.runs.heads if run.first_entry is not None]
        unset = [time for time in times if time < _NOTHING_RECORDED_BEFORE]
        if unset:
            yield UnsetClock(service=service.name, time=unset[-1])


def _backward(history: History) -> Iterator[BackwardBoot]:
    """Boots in the order in which the records have them: their first times should rise."""
    if len(history.boots) <= 1:
        return
    first: dict[str, datetime] = {}
    for service in history.services:
        for run in service.runs.heads:
            if run.boot_id is not None and run.first_entry is not None:
                first[run.boot_id] = min(run.first_entry, first.get(run.boot_id, run.first_entry))
    known = [(boot_id, first[boot_id]) for boot_id in history.boots if boot_id in first]
    for (_, before), (boot_id, after) in pairwise(known):
        if after < before:
            yield BackwardBoot(boot_id=boot_id, time=after, earlier=before)

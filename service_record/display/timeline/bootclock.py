"""Where in a boot something happened: seconds by its uptime, and by the clock for what has none. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.now import Now, true_time
from service_record.history import ServiceHistory
from service_record.history.outcome import Outcome, Run, Span

_LONGEST: Final = 1e10
"""Seconds, some 300 years. A record may have any number."""


def believable(seconds: float | None) -> float | None:
    """An uptime or duration, where it can be one."""
    return seconds if seconds is not None and 0 <= seconds <= _LONGEST else None


class BootClock(msgspec.Struct, frozen=True, kw_only=True):
    """What the offsets of a chart count from."""

    zero: datetime
    """The boot of the host, or the first entry of all where no entry has an uptime."""
    is_by_uptime: bool
    last: float
    """The offset of the last entry."""
    now: float | None = None
    """The present, or the last that is known of, as an offset; None when the boot is over."""
    ahead: timedelta = timedelta()
    """How far from UTC the times of all its records are, as far as known: times are shown as recorded."""
    put_right: tuple[timedelta, ...] = ()
    """Where only some have such times, how far off those are: they are shown put right."""

    def offsets(self, span: Span, run: Run, service: ServiceHistory) -> tuple[float | None, float | None]:
        """When a span of a run began and ended; of what is running, the end is None.

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
        """The time at an offset, as it is shown."""
        return self.zero + timedelta(seconds=offset) + self.ahead

    def shown(self, recorded: datetime, service: ServiceHistory) -> datetime:
        """A time of a record, as it is shown: by the clock that the whole chart goes by."""
        return true_time(recorded, service) + self.ahead

    def by_clock(self, time: datetime, run: Run, service: ServiceHistory) -> float:
        """An offset from a time; measured from the last entry of the run, where that has an uptime."""
        uptime = believable(run.last_uptime) if self.is_by_uptime else None
        if uptime is not None and run.last_entry is not None:
            return uptime - (run.last_entry - time).total_seconds()
        return (true_time(time, service) - self.zero).total_seconds()


def boot_clock(runs: Sequence[tuple[Run, ServiceHistory]], boot_id: str | None, now: Now) -> BootClock:
    """The clock of a boot, given all runs in it that have times.

    The boot was when the run that recorded last says: clocks are set while hosts start, and are right later.
    """
    uptimes = ((believable(run.last_uptime), run, service) for run, service in runs)
    known = [
        (uptime, true_time(run.last_entry, service))
        for uptime, run, service in uptimes
        if uptime is not None and run.last_entry is not None
    ]
    if known:
        uptime, last_time = max(known, key=itemgetter(0))
        zero = last_time - timedelta(seconds=uptime)
    else:
        zero = min(
            true_time(run.first_entry, service) for run, service in runs if run.first_entry is not None
        )
    offsets = sorted({service.utc_offset or timedelta() for _, service in runs})
    ahead, put_right = (offsets[0], []) if len(offsets) == 1 else (timedelta(), filter(None, offsets))
    clock = BootClock(zero=zero, is_by_uptime=bool(known), last=0, ahead=ahead, put_right=tuple(put_right))
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

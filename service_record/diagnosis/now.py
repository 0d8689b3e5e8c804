"""The moment as of which running services are judged. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Final, overload

import msgspec

from service_record.history import History, ServiceHistory
from service_record.history.outcome import Run, Span

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """A moment by the clock, and by the uptime of one boot."""

    time: datetime
    boot_id: str | None = None
    uptime: float | None = None
    is_latest_entry: bool = False
    """True when nothing later than the records is known: what runs has run at least as long."""

    def since(self, span: Span, run: Run, service: ServiceHistory) -> float | None:
        """Return seconds since a span of a run began; by uptime within a boot.

        None when that is not known.
        """
        if span.uptime is not None and self.uptime is not None and run.boot_id == self.boot_id:
            seconds = self.uptime - span.uptime
        elif span.started is not None:
            seconds = (self.time - true_time(span.started, service)).total_seconds()
        else:
            return None
        return round(seconds, 3) if seconds >= 0 else None


def boot_times(history: History) -> dict[str | None, float]:
    """Boot id -> the time of the boot in seconds since 1970, by the clock as it was at the last entry.

    With it, uptimes of different boots compare, whatever the clock did meanwhile.
    """
    latest: dict[str | None, tuple[float, float]] = {}
    for service in history.services:
        for run in service.runs:
            if run.last_uptime is None or run.last_entry is None:
                continue
            if run.last_uptime >= latest.get(run.boot_id, (0.0, 0.0))[0]:
                latest[run.boot_id] = (run.last_uptime, run.last_entry.timestamp())
    return {boot_id: time - uptime for boot_id, (uptime, time) in latest.items()}


def latest_entry(history: History) -> Now:
    """Return the moment of the last entry of the latest boot: what is known of records of another host."""
    boot_id = history.boots[-1] if history.boots else None
    last: list[datetime] = []
    uptimes: list[float] = []
    for service in history.services:
        runs = [run for run in service.runs if run.boot_id is None or run.boot_id == boot_id]
        times = [run.last_entry for run in runs if run.last_entry is not None]
        if times:
            last.append(true_time(max(times), service))
        uptimes += [run.last_uptime for run in runs if run.last_uptime is not None]
    return Now(
        time=max(last, default=_BEGINNING),
        boot_id=boot_id,
        uptime=max(uptimes, default=None),
        is_latest_entry=True,
    )


@overload
def true_time(recorded: datetime, service: ServiceHistory) -> datetime: ...
@overload
def true_time(recorded: datetime | None, service: ServiceHistory) -> datetime | None: ...
def true_time(recorded: datetime | None, service: ServiceHistory) -> datetime | None:
    """Correct a time of a record that labels local times as UTC; None where it has none."""
    return None if recorded is None else recorded - (service.utc_offset or timedelta())

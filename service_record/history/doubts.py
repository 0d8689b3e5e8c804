"""What the files speak against in the records that they hold. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from service_record.history.build import History, ServiceHistory

_QUARTER: Final = 15 * 60  # all in seconds
_LEAST_OFFSET: Final = 2 * _QUARTER
_TOLERANCE: Final = 2 * 60
_WEST: Final = -12 * 3600
_EAST: Final = 14 * 3600


def doubted(
    history: History,
    written: Mapping[str, float],
    unfinished: Collection[str],
    damaged: Collection[str] = (),
) -> History:
    """The history with what speaks against its records.

    `written` says when the file of a service was last written, `unfinished` which lie beside a file that was
    to replace them, `damaged` which beside a copy of what was damaged in them. Times are doubted where all of
    upstream's records are off by the same: a host has one zone, while files that were copied have any time.
    """
    offsets = {
        service.name: utc_offset(last, written[service.name])
        for service in history.services
        if service.name in written and (last := _last_of_upstream(service)) is not None
    }
    offset = next(iter(offsets.values())) if len(set(offsets.values())) == 1 else None
    services = (
        replace(
            service,
            utc_offset=offset if service.name in offsets else None,
            is_unfinished=service.name in unfinished,
            has_damaged_copy=service.name in damaged,
        )
        for service in history.services
    )
    return replace(history, services=tuple(services))


def utc_offset(recorded: datetime, written: float) -> timedelta | None:
    """The zone of a clock that was taken for UTC, given what it showed and, since 1970, when that was.

    Zones are whole quarter hours from UTC, no less than 30 minutes here, from -12 to +14 hours. None when the
    two times are not such an offset apart, give or take two minutes.
    """
    ahead = recorded.timestamp() - written
    offset = round(ahead / _QUARTER) * _QUARTER
    is_zone = _WEST <= offset <= _EAST and abs(offset) >= _LEAST_OFFSET
    return timedelta(seconds=offset) if is_zone and abs(ahead - offset) <= _TOLERANCE else None


def _last_of_upstream(service: ServiceHistory) -> datetime | None:
    """Return the last time of a record whose last run is of upstream's shim, which writes local time.

    That shim knows no ids.
    """
    if not service.runs:
        return None
    run = service.runs[-1]
    return run.last_entry if run.boot_id is None and run.pid is None else None

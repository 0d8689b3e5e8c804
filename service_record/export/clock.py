"""Times of a boot that no step of the clock touches."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from service_record.entry import Entry, Malformed

_Records: TypeAlias = Sequence[tuple[str, Sequence[Entry | Malformed]]]


def with_steady_clock(records: _Records) -> _Records:
    """The records with the times of each boot counted by its uptime, back from its last entry.

    That entry's clock is the one most likely to have been set by then. An entry without an uptime, as all of
    upstream's, keeps its time.
    """
    booted = _boot_times(records)
    return [(service, [_timed(piece, booted) for piece in pieces]) for service, pieces in records]


def _boot_times(records: _Records) -> dict[str | None, datetime]:
    """Boot id -> when it was that the uptime was 0, as told by the clock of its last entry."""
    last: dict[str | None, Entry] = {}
    for _, pieces in records:
        for piece in pieces:
            if isinstance(piece, Entry) and piece.uptime is not None and piece.time is not None:
                known = last.get(piece.boot_id, piece)
                if piece.uptime >= (known.uptime or 0):
                    last[piece.boot_id] = piece
    found = {}
    for boot_id, entry in last.items():
        time = entry.time
        if time is None:
            continue
        try:
            found[boot_id] = time - timedelta(seconds=entry.uptime or 0)
        except OverflowError:  # an uptime of more than there are years
            continue
    return found


def _timed(piece: Entry | Malformed, booted: dict[str | None, datetime]) -> Entry | Malformed:
    if isinstance(piece, Malformed) or piece.uptime is None or piece.boot_id not in booted:
        return piece
    time = booted[piece.boot_id] + timedelta(seconds=piece.uptime)
    return replace(piece, timestamp=time.astimezone(UTC).isoformat(timespec="microseconds"))

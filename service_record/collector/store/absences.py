"""Absences: times in which the collector could not receive reports, because no process or no database ran."""

from typing import Final

from sqlalchemy import Connection, func, insert, select, update

from service_record.collector.domain.silence import Absence
from service_record.collector.store.dialects import insert_into
from service_record.collector.store.schema import absences, counters

BEAT_SECONDS: Final = 2.0
"""Each process stores a beat at least this often."""
ABSENT_SECONDS: Final = 5.0
"""A longer time without a beat of any process, before this process started, is an absence."""
STALLED_SECONDS: Final = 15.0
"""The same limit while this process runs. It is longer because a busy machine still receives reports,
although its beats are late.
"""
_BEAT: Final = "beat"
_READ_DAYS: Final = 8
_MOST_READ: Final = 100


def store_beat(connection: Connection, now: float, without_beat: float | None) -> Absence | None:
    """Store a beat. Return the absence that has just ended, or None.

    `without_beat`: seconds since the last beat of this process by a monotonic clock, or None at the start of
    the process. With it, a change of the time of day does not count as an absence.
    """
    milliseconds = round(now * 1000)
    first = insert_into(connection, counters).values(name=_BEAT, latest=milliseconds)
    connection.execute(first.on_conflict_do_nothing(index_elements=["name"]))
    of_beat = counters.c.name == _BEAT
    latest = (
        connection.execute(select(counters.c.latest).where(of_beat).with_for_update()).scalar_one() / 1000
    )
    connection.execute(update(counters).where(of_beat).values(latest=milliseconds))
    away = now - latest if without_beat is None else min(now - latest, without_beat)
    if away <= (ABSENT_SECONDS if without_beat is None else STALLED_SECONDS):
        return None
    absence = Absence(now - away, now)
    connection.execute(insert(absences).values(began_at=absence.began_at, ended_at=absence.ended_at))
    return absence


def sum_absences(connection: Connection) -> float:
    """Return the total duration of all absences in seconds."""
    seconds = func.sum(absences.c.ended_at - absences.c.began_at)
    return float(connection.execute(select(seconds)).scalar_one() or 0.0)


def read_absences(connection: Connection, now: float) -> tuple[Absence, ...]:
    """Return the absences that can matter for a deadline, oldest first."""
    query = select(absences.c.began_at, absences.c.ended_at)
    query = query.where(absences.c.ended_at > now - _READ_DAYS * 24 * 3600.0)
    rows = connection.execute(query.order_by(absences.c.ended_at.desc()).limit(_MOST_READ)).all()
    return tuple(Absence(row.began_at, row.ended_at) for row in reversed(rows))

"""Find the years of the times in a journal as text, most of which lack them. Pure."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.evidence.log_lines import Era, is_without_year, parse_time, time_in_journal
from service_record.history.from_journal import move_years
from service_record.record.recognition import TIMES


class TextTimes:
    """The times of a journal as text, most of which lack the year.

    Each time gets the year in which it is nearest to the one before it, because the clock may also have been
    set back. So the years of all lines differ from the true ones by the same number, which only the end of
    the journal shows.
    """

    def __init__(self, era: Era) -> None:
        self._end = self._era = era
        self._stamp = ""
        self._time: datetime | None = None
        self._added: int | None = None
        """The years to add by the kernel's message about the hardware clock."""

    def parse(self, stamp: str) -> datetime | None:
        if stamp != self._stamp:
            self._time = time_in_journal(stamp, self._era)
            if self._time is not None:
                self._stamp, self._era = stamp, Era.around(self._time)
        return self._time

    def add_clock(self, line: str, text: str) -> None:
        """Add a line in which the kernel logs the hardware clock: its year is right unless it was reset."""
        clock, match = parse_time(text), re.match(TIMES, line)
        time = self.parse(match[0]) if match is not None else None
        if clock is None or time is None or match is None:
            return
        true = time_in_journal(match[0], Era.around(clock))
        if true is not None and abs(true - clock) <= _MAX_CLOCK_DIFFERENCE:
            self._added = true.year - time.year

    @property
    def years_to_add(self) -> int:
        if self._added is not None:
            return self._added
        last = time_in_journal(self._stamp, self._end) if self._stamp else None
        return 0 if last is None or self._time is None else last.year - self._time.year

    @property
    def is_assumed(self) -> bool:
        """Return True if neither the times nor other lines of the journal have the year."""
        return self._added is None and is_without_year(self._stamp)


_MAX_CLOCK_DIFFERENCE: Final = timedelta(days=1)
"""Between the hardware clock and the time of its line, because of time zones."""


def find_eras(lines: Iterable[tuple[int, bytes]], era: Era) -> list[tuple[int, Era]]:
    """Return the eras in which the lines of a file without years are read, each with its first line.

    `lines` are numbered lines of the file in order. Records are derived from the same lines with `TextTimes`,
    so that evidence and records get the same years. `era` is the period of the records.
    """
    times = TextTimes(era)
    found: list[tuple[int, datetime]] = []
    month = b""
    for number, raw in lines:
        if raw[:3] == month:
            continue  # the year can only change with the month
        month = raw[:3]
        stamp = re.match(TIMES, raw.decode(errors="replace"))
        time = None if stamp is None or not is_without_year(stamp[0]) else times.parse(stamp[0])
        if time is not None:
            found.append((number, time))
    years = times.years_to_add
    if found and era.first is not None and era.last is not None:
        first, last = move_years(found[0][1], years + 1), move_years(found[-1][1], years)
        # A journal that goes on for days after the last record is not of the year before.
        if first is not None and last is not None and last < era.first - _MONTH and first <= era.last:
            years += 1
    return [(number, replace(era, near=move_years(time, years))) for number, time in found]


_MONTH: Final = timedelta(days=31)

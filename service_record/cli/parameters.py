"""Durations, sizes and moments as people type them: `--timeout 10m`, `--max-size 64M`, `--since
yesterday`.
"""

import re
from datetime import datetime, timedelta
from typing import Final

import click

from service_record.record.durations import parse_duration


class Duration(click.ParamType[float]):
    """Seconds."""

    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_NAMES_OF_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO: Final = re.compile(r"-?((?:\d+[smhdw] ?)+)(?:ago)?")
_MOMENTS: Final = "2026-11-21T03:12, 10m or -10m (ago), today, yesterday, now, @1700000000"


class MomentType(click.ParamType[datetime]):
    """An aware datetime; what names no zone is in that of this host."""

    name = "time"

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_moment(value, datetime.now().astimezone())
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time; times are like {_MOMENTS}", param, ctx)


def parse_moment(text: str, now: datetime) -> datetime:
    """The moment that a text means; ValueError or OverflowError when it means none."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if text in named:
        return named[text]
    if text.startswith("@"):
        return datetime.fromtimestamp(float(text[1:]), now.tzinfo)
    ago = _AGO.fullmatch(text)
    if ago:
        amounts = re.findall(r"(\d+)([smhdw])", ago[1])
        return now - sum((timedelta(**{_NAMES_OF_UNITS[unit]: int(n)}) for n, unit in amounts), timedelta())
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.astimezone()


_SIZE: Final = re.compile(r"(\d{1,15}) ?(?:([KMG])(?:i?B)?|B)?", re.IGNORECASE)
_BYTES_OF_UNIT: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Size(click.ParamType[int]):
    """Bytes; a K is 1024 of them."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not isinstance(value, str):
            return value
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is no size; sizes are like 64M, 512 KiB, 1G, 1000000", param, ctx)
        return int(found[1]) * _BYTES_OF_UNIT[(found[2] or "").upper()]

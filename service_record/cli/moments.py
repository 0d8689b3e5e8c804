"""Moments as people type them: `--since yesterday`, `--until 10m`."""

import re
from datetime import datetime, timedelta
from typing import Final

import click

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO: Final = re.compile(r"-?((?:\d+[smhdw] ?)+)(?:ago)?")
_FORMS: Final = "2026-11-21T03:12, 10m or -10m (ago), today, yesterday, now, @1700000000"


class Moment(click.ParamType[datetime]):
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
            self.fail(f"{value!r} is no time; times are like {_FORMS}", param, ctx)


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
        return now - sum((timedelta(**{_UNITS[unit]: int(n)}) for n, unit in amounts), timedelta())
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.astimezone()

"""Durations and sizes as people write them. Pure."""

import re
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(?:(\d{1,9}(?:\.\d{1,3})?)([smhd]?))(?: ?(\d{1,9})([smhd]))?", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,3})?) ?(?:([KMG])i?)?B?", re.IGNORECASE | re.ASCII)
_BYTES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Parse a size in bytes: `65536`, `512 KiB`, `12M`. A K is 1024. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a valid size; use 65536, 512 KiB, 12M or 1G")
    return int(float(match[1]) * _BYTES[(match[2] or "").upper()])


def parse_duration(text: str) -> float:
    """Parse a duration in seconds: `90`, `90s`, `5m`, `1h30m`, `1.5h`. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a valid duration; use one like 90s, 5m, 1h30m")
    number, unit, more, smaller = match.groups()
    if more and not unit:
        raise ValueError(f"{text!r} is not a valid duration; use one like 90s, 5m, 1h30m")
    return float(number) * _UNITS[unit or "s"] + (int(more) * _UNITS[smaller] if more else 0)

"""Round times along an axis. Pure."""

from bisect import bisect_left
from math import ceil, floor
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_STEPS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 20, 30),
    *(count * _MINUTE for count in (1, 2, 5, 10, 20, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Seconds between two ticks."""
_USUAL: Final = 10
_MARGIN: Final = 0.1
_NEAR_BOOT: Final = 0.3


def ticks(begin: float, end: float, most: int) -> list[float]:
    """At most `most` round offsets in seconds, evenly spread from `begin` to `end`."""
    if end <= begin:
        return [begin]
    step = _step(end - begin, most)
    first, last = ceil(begin / step), floor(end / step)
    return [round(count * step, 3) for count in range(first, last + 1)][:most]


def round_begin(begin: float, end: float) -> float:
    """Where an axis begins: with the boot or at a round time before `begin`, when that costs little room."""
    if 0 <= begin <= (end - begin) * _NEAR_BOOT:
        return 0.0
    step = _step(end - begin, _USUAL)
    earlier = floor(begin / step) * step
    return earlier if begin - earlier <= (end - begin) * _MARGIN else begin


def _step(span: float, most: int) -> float:
    """The least step of which `most` are no shorter than the span."""
    wanted = span / max(most, 1)
    if wanted > _STEPS[-1]:
        return _STEPS[-1] * ceil(wanted / _STEPS[-1])
    return _STEPS[bisect_left(_STEPS, wanted)]


def offset(seconds: float) -> str:
    """A round offset in full: `0s`, `0.25s`, `1m 10s`, `2h`, `1d 12h`."""
    if seconds < 0:
        return f"-{offset(-seconds)}"
    whole, part = divmod(round(seconds, 3), _MINUTE)
    days, rest = divmod(int(whole) * _MINUTE, _DAY)
    hours, rest = divmod(rest, _HOUR)
    amounts = ((days, "d"), (hours, "h"), (rest // _MINUTE, "m"), (round(part, 3), "s"))
    return " ".join(f"{amount:g}{unit}" for amount, unit in amounts if amount) or "0s"

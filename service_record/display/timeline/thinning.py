"""Bars that nobody could tell apart, as one. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from service_record.display.timeline.charts import Bar
from service_record.history.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Drawn:
    """One bar or several, from `begin` to `end`."""

    begin: float
    end: float
    bar: Bar
    """The latest of them."""
    count: int = 1
    is_followed: bool = False
    """True when the next bar leaves no room behind this one."""

    @property
    def outcome(self) -> Outcome:
        return self.bar.outcome


def thinned(bars: Iterable[Bar], least: float, edge: float) -> list[Drawn]:
    """The bars in their order; those alike, short and less than `least` seconds apart are drawn as one.

    What is running ends at the edge.
    """
    drawn = list(_joined(bars, least, edge))
    followed = [later.begin - earlier.end < 2 * least for earlier, later in pairwise(drawn)]
    return [
        replace(one, is_followed=is_followed)
        for one, is_followed in zip(drawn, [*followed, False], strict=True)
    ]


def _joined(bars: Iterable[Bar], least: float, edge: float) -> Iterator[Drawn]:
    last: Drawn | None = None
    for bar in bars:
        end = bar.end if bar.end is not None else edge
        this = Drawn(bar.first, end, bar)
        if last is None:
            last = this
        elif last.outcome is bar.outcome and this.begin - last.end < least and end - this.begin < least:
            last = replace(last, end=max(last.end, end), bar=bar, count=last.count + 1)
        else:
            yield last
            last = this
    if last is not None:
        yield last

"""Find the units that a boot waited for, from the times at which units started and became ready. Pure.

A journal does not name the dependencies of units. But systemd starts a unit as soon as the last of its
dependencies is ready, so that dependency is probably the unit that became ready right before the start.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from service_record.history.outcome import STARTUP, Run

_GOALS: Final = ("graphical.target", "Graphical Interface", "multi-user.target", "Multi-User System")
"""Targets at the end of a boot, the latest first, by name or description."""
_TOLERANCE_SECONDS: Final = 0.001  # times have milliseconds
_MAX_LINKS: Final = 200


class Link(msgspec.Struct, frozen=True):
    """A unit in the chain. Times are in seconds from an origin that all links of a chain share."""

    service: str
    started: float
    ready: float
    gap: float
    """Seconds between the end of the unit before in the chain and the start of this one."""


def startup_seconds(run: Run) -> float | None:
    """Return how long the start of a run from a journal took, in seconds; None if this is unknown."""
    value = next((value for name, value in run.attributes if name == STARTUP), None)
    return float(value) if run.is_derived and isinstance(value, int | float) else None


def critical_chain(runs: Iterable[Run]) -> tuple[Link, ...]:
    """Return the units that the start-up of one boot waited for, in the order of their starts.

    The chain is empty if no run is from a journal, or if the journal has only whole seconds: then the order
    of starts is unknown.
    """
    starts: dict[str, Link] = {}
    for run in runs:
        link = _make_link(run)
        if link is not None and run.service not in starts:
            starts[run.service] = link
    links = list(starts.values())
    if not links or all(link.started.is_integer() for link in links):
        return ()
    goal = next((starts[name] for name in _GOALS if name in starts), None)
    return _trace_back(goal or max(links, key=lambda link: link.ready), links)


def startup_end(chain: Sequence[Link]) -> float | None:
    """Return the time at which the last unit of a chain was ready; None for an empty chain."""
    return chain[-1].ready if chain else None


def _make_link(run: Run) -> Link | None:
    startup = startup_seconds(run)
    started = run.uptime
    if started is None and run.started is not None:
        started = run.started.timestamp()
    if startup is None or started is None or run.outcome.is_bad:
        return None
    return Link(run.service, started, started + startup, 0.0)


def _trace_back(last: Link, links: Sequence[Link]) -> tuple[Link, ...]:
    chain: list[Link] = []
    seen = {last.service}
    while True:
        before = max(
            (
                link
                for link in links
                if link.service not in seen and link.ready <= last.started + _TOLERANCE_SECONDS
            ),
            key=lambda link: (link.ready, link.started),
            default=None,
        )
        if before is None or len(chain) >= _MAX_LINKS:
            return tuple(reversed([*chain, last]))
        chain.append(msgspec.structs.replace(last, gap=round(max(last.started - before.ready, 0.0), 3)))
        seen.add(before.service)
        last = before

"""Whether a run without an end can still be running: running and interrupted told apart. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

from service_record.history.spans import Activity


def _unknown(_pid: int, _uptime: float | None) -> bool | None:
    return None


_NO_TIME: Final = "~"
"""Sorts behind every timestamp."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """What the host that reads the records knows of itself; by default nothing."""

    boot_id: str | None = None
    """Of the boot that is running now."""
    is_at_home: bool = False
    """True when the records are certainly this host's own, so that a run of any other boot is over."""
    is_alive: Callable[[int, float | None], bool | None] = _unknown
    """Whether the process of that pid, which ran at that uptime of this boot, is there; None when unknown."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What tells running from interrupted, for all records of one host."""

    liveness: Liveness
    latest_boot: str | None

    def may_run(self, activity: Activity, *, superseded: bool) -> bool:
        """True when a run or command without an end may still be running.

        The process decides where it can be asked; otherwise a later run of the service, or a later boot.
        """
        boot_id, pid = activity.first.boot_id, activity.first.pid
        if boot_id is not None and boot_id == self.liveness.boot_id and pid is not None:
            alive = self.liveness.is_alive(pid, activity.first.uptime)
            if alive is not None:
                return alive
        return not superseded and (boot_id is None or boot_id == self.latest_boot)


def boots_in_order(records: Iterable[dict[str, str]]) -> tuple[str, ...]:
    """The boot ids of all records, oldest first; of each record, boot id -> timestamp of its first entry.

    The order within one record is certain. Between records the timestamps decide: the clock of a freshly
    booted host may be years off. Records that contradict each other are put in the order of timestamps.
    """
    records = list(records)
    seen: dict[str, str] = {}
    for boots in records:
        for boot_id, timestamp in boots.items():
            known = timestamp or _NO_TIME
            seen[boot_id] = min(known, seen.get(boot_id, known))
    sorter = TopologicalSorter[str](dict.fromkeys(seen, ()))
    for boots in records:
        for earlier, later in pairwise(boots):
            sorter.add(later, earlier)
    try:
        sorter.prepare()
    except CycleError:
        return tuple(sorted(seen, key=lambda boot_id: seen[boot_id]))
    return tuple(_earliest_first(sorter, seen))


def _earliest_first(sorter: TopologicalSorter[str], seen: dict[str, str]) -> Iterable[str]:
    ready = [(seen[boot_id], boot_id) for boot_id in sorter.get_ready()]
    heapify(ready)
    while ready:
        _, boot_id = heappop(ready)
        yield boot_id
        sorter.done(boot_id)
        for following in sorter.get_ready():
            heappush(ready, (seen[following], following))

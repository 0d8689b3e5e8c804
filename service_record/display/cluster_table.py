"""The clusters that a collector knows: a short table, and why one needs somebody."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from rich.cells import cell_len

from service_record.display.text import BLANK, Glyphs, Ink, Line, View, age, count, cut_within, one_line, wrap
from service_record.record.visible import visible

Time = Annotated[float, Meta(ge=0, le=1e11)]
"""Seconds since 1970, of a year of four digits."""
MOST: Final = 5
"""Clusters above the hosts of a whole fleet."""
_INKS: Final = {
    "error": Ink.BAD,
    "insufficient": Ink.WORRYING,
    "pending-for-input": Ink.WORRYING,
    "installed": Ink.GOOD,
    "cancelled": Ink.FAINT,
}
_GAP: Final = "  "
_SINCE: Final = 5
_NODES: Final = len("Nodes joined")
_REASON_LINES: Final = 3


class Cluster(msgspec.Struct, frozen=True):
    """A cluster as a collector tells of it. Times are seconds since 1970 by the collector's clock."""

    id: str
    status: str
    name: str = ""
    reason: str = ""
    since: Time | None = None
    hosts: int = 0
    joined: int = 0
    needed_control_planes: int = 0
    installed_control_planes: int = 0
    defined_workers: int = 0
    installed_workers: int = 0
    csrs_approved: int | None = None
    finalizing_stage: str = ""

    @property
    def label(self) -> str:
        return self.name or self.id


class ClustersAnswer(msgspec.Struct, frozen=True):
    """Clusters, those that need somebody first."""

    clusters: tuple[Cluster, ...]


def cluster_table(clusters: Sequence[Cluster], now: float, view: View) -> Iterator[Line]:
    """Yield a line for each cluster, and below it what it waits for."""
    if not clusters:
        return
    states = max(len("State"), *(cell_len(visible(cluster.status)) for cluster in clusters))
    room = view.width - 2 - states - _SINCE - _NODES - 3 * len(_GAP)
    longest = max(len("Cluster"), *(cell_len(visible(cluster.label)) for cluster in clusters))
    width = max(min(longest, room), len("Cluster"))
    heading = ("Cluster", width), ("State", states), ("Since", _SINCE), ("Nodes joined", 0)
    yield BLANK
    yield ((f"  {_GAP.join(_pad(*column) for column in heading)}", Ink.FAINT),)
    for cluster in clusters:
        ink = _INKS.get(cluster.status, Ink.BUSY)
        since = "" if cluster.since is None else age(now - cluster.since)
        label = cut_within(visible(cluster.label), width, view.glyphs.cut)
        yield (
            (f"{_sign(ink, view.glyphs)} ", ink),
            (_pad(label, width) + _GAP, Ink.STRONG),
            (_pad(visible(cluster.status), states) + _GAP, ink),
            (f"{_pad(since, _SINCE)}{_GAP}{cluster.joined} of {cluster.hosts}", Ink.PLAIN),
        )
        if cluster.status != "installed":
            for row in wrap(one_line(cluster.reason), view.width - 4)[:_REASON_LINES]:
                yield ((f"    {row}", Ink.FAINT),)


def more_clusters(number: int) -> Line:
    """Return the line that says how many clusters are left out."""
    return ((f"  and {count(number, 'cluster')} more: --cluster NAME shows one", Ink.FAINT),)


def _sign(ink: Ink, glyphs: Glyphs) -> str:
    signs = {Ink.BAD: glyphs.failure, Ink.WORRYING: glyphs.interrupted, Ink.GOOD: glyphs.success}
    signs[Ink.FAINT] = glyphs.stopped
    return signs.get(ink, glyphs.running)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))

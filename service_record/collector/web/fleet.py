"""The fleet: every host in a row, those with trouble first."""

import hashlib
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.serving import Serving
from service_record.collector.collector import Collector
from service_record.collector.store.clusters import ClusterSummary, list_clusters
from service_record.collector.store.fleet import Fleet, fleet, groups
from service_record.collector.web.look import ROWS, Look
from service_record.collector.web.pages import page, render
from service_record.collector.web.sessions import viewer_of
from service_record.collector.web.words import counted

_DIGITS = 16
_MOST_CLUSTERS = 5
"""Above the hosts; the page of clusters has all."""


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """A page of the fleet at one moment."""

    look: Look
    fleet: Fleet
    clusters: tuple[ClusterSummary, ...]
    """Those that are shown above the hosts, and more than fit there."""
    now: float

    @property
    def state(self) -> str:
        """Tells whether anything that is shown has changed."""
        shown = [(host.name, host.revision) for host in self.fleet.hosts]
        clusters = [(cluster.id, cluster.revision) for cluster in self.clusters]
        return digest((shown, sorted(self.fleet.counts.items()), self.fleet.total, clusters))

    @property
    def revisions(self) -> dict[str, int]:
        return {host.name: host.revision for host in self.fleet.hosts}

    @property
    def pages(self) -> int:
        return max(1, -(-self.fleet.total // ROWS))

    @property
    def sentence(self) -> str:
        """The counts in words."""
        return counted(self.fleet.total, self.fleet.counts, self.look.verdicts)

    def values(self) -> dict[str, Any]:
        """What the templates show."""
        return {
            "look": self.look,
            "fleet": self.fleet,
            "clusters": self.clusters[:_MOST_CLUSTERS],
            "more_clusters": max(len(self.clusters) - _MOST_CLUSTERS, 0),
            "now": self.now,
            "state": self.state,
            "pages": self.pages,
            "sentence": self.sentence,
        }

    def whole(self) -> str:
        """The part of the page that changes."""
        return render("fleet_live.html", **self.values())

    def row(self, name: str) -> str:
        """The row of a host."""
        host = next(host for host in self.fleet.hosts if host.name == name)
        return render("fleet_row.html", host=host, now=self.now)

    def tally(self) -> str:
        """How many there are of each verdict."""
        return render("fleet_tally.html", **self.values())


async def get_fleet(request: Request) -> Response:
    """`GET /`: the fleet, narrowed by the query."""
    serving = Serving.of(request)
    look = Look.of(request.query_params)
    grant = viewer_of(request)
    seen = await run_in_threadpool(see_fleet, serving.collector, look, grant.confined_to)
    known = await run_in_threadpool(_groups, serving.collector, grant.confined_to)
    return page(
        "fleet.html",
        **seen.values(),
        groups=known,
        here="fleet",
        signed_in=grant.name or "session",
    )


def see_fleet(collector: Collector, look: Look, confined_to: str) -> FleetSeen:
    """Return what a look sees now, for a reader who may be confined to a group."""
    now = collector.now()
    with collector.database.reading() as connection:
        filters = look.filters(now, confined_to)
        found = fleet(connection, filters, ROWS, (look.page - 1) * ROWS)
        shown: tuple[ClusterSummary, ...] = ()
        if look.shows_clusters:
            shown = list_clusters(
                connection, named=look.clusters, confined_to=confined_to, done_since=filters.done_since
            )
    return FleetSeen(look, found, shown, now)


def _groups(collector: Collector, confined_to: str) -> tuple[str, ...]:
    with collector.database.reading() as connection:
        return groups(connection, confined_to)


def digest(value: object) -> str:
    """A short mark of a value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:_DIGITS]

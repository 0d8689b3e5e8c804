"""Clusters: their list, and one with its hosts, its operators, its logs and its events."""

from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.cluster_calls import find_cluster
from service_record.collector.api.serving import caller
from service_record.collector.process import Collector
from service_record.collector.store.cluster_rows import (
    ClusterDetail,
    ClusterSummary,
    list_clusters,
    shown_since,
)
from service_record.collector.web.fleet_page import digest
from service_record.collector.web.pages import page, render
from service_record.display.text import count


@dataclass(frozen=True, slots=True)
class ClustersSeen:
    """The clusters at one moment."""

    clusters: tuple[ClusterSummary, ...]
    is_all: bool
    now: float

    @property
    def state(self) -> str:
        """Return a key that changes with what is shown."""
        return digest([(cluster.id, cluster.revision) for cluster in self.clusters])

    @property
    def sentence(self) -> str:
        """Return the counts, to be read aloud when they change."""
        return count(len(self.clusters), "cluster")

    def values(self) -> dict[str, Any]:
        """Return the values of the templates."""
        return {
            "clusters": self.clusters,
            "all": self.is_all,
            "now": self.now,
            "state": self.state,
            "sentence": self.sentence,
        }

    def whole(self) -> str:
        """Return the part of the page that changes."""
        return render("clusters_live.html", **self.values())


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """A cluster at one moment."""

    detail: ClusterDetail
    now: float

    @property
    def state(self) -> str:
        """Return a key that changes with what is shown."""
        return digest(self.detail)

    @property
    def sentence(self) -> str:
        """Return the state, to be read aloud when it changes."""
        cluster = self.detail.summary
        return f"{cluster.name or cluster.id}: {cluster.status}: {cluster.reason}"

    def values(self) -> dict[str, Any]:
        """Return the values of the templates."""
        return {
            "cluster": self.detail.summary,
            "detail": self.detail,
            "now": self.now,
            "state": self.state,
            "sentence": self.sentence,
        }

    def whole(self) -> str:
        """Return the part of the page that changes."""
        return render("cluster_live.html", **self.values())


async def get_clusters(request: Request) -> Response:
    """`GET /clusters?all=1`: all clusters, those that need somebody first."""
    serving, grant = caller(request)
    is_all = request.query_params.get("all") == "1"
    state = await run_in_threadpool(see_clusters, serving.collector, grant.confined_to, is_all=is_all)
    return page("clusters.html", **state.values(), here="clusters", signed_in=grant.name or "session")


async def get_cluster(request: Request) -> Response:
    """`GET /clusters/{cluster}`: a cluster by its id or name."""
    serving, grant = caller(request)
    named = str(request.path_params["cluster"])
    state = await run_in_threadpool(see_cluster, serving.collector, named, grant.confined_to)
    return page("cluster.html", **state.values(), here="cluster", signed_in=grant.name or "session")


def see_clusters(collector: Collector, confined_to: str, *, is_all: bool) -> ClustersSeen:
    """Return the clusters as they are now, for a reader who may be confined to a group."""
    now = collector.now()
    since = None if is_all else shown_since(now)
    with collector.database.reading() as connection:
        clusters = list_clusters(connection, confined_to=confined_to, done_since=since)
    return ClustersSeen(clusters, is_all, now)


def see_cluster(collector: Collector, named: str, confined_to: str) -> ClusterSeen:
    """Return a cluster as it is now. Raises Refusal if there is none for this reader."""
    return ClusterSeen(find_cluster(collector, named, confined_to), collector.now())

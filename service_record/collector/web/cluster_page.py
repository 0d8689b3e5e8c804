"""The pages of clusters: the list, and one cluster with its hosts, operators, logs and events."""

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
    list_clusters,
    shown_since,
)
from service_record.collector.web.fleet_page import digest
from service_record.collector.web.pages import page, render
from service_record.display.text import count
from service_record.http.collector_answers import ClusterSummary


@dataclass(frozen=True, slots=True)
class ClustersSeen:
    """The content of the list of clusters at one time."""

    clusters: tuple[ClusterSummary, ...]
    is_all: bool
    now: float

    @property
    def state(self) -> str:
        """Return a key that changes with the content of the page."""
        return digest([(cluster.id, cluster.revision) for cluster in self.clusters])

    @property
    def sentence(self) -> str:
        """Return the number of clusters, which screen readers announce after a change."""
        return count(len(self.clusters), "cluster")

    def values(self) -> dict[str, Any]:
        """Return the variables of the templates."""
        return {
            "clusters": self.clusters,
            "all": self.is_all,
            "now": self.now,
            "state": self.state,
            "sentence": self.sentence,
        }

    def whole(self) -> str:
        """Return the HTML of the live part of the page."""
        return render("clusters_live.html", **self.values())


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The content of the page of a cluster at one time."""

    detail: ClusterDetail
    now: float

    @property
    def state(self) -> str:
        """Return a key that changes with the content of the page."""
        return digest(self.detail)

    @property
    def sentence(self) -> str:
        """Return the state of the cluster, which screen readers announce after a change."""
        cluster = self.detail.summary
        return f"{cluster.name or cluster.id}: {cluster.status}: {cluster.reason}"

    def values(self) -> dict[str, Any]:
        """Return the variables of the templates."""
        return {
            "cluster": self.detail.summary,
            "detail": self.detail,
            "now": self.now,
            "state": self.state,
            "sentence": self.sentence,
        }

    def whole(self) -> str:
        """Return the HTML of the live part of the page."""
        return render("cluster_live.html", **self.values())


async def get_clusters(request: Request) -> Response:
    """`GET /clusters?all=1`: the clusters, most urgent first."""
    serving, grant = caller(request)
    is_all = request.query_params.get("all") == "1"
    state = await run_in_threadpool(see_clusters, serving.collector, grant.confined_to, is_all=is_all)
    return page("clusters.html", **state.values(), here="clusters", signed_in=grant.name or "session")


async def get_cluster(request: Request) -> Response:
    """`GET /clusters/{cluster}`: a cluster, named by its id or name."""
    serving, grant = caller(request)
    named = str(request.path_params["cluster"])
    state = await run_in_threadpool(see_cluster, serving.collector, named, grant.confined_to)
    return page("cluster.html", **state.values(), here="cluster", signed_in=grant.name or "session")


def see_clusters(collector: Collector, confined_to: str, *, is_all: bool) -> ClustersSeen:
    """Read the current clusters, for a reader who may be confined to a group.

    Without `is_all`, clusters that were installed more than a day ago are left out.
    """
    now = collector.now()
    since = None if is_all else shown_since(now)
    with collector.database.reading() as connection:
        clusters = list_clusters(connection, confined_to=confined_to, done_since=since)
    return ClustersSeen(clusters, is_all, now)


def see_cluster(collector: Collector, named: str, confined_to: str) -> ClusterSeen:
    """Read the current state of a cluster. Raises Refusal if this reader may see no such cluster."""
    return ClusterSeen(find_cluster(collector, named, confined_to), collector.now())

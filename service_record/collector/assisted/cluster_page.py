"""The pages of clusters: the list, and one cluster with its hosts, operators, logs and events."""

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.serving import caller
from service_record.collector.assisted.cluster_calls import find_cluster
from service_record.collector.assisted.cluster_rows import (
    ClusterDetail,
    find_oldest_shown,
    list_clusters,
)
from service_record.collector.process import Collector
from service_record.collector.web.fleet_page import digest
from service_record.collector.web.pages import LivePage, reader_page
from service_record.display.text import count
from service_record.http.collector_answers import ClusterSummary


@dataclass(frozen=True, slots=True)
class ClustersPage(LivePage):
    """The content of the list of clusters at one time."""

    template = "clusters_live.html"

    clusters: tuple[ClusterSummary, ...]
    is_all: bool
    now: float

    @property
    def heading(self) -> str:
        return "Clusters"

    @property
    def address(self) -> str:
        return "/clusters?all=1" if self.is_all else "/clusters"

    @property
    def stream(self) -> str:
        return "/events?clusters=1&all=1" if self.is_all else "/events?clusters=1"

    @property
    def state(self) -> str:
        return digest([(cluster.id, cluster.revision) for cluster in self.clusters])

    @property
    def sentence(self) -> str:
        return count(len(self.clusters), "cluster")


@dataclass(frozen=True, slots=True)
class ClusterPage(LivePage):
    """The content of the page of a cluster at one time."""

    template = "cluster_live.html"

    detail: ClusterDetail
    now: float

    @property
    def heading(self) -> str:
        return self.detail.summary.name or self.detail.summary.id

    @property
    def address(self) -> str:
        return f"/clusters/{self.detail.summary.id}"

    @property
    def stream(self) -> str:
        return f"/events?of_cluster={self.detail.summary.id}"

    @property
    def state(self) -> str:
        return digest(self.detail)

    @property
    def sentence(self) -> str:
        cluster = self.detail.summary
        return f"{self.heading}: {cluster.status}: {cluster.reason}"


async def get_clusters(request: Request) -> Response:
    """`GET /clusters?all=1`: the clusters, most urgent first."""
    serving, grant = caller(request)
    is_all = request.query_params.get("all") == "1"
    state = await run_in_threadpool(make_clusters_page, serving.collector, grant.confined_to, is_all=is_all)
    return reader_page(request, "live.html", seen=state, here="clusters")


async def get_cluster(request: Request) -> Response:
    """`GET /clusters/{cluster}`: a cluster, named by its id or name."""
    serving, grant = caller(request)
    named = str(request.path_params["cluster"])
    state = await run_in_threadpool(make_cluster_page, serving.collector, named, grant.confined_to)
    return reader_page(request, "live.html", seen=state, here="cluster")


def make_clusters_page(collector: Collector, confined_to: str, *, is_all: bool) -> ClustersPage:
    """Read the current clusters, for a reader who may be confined to a group.

    Without `is_all`, clusters that were installed more than a day ago are left out.
    """
    now = collector.now()
    since = None if is_all else find_oldest_shown(now)
    with collector.database.reading() as connection:
        clusters = list_clusters(connection, confined_to=confined_to, done_since=since)
    return ClustersPage(clusters, is_all, now)


def make_cluster_page(collector: Collector, named: str, confined_to: str) -> ClusterPage:
    """Read the current state of a cluster. Raises Refusal if this reader may see no such cluster."""
    return ClusterPage(find_cluster(collector, named, confined_to), collector.now())

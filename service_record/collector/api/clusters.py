"""What readers ask of clusters, and what administrators say of them."""

from http import HTTPStatus
from typing import Final

import msgspec
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service_record.collector.api.answers import Refusal, answer
from service_record.collector.api.bodies import body_of, fields_of
from service_record.collector.api.bundles import send_cluster_logs
from service_record.collector.api.hosts import asked, flag_in
from service_record.collector.api.serving import Serving, administrator, reader
from service_record.collector.assisted.rules import is_id
from service_record.collector.steps import LONGEST_NAME, readable
from service_record.collector.store import audit, clusters
from service_record.collector.store.clusters import ClusterDetail, ClusterSummary, Definition

_MOST_HOSTS: Final = 10_000


class Clusters(msgspec.Struct):
    """Clusters, those that need somebody first."""

    clusters: tuple[ClusterSummary, ...]
    now: float
    """What the collector's clock says, by which all times are."""


class ClusterPut(msgspec.Struct):
    """What became of a cluster."""

    cluster: str
    created: bool


async def list_clusters(request: Request) -> Response:
    """`GET /api/v1/clusters?cluster=&all=`: without `all=true` those installed a day ago are left out."""
    serving, grant = await reader(request)
    now = serving.collector.now()
    since = None if flag_in(request, "all") else clusters.shown_since(now)
    named = request.query_params.getlist("cluster")
    found = await asked(
        serving,
        lambda connection: clusters.list_clusters(
            connection, named=named, confined_to=grant.confined_to, done_since=since
        ),
    )
    return answer(Clusters(found, now))


async def show_cluster(request: Request) -> Response:
    """`GET /api/v1/clusters/{cluster}`: a cluster, by its id or name."""
    serving, grant = await reader(request)
    return answer(await see_cluster(serving, str(request.path_params["cluster"]), grant.confined_to))


async def see_cluster(serving: Serving, named: str, confined_to: str) -> ClusterDetail:
    """Return a cluster as it is now. Raises Refusal where there is none for this reader."""
    now = serving.collector.now()
    found = await asked(
        serving,
        lambda connection: clusters.show_cluster(connection, named.replace("\0", ""), now, confined_to),
    )
    if found is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no cluster {readable(named)[:LONGEST_NAME]}")
    return found


async def get_logs(request: Request) -> Response:
    """`GET /api/v1/clusters/{cluster}/logs/{kind}`: logs of a cluster as they came."""
    _, grant = await reader(request)
    return await send_cluster_logs(request, grant.confined_to)


async def put_cluster(request: Request) -> Response:
    """`PUT /api/v1/clusters/{cluster}`: its `name`, and how many `control_planes` and `workers` it has."""
    serving, grant = await administrator(request)
    cluster_id = str(request.path_params["cluster"]).lower()
    if not is_id(cluster_id):
        raise Refusal(HTTPStatus.BAD_REQUEST, "a cluster is defined by its id, a UUID")
    settings = serving.settings
    fields = fields_of(await body_of(request, settings.most_body, settings.seconds))
    name = fields.get("name")
    if name is not None and (not isinstance(name, str) or len(name) > LONGEST_NAME):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"name is a text of at most {LONGEST_NAME} characters")
    definition = Definition(
        name=None if name is None else readable(name).strip(),
        control_planes=_number(fields.get("control_planes"), "control_planes", 1),
        workers=_number(fields.get("workers"), "workers", 0),
    )
    now = serving.collector.now()

    def put(connection: Connection) -> bool:
        audit.note(connection, grant.holder, "cluster put", cluster_id, now)
        return clusters.define(connection, cluster_id, definition, now)

    made = await serving.written(serving.collector.writer.change(put))
    return answer(ClusterPut(cluster_id, made), HTTPStatus.CREATED if made else HTTPStatus.OK)


def _number(said: object, name: str, least: int) -> int | None:
    """Return a number of hosts; None where nothing is said. Raises Refusal."""
    if said is None or said == "":
        return None
    text = str(said)
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_HOSTS))):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{name} is a whole number from {least} to {_MOST_HOSTS}")
    if not least <= int(text) <= _MOST_HOSTS:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{name} is a whole number from {least} to {_MOST_HOSTS}")
    return int(text)


ROUTES: Final = (
    Route("/api/v1/clusters", list_clusters, methods=["GET"]),
    Route("/api/v1/clusters/{cluster}", show_cluster, methods=["GET"]),
    Route("/api/v1/clusters/{cluster}", put_cluster, methods=["PUT"]),
    Route("/api/v1/clusters/{cluster}/logs/{kind}", get_logs, methods=["GET"]),
)

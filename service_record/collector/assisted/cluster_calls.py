"""Calls about clusters, for the assisted-controller, readers and administrators."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.collector.api.answering import (
    AcceptedAnswer,
    Created,
    Empty,
    JsonAnswer,
    NoContent,
    Refusal,
)
from service_record.collector.api.operation import ADMINISTRATORS, HOSTS, READERS, Short, operation
from service_record.collector.api.serving import caller
from service_record.collector.assisted import cluster_rows
from service_record.collector.assisted.assisted_calls import read_object, read_path_id
from service_record.collector.assisted.assisted_reports import (
    parse_completion,
    parse_finalizing_stage,
    parse_operator,
)
from service_record.collector.assisted.cluster_rows import ClusterDefinition, ClusterDetail
from service_record.collector.assisted.installation_rules import is_id, parse_logs_state
from service_record.collector.domain.access import Grant
from service_record.collector.domain.steps import LONGEST_NAME, readable
from service_record.collector.process import Collector
from service_record.collector.store import (
    administration,
)
from service_record.http.collector_answers import Clusters

T = TypeVar("T")


class ClusterReference(msgspec.Struct, kw_only=True):
    """A cluster in an answer of the assisted-service."""

    id: str
    kind: str = "Cluster"


@operation(
    "PUT /api/assisted-install/v2/clusters/{cluster_id}/progress",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404,),
    counted="cluster",
)
async def put_progress(request: Request) -> Empty:
    """As the assisted-service: report the stage in which the controller finalizes."""
    stage = parse_finalizing_stage(await _read_body(request))
    await _report(request, finalizing_stage=stage)
    return Empty()


@operation(
    "PUT /api/assisted-install/v2/clusters/{cluster_id}/monitored-operators",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404,),
    counted="cluster",
)
async def put_operator(request: Request) -> Empty:
    """As the assisted-service: report the status of an operator."""
    await _write(request, cluster_rows.report_operator, parse_operator(await _read_body(request)))
    return Empty()


@operation(
    "POST /api/assisted-install/v2/clusters/{cluster_id}/actions/complete-installation",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404,),
    counted="cluster",
)
async def complete(request: Request) -> AcceptedAnswer[ClusterReference]:
    """As the assisted-service: report the result of an installation."""
    is_success, info = parse_completion(await _read_body(request))
    completion = "success" if is_success else "failure"
    cluster_id = await _report(request, completion=completion, completion_info="" if is_success else info)
    return AcceptedAnswer(ClusterReference(id=cluster_id))


@operation(
    "PUT /api/assisted-install/v2/clusters/{cluster_id}/logs-progress",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404,),
)
async def put_logs_progress(request: Request) -> NoContent:
    """As the assisted-service: report the upload of a cluster's logs."""
    await _report(request, logs_state=parse_logs_state(await _read_body(request)))
    return NoContent()


async def _read_body(request: Request) -> dict[str, Any]:
    """Check the cluster id in the path and return the JSON body. Raises CallRefused or Refusal."""
    read_path_id(request, "cluster_id")
    return await read_object(request)


async def _report(request: Request, **values: Any) -> str:
    return await _write(request, cluster_rows.report, values)


async def _write(
    request: Request, write: Callable[[Connection, str, T, Grant, float], None], value: T
) -> str:
    """Store a report and return its cluster's id. Raises CallRefused, Forbidden or Refusal."""
    serving, grant = caller(request)
    cluster_id = read_path_id(request, "cluster_id")
    now = serving.collector.now()
    await serving.change(lambda connection: write(connection, cluster_id, value, grant, now))
    return cluster_id


class ClusterFields(msgspec.Struct, omit_defaults=True):
    """An administrator's fields of a cluster."""

    name: Short | UnsetType = UNSET
    control_planes: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    workers: Annotated[int, Meta(ge=0, le=10_000)] | None = None


class ClustersQuery(msgspec.Struct, kw_only=True):
    """The parameters of a list of clusters."""

    cluster: tuple[str, ...] = ()
    """Ids or names."""
    all: bool = False
    """False leaves out clusters that were installed more than a day ago."""


class ClusterPut(msgspec.Struct):
    """The result of putting a cluster."""

    cluster: str
    created: bool


@operation("GET /api/v1/clusters", who=READERS)
async def list_clusters(request: Request, query: ClustersQuery) -> JsonAnswer[Clusters]:
    """List clusters with their states, those that need action first.

    Clusters that were installed more than a day ago are left out without `all=true`.
    """
    serving, grant = caller(request)
    now = serving.collector.now()
    since = None if query.all else cluster_rows.find_oldest_shown(now)
    summaries = await serving.ask(
        lambda connection: cluster_rows.list_clusters(
            connection, named=query.cluster, confined_to=grant.confined_to, done_since=since
        ),
    )
    return JsonAnswer(Clusters(clusters=summaries, now=now))


@operation("GET /api/v1/clusters/{cluster}", who=READERS, refusals=(404,))
async def show_cluster(request: Request) -> JsonAnswer[ClusterDetail]:
    """Show a cluster by its id or name: hosts, operators, logs and events."""
    serving, grant = caller(request)
    named = str(request.path_params["cluster"])
    return JsonAnswer(await run_in_threadpool(find_cluster, serving.collector, named, grant.confined_to))


def find_cluster(collector: Collector, named: str, confined_to: str) -> ClusterDetail:
    """Return a cluster by id or name. Raises Refusal 404 if it does not exist for this reader."""
    with collector.database.reading() as connection:
        cluster = cluster_rows.show_cluster(connection, named.replace("\0", ""), collector.now(), confined_to)
    if cluster is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no cluster {readable(named)[:LONGEST_NAME]}")
    return cluster


@operation("PUT /api/v1/clusters/{cluster}", who=ADMINISTRATORS)
async def put_cluster(request: Request, body: ClusterFields) -> JsonAnswer[ClusterPut] | Created[ClusterPut]:
    """Set the name of a cluster and its planned number of hosts."""
    serving, grant = caller(request)
    cluster_id = str(request.path_params["cluster"]).lower()
    if not is_id(cluster_id):
        raise Refusal(HTTPStatus.BAD_REQUEST, "a cluster is defined by its id, a UUID")
    definition = ClusterDefinition(
        name=None if body.name is UNSET else body.name,
        control_planes=body.control_planes,
        workers=body.workers,
    )
    now = serving.collector.now()

    def put(connection: Connection) -> bool:
        administration.note(connection, grant.holder, "cluster put", cluster_id, now)
        return cluster_rows.define(connection, cluster_id, definition, now)

    is_new = await serving.change(put)
    return (Created if is_new else JsonAnswer)(ClusterPut(cluster_id, is_new))

"""Calls about clusters, for the assisted-controller, readers and administrators."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.answering import Refusal, answer
from service_record.collector.api.assisted_calls import id_in_path, object_in
from service_record.collector.api.host_calls import flag_in
from service_record.collector.api.requests import parse_fields, whole_number
from service_record.collector.api.serving import caller, plain_body
from service_record.collector.domain.access import Grant
from service_record.collector.domain.assisted_reports import completion_of, finalizing_stage_of, operator_of
from service_record.collector.domain.installation_rules import is_id, logs_state_of
from service_record.collector.domain.steps import LONGEST_NAME, readable
from service_record.collector.process import Collector
from service_record.collector.store import administration, cluster_rows
from service_record.collector.store.cluster_rows import ClusterDefinition, ClusterDetail
from service_record.http.collector_answers import Clusters

T = TypeVar("T")


async def put_progress(request: Request) -> Response:
    """`PUT /v2/clusters/{cluster_id}/progress`: the controller reports its finalizing stage."""
    stage = finalizing_stage_of(await _read_body(request))
    await _report(request, finalizing_stage=stage)
    return Response(status_code=HTTPStatus.OK)


async def put_operator(request: Request) -> Response:
    """`PUT /v2/clusters/{cluster_id}/monitored-operators`: the controller reports an operator."""
    await _write(request, cluster_rows.report_operator, operator_of(await _read_body(request)))
    return Response(status_code=HTTPStatus.OK)


async def complete(request: Request) -> Response:
    """`POST /v2/clusters/{cluster_id}/actions/complete-installation`: the controller reports the result."""
    is_success, info = completion_of(await _read_body(request))
    completion = "success" if is_success else "failure"
    cluster_id = await _report(request, completion=completion, completion_info="" if is_success else info)
    return answer({"id": cluster_id, "kind": "Cluster"}, HTTPStatus.ACCEPTED)


async def put_logs_progress(request: Request) -> Response:
    """`PUT /v2/clusters/{cluster_id}/logs-progress`: the controller reports its upload of logs."""
    await _report(request, logs_state=logs_state_of(await _read_body(request)))
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _read_body(request: Request) -> dict[str, Any]:
    """Check the cluster id in the path and return the JSON body. Raises CallRefused or Refusal."""
    id_in_path(request, "cluster_id")
    return await object_in(request)


async def _report(request: Request, **values: Any) -> str:
    return await _write(request, cluster_rows.report, values)


async def _write(
    request: Request, write: Callable[[Connection, str, T, Grant, float], None], value: T
) -> str:
    """Store a report and return its cluster's id. Raises CallRefused, Forbidden or Refusal."""
    serving, grant = caller(request)
    cluster_id = id_in_path(request, "cluster_id")
    now = serving.collector.now()
    await serving.change(lambda connection: write(connection, cluster_id, value, grant, now))
    return cluster_id


_MAX_HOSTS: Final = 10_000


class ClusterPut(msgspec.Struct):
    """The result of putting a cluster."""

    cluster: str
    created: bool


async def list_clusters(request: Request) -> Response:
    """`GET /api/v1/clusters?cluster=&all=`: list clusters.

    Clusters that were installed more than a day ago are left out without `all=true`.
    """
    serving, grant = caller(request)
    now = serving.collector.now()
    since = None if flag_in(request, "all") else cluster_rows.shown_since(now)
    named = request.query_params.getlist("cluster")
    summaries = await serving.ask(
        lambda connection: cluster_rows.list_clusters(
            connection, named=named, confined_to=grant.confined_to, done_since=since
        ),
    )
    return answer(Clusters(clusters=summaries, now=now))


async def show_cluster(request: Request) -> Response:
    """`GET /api/v1/clusters/{cluster}`: a cluster, by its id or name."""
    serving, grant = caller(request)
    named = str(request.path_params["cluster"])
    return answer(await run_in_threadpool(find_cluster, serving.collector, named, grant.confined_to))


def find_cluster(collector: Collector, named: str, confined_to: str) -> ClusterDetail:
    """Return a cluster by id or name. Raises Refusal 404 if it does not exist for this reader."""
    with collector.database.reading() as connection:
        cluster = cluster_rows.show_cluster(connection, named.replace("\0", ""), collector.now(), confined_to)
    if cluster is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no cluster {readable(named)[:LONGEST_NAME]}")
    return cluster


async def put_cluster(request: Request) -> Response:
    """`PUT /api/v1/clusters/{cluster}`: define `name`, `control_planes` and `workers`."""
    serving, grant = caller(request)
    cluster_id = str(request.path_params["cluster"]).lower()
    if not is_id(cluster_id):
        raise Refusal(HTTPStatus.BAD_REQUEST, "a cluster is defined by its id, a UUID")
    fields = parse_fields(await plain_body(request))
    name = fields.get("name")
    if name is not None and (not isinstance(name, str) or len(name) > LONGEST_NAME):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"name is a text of at most {LONGEST_NAME} characters")
    definition = ClusterDefinition(
        name=None if name is None else readable(name).strip(),
        control_planes=_parse_number(fields.get("control_planes"), "control_planes", 1),
        workers=_parse_number(fields.get("workers"), "workers", 0),
    )
    now = serving.collector.now()

    def put(connection: Connection) -> bool:
        administration.note(connection, grant.holder, "cluster put", cluster_id, now)
        return cluster_rows.define(connection, cluster_id, definition, now)

    is_new = await serving.change(put)
    return answer(ClusterPut(cluster_id, is_new), HTTPStatus.CREATED if is_new else HTTPStatus.OK)


def _parse_number(value: object, name: str, least: int) -> int | None:
    """Return a number of hosts, or None if the field is missing. Raises Refusal."""
    if value is None or value == "":
        return None
    return whole_number(str(value), name, least, _MAX_HOSTS)

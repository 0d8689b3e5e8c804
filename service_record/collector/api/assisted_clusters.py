"""The calls of an assisted-controller on an assisted-service: how far the installation of a cluster is."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service_record.collector.access import Grant
from service_record.collector.api.answers import answer
from service_record.collector.api.assisted import BASE, agent, as_assisted, id_in_path, object_in
from service_record.collector.api.serving import Serving
from service_record.collector.assisted.reports import (
    completion_of,
    finalizing_stage_of,
    operator_of,
)
from service_record.collector.assisted.rules import logs_state_of
from service_record.collector.store import clusters

Write = Callable[[Connection, str, Grant, float], None]
"""Writes what is reported of the cluster with that id, by whom, and when."""


@as_assisted
async def put_progress(request: Request) -> Response:
    """`PUT /v2/clusters/{cluster_id}/progress`: the stage in which the controller finalizes."""
    stage = finalizing_stage_of(await _body(request))
    await _report(request, finalizing_stage=stage)
    return Response(status_code=HTTPStatus.OK)


@as_assisted
async def put_operator(request: Request) -> Response:
    """`PUT /v2/clusters/{cluster_id}/monitored-operators`: the status of an operator."""
    operator = operator_of(await _body(request))

    def write(connection: Connection, cluster_id: str, grant: Grant, now: float) -> None:
        clusters.report_operator(connection, cluster_id, operator, grant, now)

    await _write(request, write)
    return Response(status_code=HTTPStatus.OK)


@as_assisted
async def complete(request: Request) -> Response:
    """`POST /v2/clusters/{cluster_id}/actions/complete-installation`: what it came to."""
    is_success, info = completion_of(await _body(request))
    completion = "success" if is_success else "failure"
    cluster_id = await _report(request, completion=completion, completion_info="" if is_success else info)
    return answer({"id": cluster_id, "kind": "Cluster"}, HTTPStatus.ACCEPTED)


@as_assisted
async def put_logs_progress(request: Request) -> Response:
    """`PUT /v2/clusters/{cluster_id}/logs-progress`: how far the controller's logs have come."""
    await _report(request, logs_state=logs_state_of(await _body(request)))
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a call whose token is good for something. Raises Refused, Refusal."""
    await agent(request)
    id_in_path(request, "cluster_id")
    return await object_in(request)


async def _report(request: Request, **values: Any) -> str:
    def write(connection: Connection, cluster_id: str, grant: Grant, now: float) -> None:
        clusters.report(connection, cluster_id, grant, now, **values)

    return await _write(request, write)


async def _write(request: Request, write: Write) -> str:
    """Have a report on disk; return the id of its cluster. Raises Refused, Forbidden, Refusal."""
    serving = Serving.of(request)
    grant = await agent(request)
    cluster_id = id_in_path(request, "cluster_id")
    now = serving.collector.now()
    await serving.written(
        serving.collector.writer.change(lambda connection: write(connection, cluster_id, grant, now))
    )
    return cluster_id


_CLUSTER: Final = f"{BASE}/clusters/{{cluster_id}}"
ROUTES: Final = (
    Route(f"{_CLUSTER}/progress", put_progress, methods=["PUT"]),
    Route(f"{_CLUSTER}/monitored-operators", put_operator, methods=["PUT"]),
    Route(f"{_CLUSTER}/actions/complete-installation", complete, methods=["POST"]),
    Route(f"{_CLUSTER}/logs-progress", put_logs_progress, methods=["PUT"]),
)

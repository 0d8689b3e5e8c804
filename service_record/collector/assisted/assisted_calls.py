"""The assisted-service's calls for boot reporters and agents, below `/api/assisted-install`.

The calls of the controller are in `cluster_calls`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection
from starlette.requests import Request

from service_record.collector.api.answering import BASE, Created, CreatedEmpty, Empty, JsonAnswer, NoContent
from service_record.collector.api.operation import HOSTS, HOSTS_AND_READERS, operation
from service_record.collector.api.serving import Serving, caller, plain_body
from service_record.collector.assisted import cluster_rows, installations
from service_record.collector.assisted.installation_rules import (
    ROLES,
    CallRefused,
    Installation,
    apply_logs_state,
    apply_progress,
    is_id,
    parse_event,
)
from service_record.collector.assisted.installations import Arrival
from service_record.collector.domain.access import TokenKind
from service_record.collector.domain.destinations import rfc3339
from service_record.collector.store import (
    host_rows,
)
from service_record.collector.store.host_rows import HostInstallation

_AGENT_SECONDS: Final = 60
"""Interval at which agents should call."""


class ClusterHostsQuery(msgspec.Struct, kw_only=True):
    """The parameters of a list of hosts."""

    role: str | UnsetType = UNSET
    status: str | UnsetType = UNSET


class HostProgress(msgspec.Struct, kw_only=True):
    """The stage of a host. Times are RFC 3339."""

    current_stage: str
    progress_info: str
    installation_percentage: int
    stage_started_at: str
    stage_updated_at: str
    stage_timed_out: bool


class AssistedHost(msgspec.Struct, kw_only=True):
    """A host as the assisted-service lists it, without its inventory."""

    id: str
    href: str
    kind: str = "Host"
    infra_env_id: str
    cluster_id: str
    role: str
    bootstrap: bool
    status: str
    status_info: str
    progress: HostProgress
    logs_info: str


class Instructions(msgspec.Struct, kw_only=True):
    """The answer to an agent's regular call. There is never anything to do."""

    next_instruction_seconds: int
    instructions: tuple[()] = ()


@operation("GET /api/assisted-install/v2/clusters/{cluster_id}/hosts", who=HOSTS_AND_READERS)
async def get_hosts(request: Request, query: ClusterHostsQuery) -> JsonAnswer[list[AssistedHost]]:
    """As the assisted-service: list the hosts of a cluster that the token may read.

    A host token whose scope is the host's id creates the host with its first call.
    """
    serving, grant = caller(request)
    cluster_id = read_path_id(request, "cluster_id")
    if query.role is not UNSET and query.role not in ROLES:
        raise CallRefused(HTTPStatus.BAD_REQUEST, f"role in query should be one of {sorted(ROLES)}")

    def look_up(connection: Connection) -> Sequence[HostInstallation]:
        return host_rows.read_cluster_installations(connection, cluster_id)

    rows = await serving.ask(look_up)
    if grant.kind is TokenKind.HOST and is_id(grant.scope) and all(one.host != grant.scope for one in rows):
        arrival = Arrival(grant.scope, grant, serving.collector.now())
        await serving.change(lambda connection: installations.register(connection, arrival, cluster_id))
        rows = await serving.ask(look_up)
    now = serving.collector.now()
    views = [
        _make_view(one.installation, now)
        for one in rows
        if (grant.may_read_group(one.group) or grant.may_write(one.host, one.group))
        and query.role in {UNSET, one.installation.role}
        and query.status in {UNSET, one.installation.status_at(now)}
    ]
    return JsonAnswer(views)


@operation(
    "PUT /api/assisted-install/v2/infra-envs/{infra_env_id}/hosts/{host_id}/progress",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404, 409),
    counted="stage",
)
async def put_progress(request: Request) -> Empty:
    """As the assisted-service: report the stage of a host."""
    now = Serving.of(request).collector.now()
    await _change(request, lambda host, body: apply_progress(host, body, now))
    return Empty()


@operation(
    "PUT /api/assisted-install/v2/infra-envs/{infra_env_id}/hosts/{host_id}/logs-progress",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404, 409),
)
async def put_logs_progress(request: Request) -> NoContent:
    """As the assisted-service: report the upload of a host's logs."""
    await _change(request, apply_logs_state)
    return NoContent()


@operation(
    "POST /api/assisted-install/v2/events",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404, 409),
    counted="event",
)
async def post_event(request: Request) -> CreatedEmpty:
    """As the assisted-service: report an event of a host or of a cluster."""
    serving, grant = caller(request)
    event = parse_event(await read_object(request))
    add_event = installations.add_event if event.host_id else cluster_rows.add_event
    now = serving.collector.now()
    await serving.change(lambda connection: add_event(connection, event, grant, now))
    return CreatedEmpty()


@operation(
    "POST /api/assisted-install/v2/infra-envs/{infra_env_id}/hosts",
    who=HOSTS,
    body=dict[str, Any],
    refusals=(404,),
    counted="registration",
)
async def register_host(request: Request) -> Created[AssistedHost]:
    """As the assisted-service: register a host that booted the discovery image."""
    serving, grant = caller(request)
    infra_env_id = read_path_id(request, "infra_env_id")
    body = await read_object(request)
    host_id = body.get("host_id")
    if not isinstance(host_id, str) or not is_id(host_id):
        raise CallRefused(HTTPStatus.BAD_REQUEST, "host_id in body must be of type uuid")
    now = serving.collector.now()
    arrival = Arrival(host_id.lower(), grant, now)

    def register(connection: Connection) -> Installation:
        return installations.register_agent(connection, arrival, infra_env_id)

    host = await serving.change(register)
    return Created(_make_view(host, now))


@operation(
    "GET /api/assisted-install/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions",
    who=HOSTS,
    refusals=(404,),
)
async def get_instructions(request: Request) -> JsonAnswer[Instructions]:
    """As the assisted-service: answer an agent's call, once a minute. It gets nothing to do."""
    now = Serving.of(request).collector.now()
    await _change(request, lambda host, _: replace(host, checked_in_at=now), has_body=False)
    return JsonAnswer(Instructions(next_instruction_seconds=_AGENT_SECONDS))


def read_path_id(request: Request, name: str) -> str:
    """Return an id in the path in lower case. Raises CallRefused if it is not a UUID."""
    text = str(request.path_params[name])
    if not is_id(text):
        raise CallRefused(HTTPStatus.BAD_REQUEST, f"{name} in path must be of type uuid")
    return text.lower()


async def _change(
    request: Request, do: Callable[[Installation, dict[str, Any]], Installation], *, has_body: bool = True
) -> None:
    """Apply `do` to the installation of the host in the path, and store the result."""
    serving, grant = caller(request)
    infra_env_id, host_id = read_path_id(request, "infra_env_id"), read_path_id(request, "host_id")
    body = await read_object(request) if has_body else {}
    now = serving.collector.now()

    def changed(host: Installation) -> Installation:
        if host.infra_env_id not in {"", infra_env_id}:
            raise CallRefused(
                HTTPStatus.NOT_FOUND, f"host {host_id} was not found in infra-env {infra_env_id}"
            )
        return do(replace(host, infra_env_id=infra_env_id), body)

    await serving.change(lambda connection: installations.change(connection, host_id, grant, now, changed))


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body. Raises CallRefused or Refusal."""
    body = await plain_body(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise CallRefused(HTTPStatus.BAD_REQUEST, "the Content-Type is not application/json")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise CallRefused(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
    return value


def _make_view(host: Installation, now: float) -> AssistedHost:
    has_failed = host.status == "error"  # then `info` is the reason
    return AssistedHost(
        id=host.id,
        href=f"{BASE}/infra-envs/{host.infra_env_id}/hosts/{host.id}",
        infra_env_id=host.infra_env_id,
        cluster_id=host.cluster_id,
        role=host.role,
        bootstrap=host.is_bootstrap,
        status=host.status_at(now),
        status_info=host.status_info_at(now) or (host.info if has_failed else ""),
        progress=HostProgress(
            current_stage=host.stage,
            progress_info="" if has_failed else host.info,
            installation_percentage=host.percentage,
            stage_started_at=rfc3339(host.stage_started_at),
            stage_updated_at=rfc3339(host.stage_updated_at),
            stage_timed_out=host.is_late(now),
        ),
        logs_info=host.logs_state,
    )

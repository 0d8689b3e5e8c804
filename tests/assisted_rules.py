"""A model of the assisted-service's HTTP API: it checks requests, changes its state and returns responses.

Status codes and messages are those of the real handlers. The model uses no network; `tests.assisted_server`
serves it over HTTP. Its clock moves only by `advance`.
"""

import gzip
import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email import message_from_bytes
from itertools import chain
from time import strptime
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from tests.assisted_installation import (
    CONTROL_PLANE_IGNITION,
    LOCAL_IGNITION,
    STAGES,
    Event,
    Host,
    InfraEnv,
    Installation,
    new_id,
)

BASE_PATH: Final = "/api/assisted-install"
MAX_INFO_CHARACTERS: Final = 2048
MAX_MESSAGE_CHARACTERS: Final = 4096
MAX_DISCOVERY_BYTES: Final = 256 << 10
"""The size limit of the discovery image's ignition config, compressed by gzip."""
_STAGE_NAMES: Final = sorted({*chain(*STAGES.values()), "Failed"})
_STATUSES_WITH_PROGRESS: Final = {"installing", "installing-in-progress", "installing-pending-user-action"}


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """An HTTP request. The names in `headers` are lower-case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {
            name: values[0]
            for name, values in parse_qs(urlsplit(self.target).query, keep_blank_values=True).items()
        }


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    status: int
    body: bytes = b""
    content_type: str = "application/json"


class HandlerCrash:
    """The handler panicked: the connection is closed without a response."""


Reply: TypeAlias = ServiceResponse | HandlerCrash
_Route: TypeAlias = tuple[Callable[[ServiceRequest], Reply], str]
"""The handler of a request, and the accepted keys: "agent", "user" or both."""


class AssistedRules(Installation):
    """An installation that handles requests."""

    def answer(self, request: ServiceRequest) -> Reply:
        """Handle a request and return the response."""
        path = request.path.removeprefix(BASE_PATH)
        version, *rest = path.strip("/").split("/")
        if path == request.path or version != "v2":
            return _infra_error(404, f"path {request.path} was not found")
        parts = tuple(rest)
        routes = self._agent_routes(parts) or self._user_routes(parts)
        if not routes:
            return _infra_error(404, f"path {request.path} was not found")
        if request.method not in routes:
            return _infra_error(405, f"method {request.method} is not allowed, but [{','.join(routes)}] are")
        handler, accepted_keys = routes[request.method]
        return self._check_key(request, accepted_keys) or handler(request)

    def _user_routes(self, parts: tuple[str, ...]) -> dict[str, _Route]:
        match parts:
            case ("infra-envs",):
                return {"GET": (self._list_infra_envs, "user")}
            case ("infra-envs", infra_env):
                return {"PATCH": (lambda request: self._override_discovery(request, infra_env), "user")}
            case ("infra-envs", infra_env, "hosts", host, "ignition"):
                return {"PATCH": (lambda request: self._override_host(request, infra_env, host), "user")}
        return {}

    def _agent_routes(self, parts: tuple[str, ...]) -> dict[str, _Route]:  # noqa: PLR0911 - a row for each
        match parts:
            case ("clusters", cluster, "hosts"):
                return {"GET": (lambda request: self._list_cluster_hosts(request, cluster), "agent user")}
            case ("clusters", cluster, "logs"):
                return {"POST": (lambda request: self._upload_logs(request, cluster), "agent")}
            case ("infra-envs", infra_env, "hosts"):
                return {"POST": (lambda request: self._register(request, infra_env), "agent")}
            case ("infra-envs", infra_env, "hosts", host, "instructions"):
                return {"GET": (lambda request: self._get_instructions(infra_env, host), "agent")}
            case ("infra-envs", infra_env, "hosts", host, "progress"):
                return {"PUT": (lambda request: self._put_progress(request, infra_env, host), "agent")}
            case ("infra-envs", infra_env, "hosts", host, "logs-progress"):
                return {"PUT": (lambda request: self._put_logs_progress(request, infra_env, host), "agent")}
            case ("events",):
                return {"POST": (self._create_event, "agent"), "GET": (self._list_events, "user")}
        return {}

    def _check_key(self, request: ServiceRequest, accepted_keys: str) -> ServiceResponse | None:
        """Return a response with status 401, or None if the request has a valid key."""
        is_user = request.headers.get("authorization") == f"Bearer {self.user_key}"
        if self.auth_type == "none" or ("user" in accepted_keys and is_user):
            return None
        key = request.headers.get("x-secret-key")
        if "agent" not in accepted_keys or not key:
            return _infra_error(401, "unauthenticated for invalid credentials")
        if self.auth_type == "rhsso":
            good = key == self.pull_secret_auth
            return None if good else _infra_error(401, "authentication failed")
        if key not in self.tokens:
            return _infra_error(401, "the token's signature is invalid")
        # The real service reports every database error as "does not exist".
        if self.is_database_down or self.tokens[key] not in self.infra_envs:
            return _infra_error(401, f"infraEnv {self.tokens[key]} does not exist")
        return None

    def _list_cluster_hosts(self, request: ServiceRequest, cluster_id: str) -> Reply:
        if not _is_id(cluster_id):
            return _infra_error(400, f"cluster_id in path must be of type uuid: {cluster_id!r}")
        query = request.query
        if query.get("role", "master") not in {"master", "arbiter", "worker", "auto-assign"}:
            return _infra_error(400, "role in query should be one of [master arbiter worker auto-assign]")
        return _json(
            200,
            [
                _host_body(host)
                for host in self.hosts.values()
                if host.cluster_id == cluster_id
                and cluster_id in self.clusters
                and query.get("role", host.role) == host.role
                and query.get("status", host.status) == host.status
            ],
        )

    def _get_instructions(self, infra_env_id: str, host_id: str) -> Reply:
        host = self._find_host(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        host.checked_in_at = self.now
        return _json(200, {"next_instruction_seconds": 60, "instructions": []})

    def _list_infra_envs(self, request: ServiceRequest) -> Reply:
        cluster = request.query.get("cluster_id")
        found = [each for each in self.infra_envs.values() if cluster in {None, each.cluster_id}]
        return _json(200, [_infra_env_body(each) for each in found])

    def _override_discovery(self, request: ServiceRequest, infra_env_id: str) -> Reply:
        body = _parse_object(request, {"ignition_config_override"})
        if isinstance(body, ServiceResponse):
            return body
        infra_env = self.infra_envs.get(infra_env_id)
        if infra_env is None:
            return _error(404, f"infra-env {infra_env_id} was not found")
        text = str(body.get("ignition_config_override", ""))
        if text:  # the real service ignores an empty override
            error = _check_ignition(text)
            if error is None and len(gzip.compress(text.encode())) > MAX_DISCOVERY_BYTES:
                error = _error(400, "The ignition archive size is over the maximum (256 KiB)")
            if error is not None:
                return error
            infra_env.ignition_config_override = text
        return _json(201, _infra_env_body(infra_env))

    def _override_host(self, request: ServiceRequest, infra_env_id: str, host_id: str) -> Reply:
        body = _parse_object(request, {"config"})
        if isinstance(body, ServiceResponse):
            return body
        host = self._find_host(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        text = str(body.get("config", ""))
        error = _check_ignition(text) if text else None  # an empty override removes the stored one
        if error is None:
            host.ignition_config_overrides = text
        return error or ServiceResponse(201)

    def _register(self, request: ServiceRequest, infra_env_id: str) -> Reply:
        if infra_env_id not in self.infra_envs:
            return _error(404, f"infra-env {infra_env_id} was not found")
        body = _parse_object(request)
        if isinstance(body, ServiceResponse):
            return body
        host = self.hosts.get(str(body.get("host_id")))
        if host is not None and host.stage == "Rebooting":
            host.status = "installing-pending-user-action"
            host.status_info = "Expected the host to boot from disk, but it booted the installation image"
        return _json(201, {"id": body.get("host_id")})

    def _put_progress(self, request: ServiceRequest, infra_env_id: str, host_id: str) -> Reply:
        body = _parse_object(request, {"current_stage", "progress_info"})
        if isinstance(body, ServiceResponse):
            return body
        stage, info = str(body.get("current_stage", "")), str(body.get("progress_info", ""))
        enum = [*_STAGE_NAMES, *([LOCAL_IGNITION, CONTROL_PLANE_IGNITION] if self.knows_boot_stages else [])]
        if stage and stage not in enum:
            return _infra_error(400, f"current_stage in body should be one of [{' '.join(enum)}]")
        host = self._find_host(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        if host.cluster_id is None:
            return _error(400, f"host {host_id} is not bound to any cluster")
        if host.cluster_id not in self.clusters:
            return _error(404, f"cluster {host.cluster_id} was not found")
        return self._change_progress(host, stage, info)

    def _change_progress(self, host: Host, stage: str, info: str) -> ServiceResponse:
        if stage == host.stage and info == host.info:
            return ServiceResponse(200)
        if stage != host.stage and host.status not in _STATUSES_WITH_PROGRESS:
            return _error(409, f"Can't set progress <{stage}> to host in status <{host.status}>")
        if stage == "Failed":
            host.status, host.status_info = "error", info
            return ServiceResponse(200)
        if stage == "Rebooting" and host.kind == "AddToExistingClusterHost" and stage != host.stage:
            stage = "Done"
        error = self._check_order(host, stage) or self._check_storage(host, info)
        if error is None:
            self._store_progress(host, stage, info)
        return error or ServiceResponse(200)

    def _check_storage(self, host: Host, info: str) -> ServiceResponse | None:
        if len(info) > MAX_INFO_CHARACTERS:
            return _error(500, "ERROR: value too long for type character varying(2048) (SQLSTATE 22001)")
        if "\0" in info:
            return _error(500, 'ERROR: invalid byte sequence for encoding "UTF8": 0x00 (SQLSTATE 22021)')
        if self.conflicting_changes:
            self.conflicting_changes -= 1
            return _error(500, f"failed to update host {host.id}: nothing has changed")
        return None

    def _add_event(self, name: str, message: str, host: Host) -> None:
        self.events.append(Event(name, message, time=self.now, host_id=host.id))

    def _check_order(self, host: Host, stage: str) -> ServiceResponse | None:
        stages = self.stages(host)
        if stage == host.stage:
            return None
        if stage not in stages:
            which = f"role {host.role} bootstrap {str(host.bootstrap).lower()}"
            return _error(409, f"Stages {stage} isn't available for host {which}")
        if host.stage in stages and stages.index(stage) < stages.index(host.stage):
            later = f'after host has been in stage "{host.stage}"'
            return _error(409, f'Can\'t assign lower stage "{stage}" {later}')
        return None

    def _store_progress(self, host: Host, stage: str, info: str) -> None:
        host.stage_updated_at = self.now
        if stage != host.stage:
            host.stage_started_at, host.stage_timed_out = self.now, False
            host.stage = stage
            host.percentage = self.compute_percentage(host)
            host.status = {"Done": "installed"}.get(stage, "installing-in-progress")
            if stage == "Done" and host.kind == "AddToExistingClusterHost":
                host.status = "added-to-existing-cluster"
        host.info = info
        message = f"reached installation stage {stage}" + (f": {info}" if info else "")
        self._add_event("host_install_progress_updated", message, host)

    def _put_logs_progress(self, request: ServiceRequest, infra_env_id: str, host_id: str) -> Reply:
        body = _parse_object(request, {"logs_state"})
        if isinstance(body, ServiceResponse):
            return body
        state = body.get("logs_state")
        if state not in {"requested", "collecting", "completed", "timeout", ""}:
            return _infra_error(400, "logs_state in body should be one of [requested collecting completed]")
        host = self._find_host(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        host.logs_info = str(state)
        if state == "requested":
            host.logs_started_at = self.now
        return ServiceResponse(204)

    def _list_events(self, request: ServiceRequest) -> Reply:
        """Return the events of a cluster in the order of storage, like the real service, not by time."""
        cluster_id = request.query.get("cluster_id", "")
        hosts = {host.id for host in self.hosts.values() if host.cluster_id == cluster_id}
        rows = [
            {
                "cluster_id": cluster_id,
                **({"host_id": event.host_id} if event.host_id else {}),
                "category": "user",
                "name": event.name,
                "severity": event.severity,
                "message": event.message,
                "event_time": _format_time(event.time),
            }
            for event in self.events
            if event.host_id is None or event.host_id in hosts
        ]
        return _json(200, rows)

    def _create_event(self, request: ServiceRequest) -> Reply:
        body = _parse_object(request)
        if isinstance(body, ServiceResponse):
            return body
        missing = [name for name in ("severity", "message", "event_time") if not body.get(name)]
        if missing:
            return _infra_error(400, f"{missing[0]} in body is required")
        if body["severity"] not in {"info", "warning", "error", "critical"}:
            return _infra_error(400, "severity in body should be one of [info warning error critical]")
        if body.get("category", "user") not in {"user", "metrics"}:
            return _infra_error(400, "category in body should be one of [user metrics]")
        if not _is_time(str(body["event_time"])):
            return _infra_error(400, "event_time in body must be of type date-time")
        message = str(body["message"])
        if len(message) <= MAX_MESSAGE_CHARACTERS:
            name, severity = str(body.get("name", "")), str(body["severity"])
            host_id = str(body["host_id"]) if body.get("host_id") else None
            self.events.append(Event(name, message, severity, self.now, host_id))
        return ServiceResponse(201)

    def _upload_logs(self, request: ServiceRequest, cluster_id: str) -> Reply:
        parts = parse_form(request)
        if parts is None:
            return _infra_error(400, "the request's Content-Type is not multipart/form-data")
        query, types = request.query, ["host", "controller", *(["host_boot"] if self.knows_host_boot else [])]
        faults = [
            *([] if _is_id(cluster_id) else ["cluster_id in path must be of type uuid"]),
            *([] if query.get("logs_type") in types else [f"logs_type in query should be one of {types}"]),
            *([] if _is_id(query.get("host_id", new_id())) else ["host_id in query must be of type uuid"]),
        ]
        if faults:
            return _infra_error(400, "validation failure list:\n" + "\n".join(faults))
        if "upfile" not in parts:
            return HandlerCrash()
        return self._store_logs(cluster_id, query, parts["upfile"])

    def _store_logs(self, cluster_id: str, query: Mapping[str, str], file: bytes) -> ServiceResponse:
        if cluster_id not in self.clusters:
            return _error(404, f"cluster {cluster_id} was not found")
        if query["logs_type"] == "controller":
            self.objects[f"{cluster_id}/logs/controller_logs.tar.gz"] = file
            return ServiceResponse(204)
        if not query.get("host_id"):
            return _error(400, "host_id is required for logs of a host")
        host = self.hosts.get(query["host_id"])
        if host is None or host.cluster_id != cluster_id:
            return _error(404, f"host {query['host_id']} was not found")
        if query["logs_type"] == "host_boot":
            self.objects[f"{cluster_id}/logs/{host.id}/boot_logs.tar.gz"] = file
            self._add_event("host_boot_logs_uploaded", "boot logs uploaded", host)
            return ServiceResponse(204)
        self.objects[f"{cluster_id}/logs/{host.id}/logs.tar.gz"] = file
        host.logs_info, host.logs_collected_at = "collecting", self.now
        self._add_event("host_logs_uploaded", "logs uploaded", host)
        return ServiceResponse(204)

    def _find_host(self, infra_env_id: str, host_id: str) -> Host | ServiceResponse:
        for value in (infra_env_id, host_id):
            if not _is_id(value):
                return _infra_error(400, f"{value!r} in path must be of type uuid")
        host = self.hosts.get(host_id)
        if host is None or host.infra_env_id != infra_env_id:
            return _error(404, f"host {host_id} was not found in infra-env {infra_env_id}")
        return host


def _host_body(host: Host) -> dict[str, object]:
    return {
        "id": host.id,
        "href": f"{BASE_PATH}/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}",
        "kind": host.kind,
        "infra_env_id": host.infra_env_id,
        "cluster_id": host.cluster_id,
        "role": host.role,
        "bootstrap": host.bootstrap,
        "status": host.status,
        "status_info": host.status_info,
        "progress": {
            "current_stage": host.stage,
            "progress_info": host.info,
            "installation_percentage": host.percentage,
            "stage_started_at": _format_time(host.stage_started_at),
            "stage_updated_at": _format_time(host.stage_updated_at),
            "stage_timed_out": host.stage_timed_out,
        },
        "logs_info": host.logs_info,
        **({"requested_hostname": host.requested_hostname} if host.requested_hostname else {}),
        **(
            {"ignition_config_overrides": host.ignition_config_overrides}
            if host.ignition_config_overrides
            else {}
        ),
    }


def _format_time(moment: datetime | None) -> str:
    return moment.isoformat().replace("+00:00", "Z") if moment else "0001-01-01T00:00:00Z"


def _is_time(text: str) -> bool:
    """Return whether Go's strfmt accepts a time: the zone, the seconds and the whole time are optional."""
    day, _, rest = text.replace(" ", "T", 1).partition("T")
    is_short = " " in text or not rest
    time = rest.rstrip("Z").partition("+")[0].partition("-")[0].partition(".")[0]
    layouts = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
    if is_short and time != rest:
        return False
    for layout in layouts:
        with suppress(ValueError):
            strptime(f"{day}T{time}".rstrip("T"), layout)
            return len(day) == len("2026-11-21")
    return False


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _infra_env_body(infra_env: InfraEnv) -> dict[str, object]:
    override = infra_env.ignition_config_override
    return {
        "id": infra_env.id,
        "href": f"{BASE_PATH}/v2/infra-envs/{infra_env.id}",
        "kind": "InfraEnv",
        "name": infra_env.name,
        "type": "full-iso",
        "cluster_id": infra_env.cluster_id,
        **({"ignition_config_override": override} if override else {}),
    }


def _check_ignition(text: str) -> ServiceResponse | None:
    """Return status 400 unless the text is an Ignition config of version 3.1.0 or 3.2.0 (ParseToLatest)."""
    try:
        version = json.loads(text)["ignition"]["version"]
    except (ValueError, KeyError, TypeError):
        return _error(400, "error parsing ignition: not a config")
    good = version in {"3.1.0", "3.2.0"}
    return None if good else _error(400, "error parsing ignition: unsupported config version")


def _json(status: int, document: object) -> ServiceResponse:
    return ServiceResponse(status, json.dumps(document).encode())


def _error(status: int, reason: str) -> ServiceResponse:
    """Return an error response of a handler, whose `code` is a string."""
    return _json(status, {"code": str(status), "href": "", "id": status, "kind": "Error", "reason": reason})


def _infra_error(status: int, message: str) -> ServiceResponse:
    """Return an error response of authentication, routing or validation, whose `code` is a number."""
    return _json(status, {"code": status, "message": message})


def _parse_object(
    request: ServiceRequest, known: set[str] | None = None
) -> dict[str, object] | ServiceResponse:
    """Return the JSON object of a body, or status 400 if it is invalid or has a field not in `known`."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        return _infra_error(400, 'unsupported media type, only ["application/json"] are allowed')
    try:
        document = json.loads(request.body)
    except ValueError:
        return _infra_error(400, "parsing the body failed, because it is not valid JSON")
    if not isinstance(document, dict):
        return _infra_error(400, "the body is not an object")
    unknown = sorted(set(document) - known) if known is not None else []
    return _infra_error(400, f'json: unknown field "{unknown[0]}"') if unknown else document


def parse_form(request: ServiceRequest) -> dict[str, bytes] | None:
    """Return the files of a multipart form by name, or None if the body is not a form."""
    content_type = request.headers.get("content-type", "")
    if not content_type.startswith("multipart/form-data"):
        return None
    message = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + request.body)
    parts: dict[str, bytes] = {}
    for part in message.walk():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            parts[name] = content
    return parts

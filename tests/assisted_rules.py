"""An assisted-service's state and rules, as its real handlers behave: what a call changes, and what it is
answered.

Without a network: `tests.assisted_server` puts it behind one. Times are a clock of its own, moved by
`advance`.
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
LONGEST_INFO: Final = 2048
LONGEST_MESSAGE: Final = 4096
LARGEST_DISCOVERY: Final = 256 << 10
"""Bytes of the discovery image's ignition, packed."""
_KNOWN: Final = sorted({*chain(*STAGES.values()), "Failed"})
_MOVABLE: Final = {"installing", "installing-in-progress", "installing-pending-user-action"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `headers` have lower-case names."""

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
class Told:
    """An answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"


class HungUp:
    """No answer: the handler died, and the connection with it."""


Reply: TypeAlias = Told | HungUp
_Route: TypeAlias = tuple[Callable[[Asked], Reply], str]
"""Handler of a request, and the holder whose keys are good for it."""


class AssistedRules(Installation):
    """An installation that is asked."""

    def answer(self, asked: Asked) -> Reply:
        """Return the service's answer to a request, and do what it asks for."""
        path = asked.path.removeprefix(BASE_PATH)
        parts = path.strip("/").split("/")
        if path == asked.path or parts[0] != "v2":
            return _infra_error(404, f"path {asked.path} was not found")
        routes = self._routes(tuple(parts[1:]))
        if not routes:
            return _infra_error(404, f"path {asked.path} was not found")
        if asked.method not in routes:
            return _infra_error(405, f"method {asked.method} is not allowed, but [{','.join(routes)}] are")
        handler, schemes = routes[asked.method]
        return self._refused(asked, schemes) or handler(asked)

    def _routes(self, parts: tuple[str, ...]) -> dict[str, _Route]:
        return self._agents_routes(parts) or self._users_routes(parts)

    def _users_routes(self, parts: tuple[str, ...]) -> dict[str, _Route]:
        match parts:
            case ("infra-envs",):
                return {"GET": (self._infra_envs, "user")}
            case ("infra-envs", infra_env):
                return {"PATCH": (lambda asked: self._override_discovery(asked, infra_env), "user")}
            case ("infra-envs", infra_env, "hosts", host, "ignition"):
                return {"PATCH": (lambda asked: self._override_host(asked, infra_env, host), "user")}
        return {}

    def _agents_routes(self, parts: tuple[str, ...]) -> dict[str, _Route]:  # noqa: PLR0911 - a row for each
        match parts:
            case ("clusters", cluster, "hosts"):
                return {"GET": (lambda asked: self._cluster_hosts(asked, cluster), "agent user")}
            case ("clusters", cluster, "logs"):
                return {"POST": (lambda asked: self._upload(asked, cluster), "agent")}
            case ("infra-envs", infra_env, "hosts"):
                return {"POST": (lambda asked: self._register(asked, infra_env), "agent")}
            case ("infra-envs", infra_env, "hosts", host, "instructions"):
                return {"GET": (lambda asked: self._instructions(infra_env, host), "agent")}
            case ("infra-envs", infra_env, "hosts", host, "progress"):
                return {"PUT": (lambda asked: self._progress(asked, infra_env, host), "agent")}
            case ("infra-envs", infra_env, "hosts", host, "logs-progress"):
                return {"PUT": (lambda asked: self._logs_progress(asked, infra_env, host), "agent")}
            case ("events",):
                return {"POST": (self._event, "agent"), "GET": (self._list_events, "user")}
        return {}

    def _refused(self, asked: Asked, schemes: str) -> Told | None:
        """401 or 403, or None when the key of an agent, or of a user, is good for the call."""
        is_user = asked.headers.get("authorization") == f"Bearer {self.user_key}"
        if self.auth_type == "none" or ("user" in schemes and is_user):
            return None
        key = asked.headers.get("x-secret-key")
        if "agent" not in schemes or not key:
            return _infra_error(401, "unauthenticated for invalid credentials")
        if self.auth_type == "rhsso":
            good = key == self.pull_secret_auth
            return None if good else _infra_error(401, "authentication failed")
        if key not in self.tokens:
            return _infra_error(401, "the token's signature is invalid")
        # Any error of the database is "does not exist" to the real service.
        if self.is_without_database or self.tokens[key] not in self.infra_envs:
            return _infra_error(401, f"infraEnv {self.tokens[key]} does not exist")
        return None

    def _cluster_hosts(self, asked: Asked, cluster_id: str) -> Reply:
        if not _is_id(cluster_id):
            return _infra_error(400, f"cluster_id in path must be of type uuid: {cluster_id!r}")
        query = asked.query
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

    def _instructions(self, infra_env_id: str, host_id: str) -> Reply:
        host = self._found(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        host.checked_in_at = self.now
        return _json(200, {"next_instruction_seconds": 60, "instructions": []})

    def _infra_envs(self, asked: Asked) -> Reply:
        cluster = asked.query.get("cluster_id")
        found = [each for each in self.infra_envs.values() if cluster in {None, each.cluster_id}]
        return _json(200, [_infra_env_body(each) for each in found])

    def _override_discovery(self, asked: Asked, infra_env_id: str) -> Reply:
        body = _object(asked, {"ignition_config_override"})
        if isinstance(body, Told):
            return body
        infra_env = self.infra_envs.get(infra_env_id)
        if infra_env is None:
            return _error(404, f"infra-env {infra_env_id} was not found")
        text = str(body.get("ignition_config_override", ""))
        if text:  # an empty one changes nothing
            refused = _refused_ignition(text)
            if refused is None and len(gzip.compress(text.encode())) > LARGEST_DISCOVERY:
                refused = _error(400, "The ignition archive size is over the maximum (256 KiB)")
            if refused is not None:
                return refused
            infra_env.ignition_config_override = text
        return _json(201, _infra_env_body(infra_env))

    def _override_host(self, asked: Asked, infra_env_id: str, host_id: str) -> Reply:
        body = _object(asked, {"config"})
        if isinstance(body, Told):
            return body
        host = self._found(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        text = str(body.get("config", ""))
        refused = _refused_ignition(text) if text else None  # an empty one removes what was there
        if refused is None:
            host.ignition_config_overrides = text
        return refused or Told(201)

    def _register(self, asked: Asked, infra_env_id: str) -> Reply:
        if infra_env_id not in self.infra_envs:
            return _error(404, f"infra-env {infra_env_id} was not found")
        body = _object(asked)
        if isinstance(body, Told):
            return body
        host = self.hosts.get(str(body.get("host_id")))
        if host is not None and host.stage == "Rebooting":
            host.status = "installing-pending-user-action"
            host.status_info = "Expected the host to boot from disk, but it booted the installation image"
        return _json(201, {"id": body.get("host_id")})

    def _progress(self, asked: Asked, infra_env_id: str, host_id: str) -> Reply:
        body = _object(asked, {"current_stage", "progress_info"})
        if isinstance(body, Told):
            return body
        stage, info = str(body.get("current_stage", "")), str(body.get("progress_info", ""))
        enum = [*_KNOWN, *([LOCAL_IGNITION, CONTROL_PLANE_IGNITION] if self.knows_boot_stages else [])]
        if stage and stage not in enum:
            return _infra_error(400, f"current_stage in body should be one of [{' '.join(enum)}]")
        host = self._found(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        if host.cluster_id is None:
            return _error(400, f"host {host_id} is not bound to any cluster")
        if host.cluster_id not in self.clusters:
            return _error(404, f"cluster {host.cluster_id} was not found")
        return self._new_progress(host, stage, info)

    def _new_progress(self, host: Host, stage: str, info: str) -> Told:
        if stage == host.stage and info == host.info:
            return Told(200)
        if stage != host.stage and host.status not in _MOVABLE:
            return _error(409, f"Can't set progress <{stage}> to host in status <{host.status}>")
        if stage == "Failed":
            host.status, host.status_info = "error", info
            return Told(200)
        if stage == "Rebooting" and host.kind == "AddToExistingClusterHost" and stage != host.stage:
            stage = "Done"
        refused = self._out_of_order(host, stage) or self._not_storable(host, info)
        if refused is None:
            self._store_progress(host, stage, info)
        return refused or Told(200)

    def _not_storable(self, host: Host, info: str) -> Told | None:
        if len(info) > LONGEST_INFO:
            return _error(500, "ERROR: value too long for type character varying(2048) (SQLSTATE 22001)")
        if "\0" in info:
            return _error(500, 'ERROR: invalid byte sequence for encoding "UTF8": 0x00 (SQLSTATE 22021)')
        if self.changes_meanwhile:
            self.changes_meanwhile -= 1
            return _error(500, f"failed to update host {host.id}: nothing has changed")
        return None

    def _note(self, name: str, message: str, host: Host) -> None:
        self.events.append(Event(name, message, time=self.now, host_id=host.id))

    def _out_of_order(self, host: Host, stage: str) -> Told | None:
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
            host.percentage = self.percentage_of(host)
            host.status = {"Done": "installed"}.get(stage, "installing-in-progress")
            if stage == "Done" and host.kind == "AddToExistingClusterHost":
                host.status = "added-to-existing-cluster"
        host.info = info
        message = f"reached installation stage {stage}" + (f": {info}" if info else "")
        self._note("host_install_progress_updated", message, host)

    def _logs_progress(self, asked: Asked, infra_env_id: str, host_id: str) -> Reply:
        body = _object(asked, {"logs_state"})
        if isinstance(body, Told):
            return body
        state = body.get("logs_state")
        if state not in {"requested", "collecting", "completed", "timeout", ""}:
            return _infra_error(400, "logs_state in body should be one of [requested collecting completed]")
        host = self._found(infra_env_id, host_id)
        if not isinstance(host, Host):
            return host
        host.logs_info = str(state)
        if state == "requested":
            host.logs_started_at = self.now
        return Told(204)

    def _list_events(self, asked: Asked) -> Reply:
        """Return the events of a cluster as they are stored, not by their time."""
        cluster_id = asked.query.get("cluster_id", "")
        hosts = {host.id for host in self.hosts.values() if host.cluster_id == cluster_id}
        rows = [
            {
                "cluster_id": cluster_id,
                **({"host_id": event.host_id} if event.host_id else {}),
                "category": "user",
                "name": event.name,
                "severity": event.severity,
                "message": event.message,
                "event_time": _time(event.time),
            }
            for event in self.events
            if event.host_id is None or event.host_id in hosts
        ]
        return _json(200, rows)

    def _event(self, asked: Asked) -> Reply:
        body = _object(asked)
        if isinstance(body, Told):
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
        if len(message) <= LONGEST_MESSAGE:
            name, severity = str(body.get("name", "")), str(body["severity"])
            host_id = str(body["host_id"]) if body.get("host_id") else None
            self.events.append(Event(name, message, severity, self.now, host_id))
        return Told(201)

    def _upload(self, asked: Asked, cluster_id: str) -> Reply:
        parts = form_parts(asked)
        if parts is None:
            return _infra_error(400, "the request's Content-Type is not multipart/form-data")
        query, types = asked.query, ["host", "controller", *(["host_boot"] if self.knows_host_boot else [])]
        faults = [
            *([] if _is_id(cluster_id) else ["cluster_id in path must be of type uuid"]),
            *([] if query.get("logs_type") in types else [f"logs_type in query should be one of {types}"]),
            *([] if _is_id(query.get("host_id", new_id())) else ["host_id in query must be of type uuid"]),
        ]
        if faults:
            return _infra_error(400, "validation failure list:\n" + "\n".join(faults))
        if "upfile" not in parts:
            return HungUp()
        return self._store_logs(cluster_id, query, parts["upfile"])

    def _store_logs(self, cluster_id: str, query: Mapping[str, str], file: bytes) -> Told:
        if cluster_id not in self.clusters:
            return _error(404, f"cluster {cluster_id} was not found")
        if query["logs_type"] == "controller":
            self.objects[f"{cluster_id}/logs/controller_logs.tar.gz"] = file
            return Told(204)
        if not query.get("host_id"):
            return _error(400, "host_id is required for logs of a host")
        host = self.hosts.get(query["host_id"])
        if host is None or host.cluster_id != cluster_id:
            return _error(404, f"host {query['host_id']} was not found")
        if query["logs_type"] == "host_boot":
            self.objects[f"{cluster_id}/logs/{host.id}/boot_logs.tar.gz"] = file
            self._note("host_boot_logs_uploaded", "boot logs uploaded", host)
            return Told(204)
        self.objects[f"{cluster_id}/logs/{host.id}/logs.tar.gz"] = file
        host.logs_info, host.logs_collected_at = "collecting", self.now
        self._note("host_logs_uploaded", "logs uploaded", host)
        return Told(204)

    def _found(self, infra_env_id: str, host_id: str) -> Host | Told:
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
            "stage_started_at": _time(host.stage_started_at),
            "stage_updated_at": _time(host.stage_updated_at),
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


def _time(moment: datetime | None) -> str:
    return moment.isoformat().replace("+00:00", "Z") if moment else "0001-01-01T00:00:00Z"


def _is_time(text: str) -> bool:
    """Return whether Go's strfmt takes it: with a zone or without, a time without seconds, or a day alone."""
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


def _refused_ignition(text: str) -> Told | None:
    """400 for what is not Ignition of one of the two versions that the service reads (ParseToLatest)."""
    try:
        version = json.loads(text)["ignition"]["version"]
    except (ValueError, KeyError, TypeError):
        return _error(400, "error parsing ignition: not a config")
    good = version in {"3.1.0", "3.2.0"}
    return None if good else _error(400, "error parsing ignition: unsupported config version")


def _json(status: int, document: object) -> Told:
    return Told(status, json.dumps(document).encode())


def _error(status: int, reason: str) -> Told:
    """As handlers say it: the code is a text."""
    return _json(status, {"code": str(status), "href": "", "id": status, "kind": "Error", "reason": reason})


def _infra_error(status: int, message: str) -> Told:
    """As authentication, routing and validation say it: the code is a number."""
    return _json(status, {"code": status, "message": message})


def _object(asked: Asked, known: set[str] | None = None) -> dict[str, object] | Told:
    """The JSON object of a body, without fields that are unknown."""
    if asked.headers.get("content-type", "").partition(";")[0] != "application/json":
        return _infra_error(400, 'unsupported media type, only ["application/json"] are allowed')
    try:
        document = json.loads(asked.body)
    except ValueError:
        return _infra_error(400, "parsing the body failed, because it is not valid JSON")
    if not isinstance(document, dict):
        return _infra_error(400, "the body is no object")
    unknown = sorted(set(document) - known) if known is not None else []
    return _infra_error(400, f'json: unknown field "{unknown[0]}"') if unknown else document


def form_parts(asked: Asked) -> dict[str, bytes] | None:
    """The files of a form by their names; None when the body is no form."""
    content_type = asked.headers.get("content-type", "")
    if not content_type.startswith("multipart/form-data"):
        return None
    message = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + asked.body)
    parts: dict[str, bytes] = {}
    for part in message.walk():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            parts[name] = content
    return parts

"""Send equal requests about a host to a collector and to a model of the assisted-service."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.assisted_installation import Host
from tests.assisted_rules import BASE_PATH, AssistedRules, ServiceRequest, ServiceResponse
from tests.collector.serving import Client, Reply, RunningCollector


class Clock:
    """A clock for a collector, which tests set."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Agent:
    """A client of the collector's assisted-service API, with the token of a host."""

    client: Client
    host: Host

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        raw = body if isinstance(body, bytes) else None
        data = None if raw is not None else body
        return self.client.ask(method, BASE_PATH + path, data=data, body=raw, headers=headers)

    def put_stage(self, stage: str, info: str = "") -> Reply:
        return self.put({"current_stage": stage, "progress_info": info})

    def put(self, body: object) -> Reply:
        return self.ask("PUT", f"/v2/infra-envs/{self.host.infra_env_id}/hosts/{self.host.id}/progress", body)

    def listed(self, query: str = "") -> Any:
        return self.ask("GET", f"/v2/clusters/{self.host.cluster_id}/hosts{query}").json

    def upload(self, content: bytes, name: str = "logs.tar.gz", **query: str) -> Reply:
        parameters = {"logs_type": "host_boot", "host_id": self.host.id} | query
        body, headers = form(content, name=name)
        path = f"/v2/clusters/{self.host.cluster_id}/logs?" + "&".join(
            f"{k}={v}" for k, v in parameters.items()
        )
        return self.ask("POST", path, body, headers)


@dataclass(slots=True)
class Twin:
    """A host that both the collector and the model of the assisted-service know."""

    server: RunningCollector
    clock: Clock
    facts: dict[str, Any] = field(default_factory=dict)
    rules: AssistedRules = field(
        default_factory=lambda: AssistedRules(knows_boot_stages=True, knows_host_boot=True)
    )
    host: Host = field(init=False)
    name: str = field(init=False)
    """The host's name in the collector."""
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        self.host = self.rules.add_host(**self.facts)
        self.name = f"web-{self.host.id[:8]}"
        map_host(self.server, self.name, self.host, is_single_node=bool(self.facts.get("single_node")))
        self.agent = Agent(self.server.client("host", self.name), self.host)

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[Reply, ServiceResponse]:
        """Return the answers of the collector and of the assisted-service."""
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        types = {} if body is None or isinstance(body, bytes) else {"content-type": "application/json"}
        expected = self.rules.answer(
            ServiceRequest(method, BASE_PATH + path, types | dict(headers or {}), sent)
        )
        assert isinstance(expected, ServiceResponse)
        return self.agent.ask(method, path, body, headers), expected

    def progress(
        self, body: object, headers: Mapping[str, str] | None = None
    ) -> tuple[Reply, ServiceResponse]:
        path = f"/v2/infra-envs/{self.host.infra_env_id}/hosts/{self.host.id}/progress"
        return self.ask("PUT", path, body, headers)

    def stages(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the current state of the host in the collector and in the model."""
        ours, theirs = self.ask("GET", f"/v2/clusters/{self.host.cluster_id}/hosts")
        return _seen(ours.json), _seen(json.loads(theirs.body))


def map_host(server: RunningCollector, name: str, host: Host, *, is_single_node: bool = False) -> Reply:
    """Create a host in the collector with its ids at the assisted-service, like an administrator."""
    body = {
        "id": host.id,
        "cluster_id": host.cluster_id,
        "infra_env_id": host.infra_env_id,
        "role": host.role,
        "bootstrap": host.bootstrap,
        "single_node": is_single_node,
    }
    return server.client("admin").ask("PUT", f"/api/v1/hosts/{name}", data=body)


def form(
    content: bytes = b"logs", part: str = "upfile", name: str = "logs.tar.gz"
) -> tuple[bytes, dict[str, str]]:
    """Return a multipart body with one file, and its Content-Type."""
    disposition = f'Content-Disposition: form-data; name="{part}"; filename="{name}"'
    body = f"--limit\r\n{disposition}\r\nContent-Type: application/gzip\r\n\r\n".encode()
    return body + content + b"\r\n--limit--\r\n", {"content-type": "multipart/form-data; boundary=limit"}


def _seen(listed: list[dict[str, Any]]) -> dict[str, Any]:
    (host,) = listed
    progress = host["progress"]
    return {
        "id": host["id"],
        "role": host["role"],
        "bootstrap": host["bootstrap"],
        "status": host["status"],
        "stage": progress["current_stage"],
        "info": progress["progress_info"],
        "percentage": progress["installation_percentage"],
        "logs_info": host["logs_info"],
    }

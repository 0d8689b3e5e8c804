"""The state of a model of the assisted-service: hosts, infra-envs, clusters, uploaded logs and events.

`tests.assisted_rules` adds the HTTP API.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

LOCAL_IGNITION: Final = "Booted with local ignition"
CONTROL_PLANE_IGNITION: Final = "Booted with control plane ignition"

_S, _I, _W, _C, _R = (
    "Starting installation",
    "Installing",
    "Writing image to disk",
    "Copying registry data to disk",
    "Rebooting",
)
STAGES: Final[Mapping[str, list[str]]] = {
    "master": [_S, _I, _W, _C, _R, "Configuring", "Joined", "Done"],
    "worker": [
        *(_S, _I, _W, "Waiting for control plane", _R),
        *("Waiting for ignition", "Configuring", "Joined", "Done"),
    ],
    "bootstrap": [
        *(_S, _I, _W, _C, "Waiting for control plane", "Waiting for bootkube", "Waiting for controller", _R),
        *("Configuring", "Joined", "Done"),
    ],
    "single node": [_S, _I, "Waiting for bootkube", _W, _C, _R, "Joined", "Done"],
}


@dataclass(slots=True)
class Host:
    id: str
    infra_env_id: str
    cluster_id: str | None
    role: str = "master"
    bootstrap: bool = False
    kind: str = "Host"
    status: str = "installing-in-progress"
    status_info: str = ""
    stage: str = "Rebooting"
    info: str = ""
    stage_started_at: datetime | None = None
    stage_updated_at: datetime | None = None
    stage_timed_out: bool = False
    percentage: int = 0
    logs_info: str = ""
    logs_started_at: datetime | None = None
    logs_collected_at: datetime | None = None
    checked_in_at: datetime | None = None
    requested_hostname: str = ""
    ignition_config_overrides: str = ""


@dataclass(slots=True)
class InfraEnv:
    id: str
    cluster_id: str | None = None
    name: str = "discovery"
    ignition_config_override: str = ""


@dataclass(slots=True)
class Cluster:
    id: str
    single_node: bool = False
    status: str = "installing"


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    message: str
    severity: str = "info"
    time: datetime | None = None
    host_id: str | None = None


def new_id() -> str:
    return str(uuid.uuid4())


class Installation:
    """The state of one assisted-service. Its clock, `now`, moves only by `advance`."""

    def __init__(
        self, *, auth_type: str = "none", knows_boot_stages: bool = False, knows_host_boot: bool = False
    ) -> None:
        self.auth_type = auth_type
        self.pull_secret_auth = "c2VjcmV0OmZyb20tdGhlLXB1bGwtc2VjcmV0"
        self.user_key = "user-of-the-web-page"
        self.tokens: dict[str, str] = {}
        """Agent token -> id of its infra-env, for `auth_type="local"`."""
        self.knows_boot_stages = knows_boot_stages
        self.knows_host_boot = knows_host_boot
        self.conflicting_changes = 0
        """The number of next stage updates that fail because of a concurrent change."""
        self.is_database_down = False
        """If true, valid tokens get status 401 with local authentication, as from the real service."""
        self.now = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
        self.infra_envs: dict[str, InfraEnv] = {}
        self.clusters: dict[str, Cluster] = {}
        self.hosts: dict[str, Host] = {}
        self.objects: dict[str, bytes] = {}
        """Name -> content of each uploaded archive of logs."""
        self.events: list[Event] = []

    def add_host(self, *, single_node: bool = False, bound: bool = True, **facts: object) -> Host:
        """Add a host with a new cluster and infra-env. `facts` are attributes of the host."""
        infra_env = self.add_infra_env(single_node=single_node)
        return self.register(infra_env, bound=bound, **facts)

    def add_infra_env(self, *, single_node: bool = False) -> InfraEnv:
        """Add an infra-env with a new cluster, without hosts."""
        cluster = Cluster(new_id(), single_node)
        self.clusters[cluster.id] = cluster
        infra_env = InfraEnv(new_id(), cluster.id)
        self.infra_envs[infra_env.id] = infra_env
        return infra_env

    def register(self, infra_env: InfraEnv, *, bound: bool = True, **facts: object) -> Host:
        """Add a host to an infra-env and, if `bound`, to the infra-env's cluster."""
        host = Host(new_id(), infra_env.id, infra_env.cluster_id if bound else None)
        for name, value in facts.items():
            setattr(host, name, value)
        host.stage_started_at = host.stage_updated_at = self.now
        host.percentage = self.compute_percentage(host)
        self.hosts[host.id] = host
        return host

    def add_rebooting_host(self, token: str, *, single_node: bool = False) -> Host:
        """Add a host that reboots from its disk and reports with `token`."""
        host = self.add_host(single_node=single_node, stage="Rebooting")
        self.tokens[token] = host.infra_env_id
        return host

    def _get_stage_limit_minutes(self, host: Host) -> int:
        """Return the time limit of the host's stage."""
        cluster = self.clusters.get(host.cluster_id or "")
        if host.stage == _R:
            return 80 if cluster and cluster.single_node else 40
        return {_S: 30, _W: 30, _C: 90, "Waiting for ignition": 1440}.get(host.stage, 60)

    def _time_out(self, host: Host) -> None:
        if host.stage == _R:
            host.status = "installing-pending-user-action"
            host.status_info = "Host timed out when pulling the configuration files."
        else:
            host.status, host.status_info = "error", f"Stage {host.stage} took longer than expected."

    def delete_cluster(self, cluster_id: str) -> None:
        del self.clusters[cluster_id]

    def stages(self, host: Host) -> list[str]:
        """Return the stages of a host in this role, in order."""
        cluster = self.clusters.get(host.cluster_id or "")
        if cluster and cluster.single_node:
            stages = STAGES["single node"]
        elif host.bootstrap:
            stages = STAGES["bootstrap"]
        else:
            stages = STAGES["worker" if host.role == "worker" else "master"]
        if not self.knows_boot_stages:
            return stages
        rebooted, joined = stages.index("Rebooting") + 1, stages.index("Joined")
        return [
            *stages[:rebooted],
            LOCAL_IGNITION,
            *stages[rebooted:joined],
            CONTROL_PLANE_IGNITION,
            *stages[joined:],
        ]

    def compute_percentage(self, host: Host) -> int:
        stages = self.stages(host)
        return (stages.index(host.stage) + 1) * 100 // len(stages) if host.stage in stages else 0

    def advance(self, **duration: float) -> None:
        """Move the clock, and run the monitors of stages and logs once."""
        self.now += timedelta(**duration)
        for host in self.hosts.values():
            limit = timedelta(minutes=self._get_stage_limit_minutes(host))
            is_late = host.stage_updated_at is not None and self.now - host.stage_updated_at > limit
            if host.status == "installing-in-progress" and is_late:
                self._time_out(host)
            since = host.logs_collected_at if host.logs_info == "collecting" else None
            if host.status in {"error", "cancelled"} and since and self.now - since > timedelta(minutes=2):
                host.logs_info = "timeout"

"""A cluster of five hosts that install, as agents and a controller report it: one has a wrong boot order."""

import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import orjson

from service_record.http.address import CollectorError
from service_record.http.collector_client import CollectorClient

NAME: Final = "prod"
GROUP: Final = "dc1/rack1"
WRONG_BOOT_ORDER: Final = "prod-w2"
EXPECTED: Final[Mapping[str, str]] = {
    "prod-m1": "done",
    "prod-m2": "done",
    "prod-m3": "done",
    "prod-w1": "done",
    WRONG_BOOT_ORDER: "stuck",
}
"""Host -> the verdict that the collector is to come to."""
_BASE: Final = "/api/assisted-install/v2"
_STAGES: Final = ("Configuring", "Joined", "Done")
_PARTS: Final = 12
"""Of the whole demonstration, between two reports."""


@dataclass(slots=True)
class Cluster:
    """The five hosts, and the controller that watches over them."""

    url: str
    token: str
    """Of an administrator, who makes the hosts known; the hosts use it, too."""
    seconds: float
    """Approximate length of the whole demonstration."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    infra_env_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _ids: dict[str, str] = field(default_factory=lambda: {name: str(uuid.uuid4()) for name in EXPECTED})
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the hosts known, and have them install."""
        with CollectorClient(self.url, self.token) as client:
            self._send(client, "PUT", f"/api/v1/clusters/{self.id}", name=NAME, control_planes=3, workers=2)
            for name, host_id in self._ids.items():
                is_master = name.startswith(f"{NAME}-m")
                self._send(
                    client,
                    "PUT",
                    f"/api/v1/hosts/{name}",
                    group=GROUP,
                    id=host_id,
                    cluster_id=self.id,
                    infra_env_id=self.infra_env_id,
                    role="master" if is_master else "worker",
                    bootstrap=name == f"{NAME}-m1",
                )
        self._thread = threading.Thread(target=self._install)
        self._thread.start()

    def stop(self) -> None:
        """Switch the hosts off."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _install(self) -> None:
        with CollectorClient(self.url, self.token) as client, suppress(CollectorError):
            for number, stage in enumerate(_STAGES):
                for name in EXPECTED:
                    if name != WRONG_BOOT_ORDER:
                        self._put_stage(client, name, stage)
                if self._is_over.wait(self.seconds / _PARTS):
                    return
                if number == 0:  # it boots the image again instead of its disk
                    hosts = f"{_BASE}/infra-envs/{self.infra_env_id}/hosts"
                    self._send(client, "POST", hosts, host_id=self._ids[WRONG_BOOT_ORDER])
                self._control(client, stage)

    def _control(self, client: CollectorClient, stage: str) -> None:
        """Report as the controller: approved requests and operators."""
        approved = 2 * (len(EXPECTED) - 1) if stage == "Done" else len(EXPECTED) - 1
        self._send(
            client,
            "POST",
            f"{_BASE}/events",
            severity="info",
            event_time="2026-11-23T10:00:00Z",
            cluster_id=self.id,
            name="csr_approved",
            message="Approved the certificate requests of nodes that want to join",
            props=orjson.dumps({"csrs_approved": approved}).decode(),
        )
        operators = f"{_BASE}/clusters/{self.id}/monitored-operators"
        etcd = "available" if stage == "Done" else "progressing"
        waits = "Ingress waits for a second worker"
        for name, status, info in (("etcd", etcd, ""), ("console", "progressing", waits)):
            fields = {"name": name, "status": status, "status_info": info}
            self._send(client, "PUT", operators, **fields, version="4.20.1")

    def _put_stage(self, client: CollectorClient, name: str, stage: str) -> None:
        path = f"{_BASE}/infra-envs/{self.infra_env_id}/hosts/{self._ids[name]}/progress"
        self._send(client, "PUT", path, current_stage=stage)

    def _send(self, client: CollectorClient, method: str, path: str, **body: object) -> None:
        client.send(method, path, body=orjson.dumps(body))

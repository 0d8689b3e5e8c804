"""Clusters and their states, from reports of hosts, agents and controllers and from events of the service."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from service_record.collector.assisted.cluster_states import ClusterState
from service_record.collector.assisted.host_states import HostState
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.schema import cluster_logs, clusters
from tests.assisted_contract import assert_requests_match_openapi
from tests.assisted_installation import Host, new_id
from tests.assisted_rules import BASE_PATH, ServiceRequest
from tests.collector.browsing import sign_in_visitor
from tests.collector.installing import Clock, form
from tests.collector.serving import Client, Reply, RunningCollector, run_collector

SILENT = "The host has not called for three minutes; fix or disable it to continue the installation"
MASTERS, WORKERS = ("m1", "m2", "m3"), ("w1", "w2")


@pytest.fixture(scope="module")
def server(shared_settings: CollectorSettings, clock: Clock) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own cluster."""
    with run_collector(shared_settings, clock) as running:
        yield running


@dataclass(slots=True)
class Installed:
    """A cluster of five hosts in a collector. The names of the hosts end with a part of the cluster's id."""

    server: RunningCollector
    clock: Clock
    status: str = ""
    id: str = field(default_factory=new_id)
    infra_env_id: str = field(default_factory=new_id)
    admin: Client = field(init=False)
    group: Client = field(init=False)
    hosts: dict[str, Host] = field(default_factory=dict)
    asked: list[ServiceRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.admin = self.server.client("admin")
        for name in (*MASTERS, *WORKERS):
            self.hosts[name] = host = Host(new_id(), self.infra_env_id, self.id)
            mapping = {
                "group": f"g{self.id[:8]}",
                "id": host.id,
                "cluster_id": self.id,
                "infra_env_id": self.infra_env_id,
                "role": "master" if name in MASTERS else "worker",
                "status": self.status,
            }
            assert self.admin.ask("PUT", f"/api/v1/hosts/{self.name(name)}", data=mapping).status == 201
        self.group = self.server.client("group", f"g{self.id[:8]}")

    def name(self, short: str) -> str:
        return f"{short}-{self.id[:8]}"

    def ask(self, method: str, path: str, data: object = None, client: Client | None = None) -> Reply:
        return (client or self.group).ask(method, BASE_PATH + path, data=data)

    def stage(self, short: str, stage: str) -> Reply:
        path = f"/v2/infra-envs/{self.infra_env_id}/hosts/{self.hosts[short].id}/progress"
        return self.ask("PUT", path, {"current_stage": stage})

    def register(self, short: str) -> Reply:
        body = {"host_id": self.hosts[short].id}
        return self.ask("POST", f"/v2/infra-envs/{self.infra_env_id}/hosts", body)

    def call(self, short: str) -> Reply:
        path = f"/v2/infra-envs/{self.infra_env_id}/hosts/{self.hosts[short].id}/instructions"
        return self.ask("GET", path)

    def event(self, name: str, message: str, host: str = "", **more: object) -> Reply:
        of = {"host_id": self.hosts[host].id} if host else {"cluster_id": self.id}
        self.clock.now += 0.001  # each event has another time
        time = datetime.fromtimestamp(self.clock.now, UTC).isoformat()
        fields = {"severity": "info", "event_time": time, "name": name, "message": message}
        return self.ask("POST", "/v2/events", fields | of | more)

    def controller(self, method: str, what: str, data: object) -> Reply:
        return self.ask(method, f"/v2/clusters/{self.id}/{what}", data)

    def upload(self, kind: str, content: bytes, client: Client | None = None, **query: str) -> Reply:
        body, headers = form(content, name="logs.tar.gz")
        query_string = "&".join(f"{name}={value}" for name, value in {"logs_type": kind, **query}.items())
        path = f"{BASE_PATH}/v2/clusters/{self.id}/logs?{query_string}"
        return (client or self.group).ask("POST", path, body=body, headers=headers)

    def detail(self) -> Any:
        self.server.settle()
        return self.admin.get(f"/api/v1/clusters/{self.id}").json

    @property
    def state(self) -> str:
        return str(self.detail()["summary"]["status"])

    def states(self) -> dict[str, str]:
        return {host["name"].partition("-")[0]: host["status"] for host in self.detail()["hosts"]}

    def verdict(self, short: str) -> tuple[str, str]:
        self.server.settle()
        summary = self.admin.get(f"/api/v1/hosts/{self.name(short)}").json["summary"]
        return summary["verdict"], summary["reason"]


@pytest.fixture
def five(server: RunningCollector, clock: Clock) -> Installed:
    return Installed(server, clock)


# States from reports of hosts


def test_cluster_needs_control_plane_and_two_workers(five: Installed) -> None:
    assert five.state == "installing"

    for short in (*MASTERS, "w1"):
        five.stage(short, "Done")
    before = five.detail()["summary"]
    five.stage("w2", "Done")
    after = five.detail()["summary"]

    assert (before["status"], before["installed_control_planes"], before["installed_workers"]) == (
        "installing",
        3,
        1,
    )
    assert before["reason"] == "3 of 3 control-plane hosts and 1 of 2 workers are installed."
    assert (after["status"], after["joined"], after["hosts"]) == ("installed", 5, 5)
    assert after["since"] == five.clock.now


def test_progress_of_a_host_is_the_same_everywhere(five: Installed) -> None:
    def progress(name: str) -> set[float]:
        host = five.admin.get(f"/api/v1/hosts/{five.name(name)}").json["summary"]
        hosts = five.admin.get(f"/api/v1/clusters/{five.id}").json["hosts"]
        return {host["percentage"], *(one["percentage"] for one in hosts if one["name"] == five.name(name))}

    five.server.settle()
    assert progress("m1") == {50}, "of its stage, before it reports anything"
    five.admin.step(five.name("m1"), "Packages", percentage=64)
    assert progress("m1") == {64}


def test_cluster_fails_with_a_control_plane_host(five: Installed) -> None:
    five.stage("m2", "Failed")

    summary = five.detail()["summary"]
    assert summary["status"] == "error"
    assert f"{five.name('m2')}: error." in summary["reason"]


def test_cluster_becomes_ready_with_its_hosts(server: RunningCollector, clock: Clock) -> None:
    five = Installed(server, clock, status="discovering")
    assert five.state == "insufficient"

    for short in five.hosts:
        five.event("host_status_updated", "Host x: updated status from discovering to known ", short)
    assert five.state == "ready"

    five.event("cluster_prepare_installation_started", "Cluster starting to prepare for installation")
    assert five.state == "preparing-for-installation"
    message = "Host x: updated status from preparing-successful to installing (x)"
    five.event("host_status_updated", message, "m1")
    assert five.state == "installing"


def test_definition_sets_expected_number_of_hosts(five: Installed) -> None:
    definition = {"name": "prod", "control_planes": 3, "workers": 3}
    assert five.admin.ask("PUT", f"/api/v1/clusters/{five.id}", data=definition).status in {200, 201}

    for short in five.hosts:
        five.stage(short, "Done")

    summary = five.detail()["summary"]
    assert (summary["name"], summary["status"], summary["defined_workers"]) == ("prod", "installed", 3)
    assert five.admin.get("/api/v1/clusters/prod").json["summary"]["id"] == five.id


@pytest.mark.parametrize(
    "definition",
    [{"workers": -1}, {"workers": "x"}, {"control_planes": 0}, {"control_planes": 1e9}, {"name": ["x"]}],
)
def test_invalid_definition_is_refused(five: Installed, definition: dict[str, object]) -> None:
    assert five.admin.ask("PUT", f"/api/v1/clusters/{five.id}", data=definition).status == 400
    assert five.admin.ask("PUT", "/api/v1/clusters/prod", data={}).status == 400
    assert five.group.ask("PUT", f"/api/v1/clusters/{five.id}", data={}).status == 403


def test_cluster_is_deleted_with_its_last_host(five: Installed, server: RunningCollector) -> None:
    assert five.state == "installing"
    for short in five.hosts:
        assert five.admin.ask("DELETE", f"/api/v1/hosts/{five.name(short)}").status == 204

    with server.collector.database.reading() as connection:
        assert connection.execute(select(clusters).where(clusters.c.id == five.id)).first() is None
    assert five.admin.get(f"/api/v1/clusters/{five.id}").status == 404


# Hosts


def test_agent_after_reboot_means_wrong_boot_order(five: Installed) -> None:
    reply = five.register("w1")

    assert (reply.status, reply.json["status"]) == (201, "installing-pending-user-action")
    assert "fix boot order" in reply.json["status_info"]
    verdict, reason = five.verdict("w1")
    assert (verdict, reason[:44]) == ("stuck", "Somebody has to act in stage Rebooting: Expe")
    assert five.state == "installing"
    assert "installing-pending-user-action" in five.detail()["summary"]["reason"]

    assert five.stage("w1", "Joined").status == 200
    assert five.states()["w1"] == "installing-in-progress"
    assert five.verdict("w1")[0] == "progressing"


def test_silent_agent_is_disconnected_until_next_call(server: RunningCollector, clock: Clock) -> None:
    five = Installed(server, clock, status="known")
    for short in five.hosts:
        assert five.call(short).json == {"next_instruction_seconds": 60, "instructions": []}
    assert five.state == "ready"

    clock.now += 181
    server.collector.sweeper.wake()
    for short in MASTERS:
        five.call(short)

    assert five.states() == dict.fromkeys(MASTERS, "known") | dict.fromkeys(WORKERS, "disconnected")
    assert five.state == "insufficient"
    assert five.verdict("w1") == ("stuck", f"Somebody has to act: {SILENT}.")
    for short in WORKERS:
        five.call(short)
    assert five.state == "ready"
    assert five.verdict("w1")[0] == "progressing"


def test_each_host_state_is_shown_like_the_service(five: Installed, server: RunningCollector) -> None:
    visitor = sign_in_visitor(server)
    for state in HostState:
        message = f"Host w1: updated status from known to {state} (as it says)"
        assert five.event("host_status_updated", message, "w1").status == 201

        assert five.states()["w1"] == state
        page = visitor.page(f"/hosts/{five.name('w1')}")
        assert f" {state}" in page.texts("span", "word")
        assert "as it says" in page.texts("span", "reason")


def test_disabled_host_does_not_count(server: RunningCollector, clock: Clock) -> None:
    five = Installed(server, clock, status="known")
    five.event("host_status_updated", "Host w2: updated status from known to disabled ", "w2")

    assert five.states()["w2"] == "disabled"
    assert five.verdict("w2") == ("progressing", "It is disabled, and takes no part in the installation.")
    assert five.detail()["summary"]["defined_workers"] == 1


def test_events_cancel_and_reset_an_installation(five: Installed) -> None:
    for short in five.hosts:
        five.event("host_installation_cancelled", f"Installation cancelled for host {short}", short)
    assert five.state == "cancelled"
    assert set(five.states().values()) == {"cancelled"}
    assert five.stage("m1", "Joined").status == 409

    for short in five.hosts:
        five.event("host_installation_reset", f"Installation reset for host {short}", short)
    assert set(five.states().values()) == {"resetting-pending-user-action"}
    assert five.state == "insufficient"
    for short in five.hosts:
        five.register(short)
    assert set(five.states().values()) == {"discovering"}


def test_unknown_host_registers_in_infra_env_of_cluster(five: Installed) -> None:
    five.hosts["new"] = Host(new_id(), five.infra_env_id, five.id)

    assert five.register("new").status == 201

    shown = {host["name"]: host for host in five.detail()["hosts"]}[five.hosts["new"].id]
    assert (shown["status"], shown["role"], shown["stage"]) == ("discovering", "auto-assign", "")
    five.infra_env_id = new_id()
    five.hosts["stray"] = Host(new_id(), five.infra_env_id, five.id)
    assert five.register("stray").status == 404
    assert five.ask("POST", f"/v2/infra-envs/{five.infra_env_id}/hosts", {"host_id": "x"}).status == 400


# Reports of the controller


def test_reported_operators_and_finalizing_stage_are_shown(five: Installed) -> None:
    operator = {"name": "console", "version": "4.20.1", "status": "progressing", "status_info": "2 of 3"}
    assert five.controller("PUT", "monitored-operators", operator).status == 200
    assert five.controller("PUT", "progress", {"finalizing_stage": "Adding router ca"}).status == 200
    for short in five.hosts:
        five.stage(short, "Done")

    detail = five.detail()
    (shown,) = detail["operators"]
    assert (shown["name"], shown["status"], shown["version"], shown["info"]) == (
        "console",
        "progressing",
        "4.20.1",
        "2 of 3",
    )
    assert (detail["summary"]["status"], detail["summary"]["finalizing_stage"]) == (
        "finalizing",
        "Adding router ca",
    )

    message = "Operator console status: available message: all is well"
    five.event("cluster_operator_status", message)
    five.controller("PUT", "progress", {"finalizing_stage": "Done"})
    assert five.state == "installed"
    assert five.detail()["operators"][0]["version"] == "4.20.1"


def test_approved_certificate_requests_in_events_are_shown(five: Installed) -> None:
    assert five.detail()["summary"]["csrs_approved"] is None

    assert five.event("csr_approved", "Approved csr-x7", props='{"csrs_approved": 4}').status == 201
    assert five.event("csr_approved", "Approved csr-x8", props="not JSON").status == 201
    assert five.event("csr_approved", "Approved csr-x9", props="[" * 10_000).status == 201

    detail = five.detail()
    assert detail["summary"]["csrs_approved"] == 4
    assert [event["message"] for event in detail["events"]] == [
        "Approved csr-x9",
        "Approved csr-x8",
        "Approved csr-x7",
    ]


def test_nul_in_event_is_stored_as_space(five: Installed) -> None:
    assert five.event("a\0b", "c\0d").status == 201

    (event,) = five.detail()["events"]
    assert (event["name"], event["message"]) == ("a b", "c d")


def test_controller_decides_result_of_installation(five: Installed) -> None:
    failed = {"is_success": False, "error_info": "the console never came up"}
    assert five.controller("POST", "actions/complete-installation", failed).status == 202

    summary = five.detail()["summary"]
    assert (summary["status"], summary["reason"]) == ("error", "the console never came up")

    five.event("cluster_status_updated", "Updated status of the cluster to installing")
    summary = five.detail()["summary"]
    assert (summary["status"], summary["completion"]) == ("installing", "")
    assert summary["reason"].startswith("The assisted-service says so. 0 of 3 control-plane hosts")


def test_reset_cluster_forgets_the_failure(five: Installed) -> None:
    failed = {"is_success": False, "error_info": "the console never came up"}
    five.controller("POST", "actions/complete-installation", failed)
    for short in five.hosts:
        five.event("host_installation_reset", f"Installation reset for host {short}", short)

    summary = five.detail()["summary"]
    assert (summary["status"], summary["completion_info"]) == ("insufficient", "")
    assert summary["reason"].startswith("0 of 5 hosts are known and sufficient.")


def test_hosts_change_state_set_by_the_service(five: Installed) -> None:
    assert five.state == "installing"
    five.event("cluster_status_updated", "Updated status of the cluster to finalizing")
    assert five.state == "finalizing"

    for short in five.hosts:
        five.stage(short, "Done")

    summary = five.detail()["summary"]
    assert (summary["status"], summary["reason"]) == (
        "installed",
        "3 of 3 control-plane hosts and 2 of 2 workers are installed.",
    )


@pytest.mark.parametrize(
    ("method", "what", "body"),
    [
        ("PUT", "progress", {"finalizing_stage": "Resting"}),
        ("PUT", "progress", {"stage": "Done"}),
        ("PUT", "monitored-operators", {"status": "available"}),
        ("PUT", "monitored-operators", {"name": "console", "status": "fine"}),
        ("POST", "actions/complete-installation", {}),
        ("POST", "actions/complete-installation", {"is_success": "yes"}),
        ("PUT", "logs-progress", {"logs_state": "lost"}),
        ("PUT", "logs-progress", []),
    ],
)
def test_report_outside_the_contract_is_refused(
    five: Installed, method: str, what: str, body: object
) -> None:
    assert five.controller(method, what, body).status == 400


def test_progress_of_controller_logs_is_stored(five: Installed) -> None:
    assert five.controller("PUT", "logs-progress", {"logs_state": "completed"}).status == 204
    assert five.detail()["summary"]["logs_state"] == "completed"


@pytest.mark.parametrize("kind", ["controller", "all"])
def test_only_latest_cluster_logs_are_kept(five: Installed, server: RunningCollector, kind: str) -> None:
    assert five.upload(kind, b"first").status == 204
    with server.collector.database.reading() as connection:
        of = select(cluster_logs.c.key).where(cluster_logs.c.cluster_id == five.id)
        first = connection.execute(of).scalar_one()
    assert b"".join(server.collector.objects.read(first)) == b"first"
    assert five.upload(kind, b"second").status == 204

    (shown,) = five.detail()["logs"]
    assert (shown["kind"], shown["size"]) == (kind, 6)
    reply = five.admin.get(f"/api/v1/clusters/{five.id}/logs/{kind}")
    assert (reply.status, reply.body) == (200, b"second")
    assert reply.headers["content-disposition"].startswith("attachment;")
    assert five.admin.get(f"/api/v1/clusters/{five.id}/logs/other").status == 404
    assert not list(server.collector.objects.keys_before(0.0))


def test_logs_of_unknown_kind_are_refused(five: Installed) -> None:
    assert five.upload("node-boot", b"x").status == 400
    assert five.upload("controller", b"x", infra_env_id="x").status == 400
    assert five.upload("host", b"x").status == 400


def test_only_control_plane_host_reports_for_its_cluster(five: Installed, server: RunningCollector) -> None:
    master, worker = (server.client("host", five.name(short)) for short in ("m1", "w1"))
    path = f"/v2/clusters/{five.id}/progress"
    body = {"finalizing_stage": "Done"}

    assert five.ask("PUT", path, body, master).status == 200
    assert five.ask("PUT", path, body, worker).status == 403
    assert five.ask("PUT", path, body, server.client("reader")).status == 403
    assert five.ask("PUT", path, body, server.stranger).status == 401
    assert five.upload("controller", b"x", worker).status == 403
    assert five.upload("controller", b"x", master).status == 204
    stranger = f"/v2/clusters/{new_id()}/progress"
    assert five.ask("PUT", stranger, body, five.admin).status == 404
    assert five.ask("PUT", stranger, body, five.group).status == 403


def test_sent_calls_match_the_contract(five: Installed) -> None:
    host = five.hosts["m1"].id
    of_host = f"{BASE_PATH}/v2/infra-envs/{five.infra_env_id}/hosts"
    of_cluster = f"{BASE_PATH}/v2/clusters/{five.id}"
    json = {"content-type": "application/json", "x-secret-key": "k"}
    body, headers = form(b"logs")
    assert_requests_match_openapi(
        [
            ServiceRequest("POST", of_host, json, f'{{"host_id": "{host}"}}'.encode()),
            ServiceRequest("GET", f"{of_host}/{host}/instructions", {"x-secret-key": "k"}),
            ServiceRequest("PUT", f"{of_cluster}/progress", json, b'{"finalizing_stage": "Done"}'),
            ServiceRequest(
                "PUT", f"{of_cluster}/monitored-operators", json, b'{"name": "console", "status": "failed"}'
            ),
            ServiceRequest(
                "POST", f"{of_cluster}/actions/complete-installation", json, b'{"is_success": true}'
            ),
            ServiceRequest("PUT", f"{of_cluster}/logs-progress", json, b'{"logs_state": "completed"}'),
            ServiceRequest(
                "POST", f"{of_cluster}/logs?logs_type=controller", headers | {"x-secret-key": "k"}, body
            ),
        ]
    )


# Rights of readers


def test_list_sorts_urgent_first_and_omits_old(server: RunningCollector, clock: Clock) -> None:
    fine, failed = Installed(server, clock), Installed(server, clock)
    for short in fine.hosts:
        fine.stage(short, "Done")
    failed.stage("m1", "Failed")
    server.settle()

    def listed(**query: str) -> list[str]:
        found = [each["id"] for each in failed.admin.get("/api/v1/clusters", **query).json["clusters"]]
        return [cluster_id for cluster_id in found if cluster_id in {fine.id, failed.id}]

    assert listed() == [failed.id, fine.id]
    assert listed(cluster=fine.id) == [fine.id]
    hosts = failed.admin.get("/api/v1/hosts", cluster=failed.id).json["hosts"]
    assert {host["name"] for host in hosts} == {failed.name(short) for short in failed.hosts}
    clock.now += 25 * 3600
    assert listed() == [failed.id]
    assert listed(all="true") == [failed.id, fine.id]


def test_reader_sees_clusters_entirely_in_its_group(five: Installed, server: RunningCollector) -> None:
    inside = server.client("reader", f"g{five.id[:8]}")
    server.settle()
    assert [each["id"] for each in inside.get("/api/v1/clusters").json["clusters"]] == [five.id]
    assert inside.get(f"/api/v1/clusters/{five.id}").status == 200

    five.admin.ask("PUT", f"/api/v1/hosts/{five.name('w2')}", data={"group": "elsewhere"})

    assert inside.get("/api/v1/clusters").json["clusters"] == []
    assert inside.get(f"/api/v1/clusters/{five.id}").status == 404
    assert inside.get(f"/api/v1/clusters/{five.id}/logs/all").status == 404
    assert server.client("reader", "elsewhere").get(f"/api/v1/clusters/{five.id}").status == 404


def test_metrics_count_clusters_by_state(five: Installed, server: RunningCollector) -> None:
    assert five.state == "installing"

    text = server.client("reader").get("/metrics").body.decode()

    lines = [line for line in text.splitlines() if line.startswith("service_record_clusters{")]
    counts = {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines}
    assert counts["installing"] >= 1
    assert set(counts) == set(ClusterState)


# Pages


def test_clusters_are_above_hosts_and_have_pages(five: Installed, server: RunningCollector) -> None:
    five.admin.ask("PUT", f"/api/v1/clusters/{five.id}", data={"name": f"prod-{five.id}"})
    five.register("w1")
    five.controller("PUT", "monitored-operators", {"name": "console", "status": "progressing"})
    five.event("note", "<b>by hand</b>", props='{"csrs_approved": 4}')
    five.upload("controller", b"logs of the controller")
    server.settle()
    visitor = sign_in_visitor(server)

    fleet = visitor.page(f"/?cluster={five.id}")
    (link,) = [node for node in fleet.all("a") if node.attributes["href"] == f"/clusters/{five.id}"]
    assert link.text == f"prod-{five.id}"
    assert " installing" in fleet.texts("span", "word")
    assert {node.attributes["data-row"] for node in fleet.all("tr") if "data-row" in node.attributes} == {
        five.name(short) for short in five.hosts
    }
    page = visitor.page(f"/clusters/{five.id}")
    assert page.texts("h1") == [f"prod-{five.id}"]
    assert page.texts("h2") == ["Hosts", "Operators", "Logs", "Events"]
    html = visitor.get(f"/clusters/{five.id}").body.decode()
    assert "fix boot order" in html
    assert "<b>by hand" not in html
    assert five.id in visitor.get("/clusters").body.decode()
    assert visitor.get(f"/clusters/{five.id}/logs/controller").body == b"logs of the controller"
    assert visitor.get(f"/clusters/{new_id()}").status == 404
    assert f"/clusters/{five.id}" in visitor.get(f"/hosts/{five.name('w1')}").body.decode()


def test_filtered_fleet_shows_only_requested_clusters(five: Installed, server: RunningCollector) -> None:
    server.settle()
    visitor = sign_in_visitor(server)

    assert "/clusters/" not in visitor.get(f"/?machine={five.name('m1')}").body.decode()
    assert visitor.get(f"/?machine=m1*&cluster={five.id}").body.decode().count("/clusters/") == 1


# Order of events


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_old_event_changes_no_installed_host(five: Installed) -> None:
    for short in (*MASTERS, *WORKERS):
        five.stage(short, "Done")
    before = five.detail()

    message = "Host m1: updated status from known to discovering "
    old = {"event_time": "2020-01-01T00:00:00Z"}
    assert five.event("host_status_updated", message, "m1", **old).status == 201
    assert five.event("cluster_installation_reset", "Reset the installation", **old).status == 201

    after = five.detail()
    assert (after["summary"]["status"], after["hosts"]) == (before["summary"]["status"], before["hosts"])
    assert after["summary"]["installed_control_planes"] == 3


def test_event_order_does_not_change_the_state(five: Installed) -> None:
    now = five.clock.now
    for status, time in (("disabled", now + 2), ("known", now + 1)):
        message = f"Host m1: updated status from insufficient to {status} "
        five.event("host_status_updated", message, "m1", event_time=at(time))
    for status, time in (("available", now + 2), ("failed", now + 1)):
        message = f"Operator etcd status: {status} message: m"
        five.event("cluster_operator_status", message, event_time=at(time))
    for count in (7, 3):
        five.event("csr_approved", f"Approved {count}", props=f'{{"csrs_approved": {count}}}')

    detail = five.detail()
    assert five.states()["m1"] == "disabled"
    assert [operator["status"] for operator in detail["operators"]] == ["available"]
    assert detail["summary"]["csrs_approved"] == 7


@pytest.mark.parametrize(("seconds", "state"), [(10, "error"), (3600, "finalizing")])
def test_later_finalizing_event_ends_the_failure(five: Installed, seconds: float, state: str) -> None:
    five.stage("m1", "Joined")
    failed = {"is_success": False, "error_info": "etcd is degraded"}
    five.controller("POST", "actions/complete-installation", failed)
    assert five.state == "error"

    five.clock.now += seconds
    five.event("cluster_status_updated", "Updated status of the cluster to finalizing")

    summary = five.detail()["summary"]
    assert summary["status"] == state
    assert ("etcd is degraded" in summary["reason"]) == (state == "error")


def test_repeated_event_is_stored_once(five: Installed) -> None:
    for host in ("", "m1"):
        for _ in range(3):
            assert five.event("note", "by hand", host, event_time=at(five.clock.now)).status == 201
            five.clock.now -= 0.001

    assert [event["message"] for event in five.detail()["events"]] == ["by hand"]

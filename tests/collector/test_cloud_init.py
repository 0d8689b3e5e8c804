"""Events of cloud-init's reporting webhook, with the token in the URL and without a snippet."""

from pathlib import Path
from typing import Any

from tests.collector.serving import Client, Reply, RunningCollector, make_collector_settings, run_collector

ADDRESS = "/api/v1/cloud-init/{}"


def send(client: Client, token: str, name: str, result: str = "", **more: Any) -> Reply:
    """Send an event with the fields and headers of cloudinit/reporting/events.py."""
    event = {
        "name": name,
        "description": f"running {name}",
        "event_type": "finish" if result else "start",
        "origin": "cloudinit",
        "timestamp": 1_800_000_000.25,
        **({"result": result} if result else {}),
        **more,
    }
    return client.ask("POST", ADDRESS.format(token), data=event)


def host(server: RunningCollector) -> dict[str, Any]:
    server.settle()
    document: dict[str, Any] = server.client("reader").get("/api/v1/hosts/web1").json
    return document


def ran(server: RunningCollector, token: str, *failing: str) -> None:
    for name in ("init-local", "init-network", "modules-config", "modules-final"):
        assert send(server.stranger, token, name).status == 201
        assert send(server.stranger, token, name, "FAIL" if name in failing else "SUCCESS").status == 201


def test_end_of_cloud_init_completes_the_build(server: RunningCollector) -> None:
    token = server.client("cloud-init", "web1").token

    ran(server, token)

    document = host(server)
    assert document["summary"]["verdict"] == "done"
    steps = [step for group in document["steps"] for step in group["first"]]
    assert [(step["name"], step["status"]) for step in steps[:2]] == [
        ("init-local", "init"),
        ("init-local", "done"),
    ]
    assert steps[0]["host_time"] == 1_800_000_000.25


def test_failed_finish_is_a_failure(server: RunningCollector) -> None:
    token = server.client("cloud-init", "web1").token
    assert send(server.stranger, token, "modules-final").status == 201
    name = "modules-final/config-scripts-user"
    assert send(server.stranger, token, name, "FAIL", description="config-scripts-user failed").status == 201

    summary = host(server)["summary"]
    assert summary["verdict"] == "failed"
    assert summary["reason"] == f"{name} failed: config-scripts-user failed."


def test_end_after_failure_does_not_complete_build(server: RunningCollector) -> None:
    token = server.client("cloud-init", "web1").token
    ran(server, token, "modules-config")
    assert host(server)["summary"]["verdict"] != "done"


def test_warning_is_done_with_note(server: RunningCollector) -> None:
    token = server.client("cloud-init", "web1").token
    assert send(server.stranger, token, "modules-config", "WARN").json["notes"] == ["cloud-init warned"]
    assert send(server.stranger, token, "modules-config", "ODD").json["notes"] == ["status was result odd"]


def test_invalid_event_is_refused(server: RunningCollector) -> None:
    token = server.client("cloud-init", "web1").token
    assert send(server.stranger, token, "").status == 400
    assert send(server.stranger, token, "x", event_type="middle").status == 400


def test_cloud_init_token_is_required_and_limited(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        for kind, scope in (("admin", ""), ("host", "web1"), ("boot", "web1"), ("reader", "")):
            assert send(server.stranger, server.client(kind, scope).token, "x").status == 403, kind
        assert send(server.stranger, "srt_1_guess", "x").status == 401
        own = server.client("cloud-init", "web1")
        assert own.step("web1", "Disk setup").status == 403
        assert own.get("/api/v1/hosts/web1").status == 403
        assert server.stranger.get(f"/api/v1/boot/{own.token}").status == 403

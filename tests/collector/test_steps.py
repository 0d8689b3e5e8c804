"""Steps as hosts report them."""

import pytest
from sqlalchemy import select

from service_record.collector.store.schema import steps
from tests.collector.serving import Served


def test_a_step_that_is_acknowledged_is_in_the_database(server: Served) -> None:
    host = server.client("host", "web1")

    reply = host.step("web1", "Disk setup", "init", percentage=10)

    assert (reply.status, reply.json) == (201, {"id": 1, "host": "web1", "build": 1})
    with server.collector.database.reading() as connection:
        (row,) = connection.execute(select(steps))
    assert (row.id, row.name, row.label, row.status, row.percentage) == (
        *(1, "Disk setup", "disk_setup"),
        *("init", 10),
    )


def test_a_token_of_one_host_reports_for_no_other(server: Served) -> None:
    host = server.client("host", "web1")

    assert host.step("web2", "Disk setup").status == 403


@pytest.mark.parametrize("percentage", [250, 100.5, -1])
def test_a_percentage_that_cannot_be_is_noted_and_completes_nothing(
    sqlite_server: Served, percentage: float
) -> None:
    host = sqlite_server.client("host", "web1")
    host.step("web1", "Packages", "done", percentage=60)

    reply = host.step("web1", "Bootloader", "done", percentage=percentage)

    assert reply.json["notes"] == [f"percentage was {percentage:g}"]
    summary = sqlite_server.client("reader").get("/api/v1/hosts/web1").json["summary"]
    assert (summary["percentage"], summary["ended_at"]) == (60, None)


def test_the_body_in_use_in_the_rfcs_thread_is_a_step_of_its_host(server: Served) -> None:
    update = {
        "name": "web1",
        "datacenter_name": "dc1",
        "action": "install",
        "status": "Anaconda pre started",
        "percentage": "10",
    }
    host = server.client("host", "web1")

    begun = host.post("/api/update", data=update)
    failed = host.post("/api/update", data=update | {"status": "Anaconda pre failed: no disk for the RAID"})

    assert (begun.status, failed.status) == (201, 201)
    server.settle()
    shown = server.client("reader").get("/api/v1/hosts/web1").json
    summary = shown["summary"]
    assert (summary["group"], summary["action"], summary["percentage"]) == ("dc1", "install", 10)
    assert (summary["message"], summary["verdict"]) == ("Anaconda pre failed: no disk for the RAID", "failed")
    reported = [step for group in shown["steps"] for step in group["latest"]]
    assert [(step["name"], step["status"]) for step in reported] == [
        ("Anaconda pre started", "reported"),
        ("Anaconda pre failed: no disk for the RAID", "failed"),
    ]


def test_a_step_is_no_entry_of_the_audit_log(server: Served) -> None:
    admin = server.client("admin")

    admin.step("web1", "Disk setup", "init")
    admin.step("web1", "Disk setup", "failed", logs="no disk")

    assert admin.get("/api/v1/audit").json["entries"] == []

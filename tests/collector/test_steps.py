"""Parse and store steps that hosts report."""

from typing import Any

import pytest
from sqlalchemy import select

from service_record.collector.domain.access import Grant, TokenKind
from service_record.collector.domain.reports import UnreadableReport, parse_event, parse_step, parse_update
from service_record.collector.domain.steps import (
    LONGEST_LOGS,
    ReportedStep,
    StepStatus,
    identify_report,
    make_label,
)
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.reporting import Report, record_steps
from service_record.collector.store.schema import steps
from tests.collector.installing import Clock
from tests.collector.serving import RunningCollector, run_collector


def test_acknowledged_step_is_in_the_database(server: RunningCollector) -> None:
    host = server.client("host", "web1")

    reply = host.step("web1", "Disk setup", "init", percentage=10)

    assert (reply.status, reply.json) == (201, {"id": 1, "host": "web1", "build": 1})
    with server.collector.database.reading() as connection:
        (row,) = connection.execute(select(steps))
    assert (row.id, row.name, row.label, row.status, row.percentage) == (
        *(1, "Disk setup", "disk_setup"),
        *("init", 10),
    )


def test_token_of_one_host_reports_for_no_other(server: RunningCollector) -> None:
    host = server.client("host", "web1")

    assert host.step("web2", "Disk setup").status == 403


@pytest.mark.parametrize("percentage", [250, 100.5, -1])
def test_impossible_percentage_is_noted_and_ignored(
    sqlite_server: RunningCollector, percentage: float
) -> None:
    host = sqlite_server.client("host", "web1")
    host.step("web1", "Packages", "done", percentage=60)

    reply = host.step("web1", "Bootloader", "done", percentage=percentage)

    assert reply.json["notes"] == [f"percentage was {percentage:g}"]
    summary = sqlite_server.client("reader").get("/api/v1/hosts/web1").json["summary"]
    assert (summary["percentage"], summary["ended_at"]) == (60, None)


def test_update_call_reports_a_step(server: RunningCollector) -> None:
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


def test_step_adds_no_audit_entry(server: RunningCollector) -> None:
    admin = server.client("admin")

    admin.step("web1", "Disk setup", "init")
    admin.step("web1", "Disk setup", "failed", logs="no disk")

    assert admin.get("/api/v1/audit").json["entries"] == []


def differing(step: ReportedStep) -> dict[str, Any]:
    """Return the fields of a step that differ from those of a step with only a name."""
    bare = ReportedStep(label="step", name="-", status=StepStatus.REPORTED)
    every = {name: getattr(step, name) for name in ReportedStep.__struct_fields__}
    return {name: value for name, value in every.items() if value != getattr(bare, name)}


LONG = "x" * LONGEST_LOGS


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"label": "a b"}, {"label": "a_b", "name": "a b"}),
        ({"name": "A b", "label": " c "}, {"label": "c", "name": "A b"}),
        ({"name": 7}, {"label": "7", "name": "7"}),
        ({"name": ["a"], "label": "b"}, {"label": "b", "name": "b", "notes": ("name was not a text",)}),
        ({"name": "n" * 255}, {"label": "n" * 255, "name": "n" * 255}),
        (
            {"name": "n" * 256},
            {"label": "n" * 255, "name": "n" * 255, "notes": ("name was cut at 255 characters",)},
        ),
        ({"status": " DONE "}, {"status": "done"}),
        ({"status": "odd"}, {"notes": ("status was odd",)}),
        *(({"priority": given}, {"priority": kept}) for given, kept in [(5, 5), ("-5", -5), (2.9, 2)]),
        *(
            ({"priority": sign * 2**40}, {"priority": kept})
            for sign, kept in [(1, 2**31 - 1), (-1, -(2**31))]
        ),
        ({"priority": "x"}, {"notes": ("priority was x",)}),
        *(({"percentage": kept}, {"percentage": kept}) for kept in (0, 0.5, 100)),
        ({"percentage": "40 %"}, {"percentage": 40.0}),
        *(
            ({"percentage": given}, {"notes": (f"percentage was {given}",)})
            for given in (-1, 101, "inf", "x")
        ),
        ({"logs": "a\0b"}, {"logs": "a b"}),
        ({"logs": 5}, {"logs": "5"}),
        ({"logs": LONG}, {"logs": LONG}),
        ({"logs": f"y{LONG}"}, {"logs": LONG, "notes": ("Output trimmed: logs had 65536 bytes",)}),
        ({"logs": f"\xe4{LONG[1:]}"}, {"logs": LONG[1:], "notes": ("Output trimmed: logs had 65536 bytes",)}),
        *(({"time": given}, {"time": kept}) for given, kept in [("1.5", 1.5), (2, 2.0)]),
        ({"time": "1970-01-01T00:01:00+00:00"}, {"time": 60.0}),
        *(({"time": given}, {"notes": (f"time was {given}",)}) for given in ("1.2.3", "soon", "0001-01-01")),
        ({"boot": "b" * 65}, {"boot_id": "b" * 64}),
        ({"boot": []}, {"notes": ("boot was not a text",)}),
        *(({name: "x"}, {name: "x"}) for name in ("action", "build", "group", "release")),
    ],
)
def test_invalid_fields_are_noted_or_dropped(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    named = fields.keys() & {"name", "label"}
    assert differing(parse_step(fields if named else {"name": "-", **fields})) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "Anaconda failed: no disk"}, {"name": "Anaconda failed: no disk", "status": "failed"}),
        (
            {"action": "an Error occurred"},
            {"name": "an Error occurred", "status": "failed", "action": "an Error occurred"},
        ),
        ({"status": "failures: 0", "percentage": 10}, {"name": "failures: 0", "percentage": 10}),
        ({"datacenter_name": "dc1", "logs": "l"}, {"name": "update", "group": "dc1", "logs": "l"}),
    ],
)
def test_update_body_is_parsed_as_step(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    host, step = parse_update({"name": "web1", **fields})
    assert (host, differing(step)) == ("web1", {"label": make_label(expected["name"]), **expected})
    with pytest.raises(UnreadableReport):
        parse_update(fields)


LAST = "modules-final"


@pytest.mark.parametrize(
    ("name", "kind", "result", "has_failed", "expected"),
    [
        ("init", "start", None, False, {"status": "init"}),
        ("init", "start", "FAIL", False, {"status": "init"}),
        ("init", "finish", "SUCCESS", False, {"status": "done"}),
        ("init", "finish", "FAIL", True, {"status": "failed", "logs": "d"}),
        ("init", "finish", "WARN", False, {"status": "done", "logs": "d", "notes": ("cloud-init warned",)}),
        ("init", "finish", "odd", False, {"notes": ("status was result odd",)}),
        ("init", "finish", None, False, {}),
        (LAST, "finish", "SUCCESS", False, {"status": "done", "percentage": 100.0}),
        (LAST, "finish", "SUCCESS", True, {"status": "done"}),
        (LAST, "finish", "FAIL", False, {"status": "failed", "logs": "d"}),
        (LAST, "start", None, False, {"status": "init"}),
        ("", "start", None, False, None),
        ("init", "odd", None, False, None),
    ],
)
def test_cloud_init_event_is_parsed_as_step(
    name: str, kind: str, result: str | None, *, has_failed: bool, expected: dict[str, Any] | None
) -> None:
    event = {"name": name, "event_type": kind, "description": "d", "result": result, "timestamp": 1.5}
    if expected is None:
        with pytest.raises(UnreadableReport):
            parse_event(event, has_failed=has_failed)
    else:
        step = parse_event(event, has_failed=has_failed)
        assert differing(step) == {"label": make_label(name), "name": name, "time": 1.5, **expected}


def verdict_of(server: RunningCollector, host: str) -> str:
    server.settle()
    return str(server.client("reader").get(f"/api/v1/hosts/{host}").json["summary"]["verdict"])


def stored_steps(server: RunningCollector) -> list[tuple[str, str]]:
    with server.collector.database.reading() as connection:
        return [(row.label, row.status) for row in connection.execute(select(steps).order_by(steps.c.id))]


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        pytest.param({"boot": "b1", "sequence": 7}, {}, id="boot and sequence number"),
        pytest.param({}, {"Idempotency-Key": "7b1e"}, id="header"),
    ],
)
def test_repeated_report_gets_the_first_answer(
    settings: CollectorSettings, clock: Clock, fields: dict[str, Any], headers: dict[str, str]
) -> None:
    with run_collector(settings, now=clock) as server:
        host = server.client("group", "")
        path, report = "/api/v1/hosts/web1/steps", {"name": "Packages", "status": "init", **fields}

        first = host.ask("POST", path, data=report, headers=headers)
        host.step("web1", "Packages", "failed", logs="no route to host")
        clock.now += 3600
        again = [host.ask("POST", path, data=report, headers=headers) for _ in range(3)]

        assert [(reply.status, reply.json) for reply in again] == [(first.status, first.json)] * 3
        assert stored_steps(server) == [("packages", "init"), ("packages", "failed")]
        assert verdict_of(server, "web1") == "failed"


def test_same_key_of_another_host_is_another_report(server: RunningCollector) -> None:
    group = server.client("group", "")
    for host in ("web1", "web2"):
        path = f"/api/v1/hosts/{host}/steps"
        reply = group.ask("POST", path, data={"name": "Disk"}, headers={"Idempotency-Key": "1"})
        assert reply.json["host"] == host

    assert len(stored_steps(server)) == 2


def test_key_of_another_step_is_refused(server: RunningCollector) -> None:
    host, key = server.client("host", "web1"), {"Idempotency-Key": "1"}
    path = "/api/v1/hosts/web1/steps"
    assert host.ask("POST", path, data={"name": "Disk", "status": "init"}, headers=key).status == 201

    reply = host.ask("POST", path, data={"name": "Packages", "status": "init"}, headers=key)

    assert (reply.status, stored_steps(server)) == (422, [("disk", "init")])


@pytest.mark.parametrize("time", ["", "2026-11-28T10:00:00Z"])
def test_unchanged_report_counts_once_in_a_minute(
    settings: CollectorSettings, clock: Clock, time: str
) -> None:
    with run_collector(settings, now=clock) as server:
        host = server.client("host", "web1")
        ids = []
        for _ in range(3):
            ids.append(host.step("web1", "Packages", "init", time=time).json["id"])
            clock.now += 20
        assert ids == [1, 1, 1]
        assert verdict_of(server, "web1") == "progressing"

        clock.now += 60
        assert host.step("web1", "Packages", "init", time=time).json["id"] > 1
        assert host.step("web1", "Packages", "init", time=time, logs="another").json["id"] > 2


def test_step_that_starts_over_counts_again(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    for _ in range(3):
        host.step("web1", "Packages", "init")
        host.step("web1", "Packages", "failed")

    assert len(stored_steps(server)) == 6
    assert verdict_of(server, "web1") == "looping"


def test_repeats_in_one_transaction_count_once(server: RunningCollector) -> None:
    server.client("admin")
    grant = Grant(1, TokenKind.ADMIN)
    step = parse_step({"name": "Packages", "status": "init", "boot": "b1", "sequence": 1})
    reports = [Report("web1", step, 1.0, grant), Report("web1", step, 2.0, grant)]

    with server.collector.database.changing() as connection:
        first, second = record_steps(connection, reports)

    assert first == second
    assert stored_steps(server) == [("packages", "init")]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("failed", "failed"),
        ("missing disk", "failed"),
        ("The disk is missing", "failed"),
        ("installation_failed", "failed"),
        ("Could not mount /dev/sda1", "failed"),
        ("timed out waiting for DHCP", "failed"),
        ("Installing missing packages", "reported"),
        ("finished without errors", "reported"),
        ("0 failed", "reported"),
        ("Waiting for network", "reported"),
    ],
)
def test_update_at_full_percentage_can_be_a_failure(status: str, expected: str) -> None:
    _, step = parse_update({"name": "web1", "status": status, "percentage": 100})

    assert step.status == expected


def test_same_report_of_two_hosts_has_two_identities() -> None:
    step = parse_step({"name": "Disk setup", "status": "done"})

    assert identify_report("web1", step) == identify_report("web1", step)
    assert identify_report("web1", step).number != identify_report("web2", step).number
    assert identify_report("web1", step, "k").number != identify_report("web2", step, "k").number

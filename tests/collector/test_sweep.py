"""Verdicts of hosts that report to a collector: judged when due, and shown to readers."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import select

from service_record.collector.assisted.installations import Arrival, admit_host
from service_record.collector.domain.access import Grant, TokenKind
from service_record.collector.domain.reports import parse_step
from service_record.collector.domain.silence import Absence, find_limit_start
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.absences import store_beat
from service_record.collector.store.administration import put_host
from service_record.collector.store.fleet import Filters, fleet
from service_record.collector.store.reporting import Accepted, Report, record_steps
from service_record.collector.store.schema import hosts, notices
from tests.collector.browsing import sign_in_visitor
from tests.collector.installing import Clock
from tests.collector.serving import Client, RunningCollector, run_collector
from tests.waiting import run_in_threads

PATIENCE = 30.0


def eventually(says: Callable[[], object], expected: object) -> None:
    """Wait until `says` returns the expected value."""
    until = time.monotonic() + PATIENCE
    while (text := says()) != expected and time.monotonic() < until:
        time.sleep(0.02)
    assert text == expected


def verdict(reader: Client, host: str) -> str:
    return str(reader.get(f"/api/v1/hosts/{host}").json["summary"]["verdict"])


def news(server: RunningCollector) -> list[tuple[str, str]]:
    with server.collector.database.reading() as connection:
        rows = connection.execute(select(notices.c.before, notices.c.verdict).order_by(notices.c.id))
        return [(before, after) for before, after in rows]


def test_host_is_judged_on_report_and_when_due(
    settings: CollectorSettings,
) -> None:
    clock = Clock(time.time())
    with run_collector(settings, clock) as server:
        host, reader = server.client("host", "web1"), server.client("reader")
        host.step("web1", "Disk setup", "init")
        server.settle()
        assert verdict(reader, "web1") == "progressing"

        clock.now += 15 * 60
        server.collector.sweeper.wake()
        eventually(lambda: verdict(reader, "web1"), "stuck")

        host.step("web1", "Disk setup", "failed", logs="no disk")
        eventually(lambda: verdict(reader, "web1"), "failed")
        assert reader.get("/api/v1/hosts/web1").json["builds"][0]["reason"] == "Disk setup failed: no disk."
        assert news(server) == [("progressing", "stuck"), ("stuck", "failed")]


def test_silent_host_becomes_stuck(settings: CollectorSettings) -> None:
    with run_collector(replace(settings, budget=0.5)) as server:
        reader = server.client("reader")
        server.client("host", "web1").step("web1", "Disk setup", "init")

        eventually(lambda: verdict(reader, "web1"), "stuck")


def test_limits_restart_after_an_absence(settings: CollectorSettings) -> None:
    clock = Clock(time.time())
    with run_collector(settings, clock) as server:
        server.client("host", "web1").step("web1", "Disk setup", "init")
        server.settle()
    clock.now += 60 * 60

    with run_collector(settings, clock) as server:
        reader = server.client("reader")
        server.settle()
        clock.now += 14 * 60
        server.collector.sweeper.wake()
        server.settle()
        assert (verdict(reader, "web1"), news(server)) == ("progressing", [])
        assert sign_in_visitor(server).page("/").texts("p", "away")

        clock.now += 60
        server.collector.sweeper.wake()
        eventually(lambda: verdict(reader, "web1"), "stuck")


def test_stuck_host_stays_stuck_after_an_absence(settings: CollectorSettings) -> None:
    clock = Clock(time.time())
    with run_collector(settings, clock) as server:
        server.client("host", "web1").step("web1", "Disk setup", "init")
        clock.now += 15 * 60
        server.collector.sweeper.wake()
        eventually(lambda: verdict(server.client("reader"), "web1"), "stuck")
    clock.now += 60 * 60

    with run_collector(settings, clock) as server:
        server.client("host", "web2").step("web2", "Disk setup", "init")
        server.settle()
        assert verdict(server.client("reader"), "web1") == "stuck"
        assert news(server) == [("progressing", "stuck")]


def test_absence_needs_all_processes_without_beats(settings: CollectorSettings) -> None:
    with run_collector(settings, Clock(1000.0)) as server:
        writer = server.collector.writer

        def beat(now: float, without_beat: float | None) -> Absence | None:
            return writer.change(lambda connection: store_beat(connection, now, without_beat)).result()

        assert beat(1000.0, None) is None
        assert beat(5000.0, 2.0) is None  # the time of day was changed
        assert beat(5002.0, 4000.0) is None  # another process was at work
        assert beat(5012.0, 10.0) is None  # the machine is busy
        assert beat(5112.0, 100.0) == Absence(5012.0, 5112.0)
        assert beat(5113.0, None) is None
        assert beat(5173.0, None) == Absence(5113.0, 5173.0)


@pytest.mark.parametrize(
    ("absences", "counted_from"),
    [
        ([], 100),
        ([(50, 90)], 100),
        ([(90, 110)], 110),
        ([(105, 120)], 120),
        ([(111, 200)], 100),
        ([(105, 120), (125, 140)], 140),
        ([(105, 120), (131, 140)], 120),
    ],
)
def test_limit_restarts_only_if_absence_began_within_it(
    absences: list[tuple[float, float]], counted_from: float
) -> None:
    assert find_limit_start(100, 10, [Absence(*absence) for absence in absences]) == counted_from


def add_report(collector: Collector, report: Report) -> Accepted:
    (accepted,) = asyncio.run(collector.writer.add(record_steps, [report]))
    assert isinstance(accepted, Accepted)
    return accepted


def test_unjudged_host_is_progressing(settings: CollectorSettings) -> None:
    with Collector(settings) as collector:  # background work has not started
        grant, step = Grant(1, TokenKind.ADMIN), parse_step({"name": "Disk setup"})
        add_report(collector, Report("web1", step, 1.0, grant))
        collector.writer.change(lambda connection: put_host(connection, "web2", {}, 1.0)).result()
        collector.writer.change(
            lambda connection: admit_host(connection, Arrival("web3", grant, 1.0))
        ).result()
        with collector.database.reading() as connection:
            assert fleet(connection, Filters()).counts["progressing"] == 3


def test_busy_host_is_not_judged_continuously(settings: CollectorSettings) -> None:
    with Collector(settings) as collector:
        collector.sweeper.start()
        grant, began, reports = Grant(1, TokenKind.ADMIN), time.monotonic(), 0
        while (seconds := time.monotonic() - began) < 2:
            now = collector.now()
            due_at = collector.sweeper.due_at(now)
            report = Report(
                "web1", parse_step({"label": "disk", "name": f"Try {reports}"}), now, grant, due_at=due_at
            )
            accepted = add_report(collector, report)
            collector.sweeper.add(accepted.host_id)
            reports += 1
        with collector.database.reading() as connection:
            revision = connection.execute(select(hosts.c.revision)).scalar_one()
    times_judged = revision - (reports - 1)  # the first created the host; each verdict has another reason
    assert 1 <= times_judged <= seconds * 4 + 1


def test_several_processes_judge_each_host_once(settings: CollectorSettings) -> None:
    clock = Clock(time.time())
    with Collector(settings, clock) as one, Collector(settings, clock) as other:
        server = RunningCollector("", one)
        report_of_many(one, clock, 40)
        clock.now += 15 * 60

        run_in_threads(one.sweeper.sweep, other.sweeper.sweep)

        one.sweeper.sweep()
        assert news(server) == [("progressing", "stuck")] * 40


def report_of_many(collector: Collector, clock: Clock, count: int) -> None:
    step = parse_step({"name": "Disk setup", "status": "init"})
    for number in range(count):
        report = Report(f"web{number}", step, clock(), Grant(1, TokenKind.ADMIN))
        add_report(collector, report)


def test_budgets_are_learnt_from_done_builds(settings: CollectorSettings) -> None:
    clock = Clock(time.time())
    with run_collector(settings, clock) as server:
        admin = server.client("admin")
        for number in range(10):
            admin.step(f"web{number}", "Disk setup", "init")
        clock.now += 200
        for number in range(10):
            admin.step(f"web{number}", "Disk setup", "done")

    with run_collector(settings, clock) as server:  # learnt budgets are cached for a minute
        admin = server.client("admin")
        admin.step("web99", "Disk setup", "init")

        limit = "7 min (2 times the p99 of 10 earlier builds)"
        reason = f'The next report is due within {limit} after "Disk setup" started.'
        eventually(lambda: admin.get("/api/v1/hosts/web99").json["summary"]["reason"], reason)


def test_statistics_show_times_and_failures(server: RunningCollector) -> None:
    admin = server.client("admin")
    for number in range(4):
        admin.step(f"web{number}", "Disk setup", "init", group=f"dc{number % 2}", release="9.4")
        status, logs = ("failed", f"sd{number}: no space") if number == 3 else ("done", "")
        admin.step(f"web{number}", "Disk setup", status, logs=logs, release="9.4")

    (whole,) = admin.get("/api/v1/statistics").json["steps"]
    by_group = admin.get("/api/v1/statistics", by="group").json["steps"]

    assert (whole["count"], whole["failed"], whole["failure_rate"], whole["group"]) == (4, 1, 0.25, None)
    assert whole["times"]["p50"] <= whole["times"]["p99"]
    assert whole["failures"] == [{"signature": "sd<number>: no space", "count": 1}]
    assert [(one["group"], one["failure_rate"]) for one in by_group] == [("dc1", 0.5), ("dc0", 0.0)]
    assert admin.get("/api/v1/statistics", group="dc0").json["executions"] == 2
    assert admin.get("/api/v1/statistics", by="colour").status == 400


def test_fleet_is_filtered_by_query(sqlite_server: RunningCollector) -> None:
    admin, reader = sqlite_server.client("admin"), sqlite_server.client("reader")
    admin.step("web1", "Disk setup", "failed", group="dc1")
    admin.step("web2", "Finish", "done", percentage=100)
    eventually(lambda: [verdict(reader, name) for name in ("web1", "web2")], ["failed", "done"])

    found = reader.get("/api/v1/hosts").json
    failed = reader.get("/api/v1/hosts", verdict="failed").json

    assert [(one["name"], one["verdict"]) for one in found["hosts"]] == [("web1", "failed"), ("web2", "done")]
    assert ([one["name"] for one in failed["hosts"]], failed["total"]) == (["web1"], 1)
    assert failed["counts"]["done"] == 1
    assert reader.get("/api/v1/hosts", group="dc1").json["total"] == 1
    for query in ({"limit": 0}, {"after": "x"}, {"verdict": "fine"}, {"all": "maybe"}):
        assert reader.get("/api/v1/hosts", **query).status == 400


def test_old_done_hosts_are_shown_with_all(
    sqlite_settings: CollectorSettings,
) -> None:
    clock = Clock(time.time())
    with run_collector(sqlite_settings, clock) as server:
        admin = server.client("admin")
        admin.step("web1", "Finish", "done", percentage=100)
        clock.now += 25 * 3600

        assert admin.get("/api/v1/hosts").json["total"] == 0
        assert admin.get("/api/v1/hosts", all="true").json["total"] == 1


def test_earlier_build_is_read_by_number(sqlite_server: RunningCollector) -> None:
    admin = sqlite_server.client("admin")
    admin.step("web1", "Disk setup", build="one")
    admin.step("web1", "Bootloader", build="two")

    steps = admin.get("/api/v1/hosts/web1/builds/1").json["steps"]

    assert [one["latest"][0]["name"] for one in steps] == ["Disk setup"]
    assert admin.get("/api/v1/hosts/web1/builds/3").status == 404
    assert admin.get("/api/v1/hosts/web2").json["detail"] == "nothing is known of web2"


def test_clock_set_back_makes_no_host_silent(settings: CollectorSettings) -> None:
    clock = Clock(time.time())
    with run_collector(settings, clock) as server:
        host, reader = server.client("host", "web1"), server.client("reader")
        host.step("web1", "Disk setup", "init")
        server.settle()
        assert verdict(reader, "web1") == "progressing"

        clock.now -= 3 * 24 * 3600
        host.step("web1", "Disk setup", "done")
        clock.now += 3 * 24 * 3600 + 5
        server.collector.sweeper.sweep()

        assert verdict(reader, "web1") == "progressing"
        assert news(server) == []


def test_loop_after_option_sets_the_threshold(sqlite_settings: CollectorSettings) -> None:
    with run_collector(replace(sqlite_settings, loop_after=2)) as server:
        host, reader = server.client("host", "web1"), server.client("reader")
        host.step("web1", "Disk setup", "init", boot="a")
        server.settle()
        assert verdict(reader, "web1") == "progressing"

        host.step("web1", "Disk setup", "init", boot="b")
        server.settle()

        shown = reader.get("/api/v1/hosts/web1").json["summary"]
        assert (shown["verdict"], shown["reason"]) == (
            "looping",
            "Rebooted 2 times during Disk setup.",
        )

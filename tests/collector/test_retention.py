"""Which data of hosts is deleted, and which is always kept."""

import json
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, insert, select, update

from service_record.collector.assisted import cluster_rows
from service_record.collector.assisted.cluster_rows import NewObject
from service_record.collector.assisted.installation_rules import Event
from service_record.collector.assisted.installations import Arrival
from service_record.collector.domain.access import Grant, TokenKind
from service_record.collector.domain.reports import parse_step
from service_record.collector.domain.retention import StoredBuild, plan
from service_record.collector.ingest.housekeeping import Housekeeper, KeepLimits, orphans
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import (
    bundle_rows,
    purge,
    reporting,
)
from service_record.collector.store import host_rows as shown
from service_record.collector.store.reporting import FIRST_KEPT, Report, record_steps
from service_record.collector.store.schema import (
    audit,
    builds,
    bundles,
    chunks,
    durations,
    events,
    hosts,
    steps,
)
from tests.collector.commands import collector_command
from tests.collector.installing import Clock
from tests.collector.serving import RunningCollector, run_collector

NOW = 1_800_000_000.0
DAY = 86_400.0

one_build = st.builds(
    StoredBuild,
    host_id=st.integers(1, 4),
    number=st.integers(1, 6),
    updated_at=st.floats(0, 100),
    is_failure=st.booleans(),
    is_latest=st.just(False),
    steps=st.just(1),
    bundles=st.just(0),
    size=st.integers(0, 50),
)


@st.composite
def fleets(draw: st.DrawFn) -> list[StoredBuild]:
    found = draw(st.lists(one_build, max_size=20, unique_by=lambda build: (build.host_id, build.number)))
    latest = {build.host_id: max(b.number for b in found if b.host_id == build.host_id) for build in found}
    return [replace(build, is_latest=build.number == latest[build.host_id]) for build in found]


@given(fleet=fleets(), before=st.none() | st.floats(0, 100))
def test_latest_build_and_outer_failures_are_kept(fleet: list[StoredBuild], before: float | None) -> None:
    forgotten = set(plan(fleet, before=before, excess=0).builds)

    for host in {build.host_id for build in fleet}:
        of_host = sorted((b for b in fleet if b.host_id == host), key=lambda build: build.number)
        failures = [build for build in of_host if build.is_failure]
        assert forgotten.isdisjoint([of_host[-1], *failures[:1], *failures[-1:]])


@given(fleet=fleets(), before=st.none() | st.floats(0, 100), excess=st.integers(0, 500))
def test_oldest_builds_are_chosen_first(fleet: list[StoredBuild], before: float | None, excess: int) -> None:
    choice = plan(fleet, before=before, excess=excess)
    ordinary = set(plan(fleet, before=1e9, excess=0).builds)
    old = {build for build in ordinary if before is not None and build.updated_at < before}
    first = [build for build in choice.builds if build in ordinary]
    rest = list(choice.builds[len(first) :])

    assert first == sorted(first, key=lambda build: build.updated_at)
    assert old <= set(first)
    assert choice.size >= min(excess, sum(build.size for build in fleet))
    until = [build.updated_at for build in first[-1:]] + ([] if before is None else [before])
    assert choice.before == max(until, default=None)
    if len(choice.builds) > len(old):  # without the last of them, too little space would be freed
        assert choice.size - choice.builds[-1].size < excess
    if rest:
        assert set(first) == ordinary
        assert [build.size for build in rest] == sorted((build.size for build in rest), reverse=True)


@pytest.fixture
def house(settings: CollectorSettings) -> Iterator[tuple[RunningCollector, Clock]]:
    """A collector with a host of five builds, one day apart. The second and the fourth failed."""
    clock = Clock(NOW - 5 * DAY)
    with run_collector(replace(settings, keep_days=0.5), clock) as server:
        admin = server.client("admin")
        for number in range(1, 6):
            admin.step("web1", "Disk setup", "done", build=f"b{number}", logs=f"{number}" * 100)
            add_bundle(server.collector, number)
            clock.now += DAY
        with server.collector.database.changing() as connection:
            failed = update(builds).where(builds.c.number.in_([2, 3, 4])).values(verdict="failed")
            connection.execute(failed)
        yield server, clock


def add_bundle(collector: Collector, build: int) -> None:
    """Add a bundle that was received during that build."""
    key = f"web1/bundle{build}"
    file = collector.settings.data / "upload"
    file.write_bytes(b"bundle" * build)
    collector.objects.put(key, file)
    with collector.database.changing() as connection:
        host_id = connection.execute(select(hosts.c.id)).scalar_one()
        row = {"host_id": host_id, "build": build, "kind": "host", "name": "logs.tar.gz", "key": key}
        rest = {"size": 6 * build, "sha256": "", "received_at": collector.now()}
        connection.execute(insert(bundles).values({**row, **rest}))


def housekeeper(server: RunningCollector, clock: Clock, **limits: float) -> Housekeeper:
    collector = server.collector
    return Housekeeper(
        collector.database,
        lambda do: collector.writer.change(do).result(),
        collector.objects,
        KeepLimits(**limits),  # type: ignore[arg-type]
        clock,
    )


def left(server: RunningCollector) -> tuple[list[int], list[int], list[str]]:
    """Return the remaining builds, the builds of the remaining steps, and the objects."""
    with server.collector.database.reading() as connection:
        detail = shown.read_host(connection, "web1", 1.0)
        of_steps = connection.execute(select(steps.c.build).order_by(steps.c.build)).scalars().all()
    assert detail is not None
    return (
        sorted(build.number for build in detail.builds),
        list(of_steps),
        sorted(server.collector.objects.keys_before(inf)),
    )


def test_old_builds_are_deleted_with_steps_and_bundles(
    house: tuple[RunningCollector, Clock],
) -> None:
    server, clock = house

    housekeeper(server, clock, days=0.5).round()

    assert left(server) == ([2, 4, 5], [2, 4, 5], ["web1/bundle2", "web1/bundle4", "web1/bundle5"])
    with server.collector.database.reading() as connection:
        (entry,) = connection.execute(select(audit).where(audit.c.action == "retention")).all()
    assert entry.subject.startswith("2 builds, 2 steps, ")


def test_data_before_the_first_build_is_deleted(house: tuple[RunningCollector, Clock]) -> None:
    server, clock = house
    add_bundle(server.collector, 0)
    clock.now += DAY

    housekeeper(server, clock, days=0.5).round()

    assert left(server)[2] == ["web1/bundle2", "web1/bundle4", "web1/bundle5"]


def test_size_limit_deletes_oldest_builds_first(house: tuple[RunningCollector, Clock]) -> None:
    server, clock = house
    taken = 5 * 400 + sum(6 * build for build in range(1, 6))

    housekeeper(server, clock, size=taken - 100).round()

    assert left(server)[0] == [2, 3, 4, 5]


def test_latest_build_is_deleted_last(house: tuple[RunningCollector, Clock]) -> None:
    server, clock = house

    housekeeper(server, clock, size=1).round()

    assert left(server)[1:] == ([], [])
    reply = server.client("admin").step("web1", "Disk setup", "init")
    server.settle()
    assert (reply.status, reply.json["build"]) == (201, 5)
    assert server.client("reader").get("/api/v1/hosts/web1").status == 200


def test_looping_host_keeps_its_first_and_last_reports(
    server: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_kept = 500
    monkeypatch.setattr(reporting, "LAST_KEPT", last_kept)
    server.client("admin")
    grant = Grant(1, TokenKind.ADMIN)
    for start in range(0, 2000, 250):
        reports = [
            Report("web1", parse_step({"name": f"Step {number}", "status": "done"}), float(number), grant)
            for number in range(start, start + 250)
        ]
        with server.collector.database.changing() as connection:
            record_steps(connection, reports)

    with server.collector.database.reading() as connection:
        labels = list(connection.execute(select(steps.c.label).order_by(steps.c.id)).scalars())
        lasting = connection.execute(select(func.count()).select_from(durations)).scalar_one()
    numbers = [int(label.removeprefix("step_")) for label in labels]
    assert numbers[:FIRST_KEPT] == list(range(FIRST_KEPT))
    assert numbers[-last_kept:] == list(range(2000 - last_kept, 2000))
    assert len(numbers) <= FIRST_KEPT + last_kept + 250
    assert lasting <= FIRST_KEPT + last_kept + 250


def record(server: RunningCollector, first: int, count: int, **fields: str) -> None:
    """Store reports of web1, numbered and with 1,000 bytes of logs, in one transaction."""
    grant = Grant(1, TokenKind.ADMIN)
    reports = [
        Report("web1", parse_step({"name": f"Step {number}", **fields}), float(number), grant)
        for number in range(first, first + count)
    ]
    with server.collector.database.changing() as connection:
        record_steps(connection, reports)


def test_quota_keeps_first_and_last_logs(server: RunningCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("MOST", 64_000), ("FIRST", 8_000), ("LAST", 48_000)):
        monkeypatch.setattr(reporting, f"{name}_LOG_BYTES", size)
    for start in range(0, 600, 50):
        record(server, start, 50, logs="x" * 1000, build=f"b{start // 200}")

    with server.collector.database.reading() as connection:
        rows = connection.execute(select(steps.c.logs, steps.c.notes).order_by(steps.c.id)).all()
    assert len(rows) == 600
    assert all(row.logs for row in (*rows[:8], *rows[-48:]))
    assert sum(len(row.logs) for row in rows) <= 64_000 + 100_000
    assert all(row.logs or "logs were deleted" in row.notes for row in rows)


def test_endless_builds_keep_only_the_latest(
    server: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "MOST_BUILDS", 5)
    for number in range(1, 21):
        record(server, 0, 2, build=f"b{number}")
        with server.collector.database.changing() as connection:
            failed = update(builds).where(builds.c.number.in_([3, 4])).values(verdict="failed")
            connection.execute(failed)

    with server.collector.database.reading() as connection:
        numbers = connection.execute(select(builds.c.number).order_by(builds.c.number)).scalars().all()
        of_steps = (
            connection.execute(select(steps.c.build).distinct().order_by(steps.c.build)).scalars().all()
        )
    assert numbers == of_steps == [1, 3, 4, 16, 17, 18, 19, 20]


def test_host_keeps_its_latest_events(server: RunningCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_rows, "MOST_EVENTS", 3)
    record(server, 0, 1)
    with server.collector.database.changing() as connection:
        for number in range(5):
            event = Event(
                host_id="", cluster_id="", severity="info", name="", message=str(number), time=float(number)
            )
            cluster_rows.insert_event(connection, events, {"host_id": 1}, event, NOW)
        messages = connection.execute(select(events.c.message).order_by(events.c.id)).scalars().all()
    assert messages == ["2", "3", "4"]


@pytest.mark.slow
def test_size_limit_is_enforced_between_hours(settings: CollectorSettings) -> None:
    with run_collector(replace(settings, keep_bytes=200_000)) as server:
        host = server.client("host", "web1")
        keeper = server.collector.housekeeper
        rounds: list[float] = []
        size = 0.0
        for number in range(60):
            host.step("web1", "Disk setup", "failed", build=f"b{number}", logs="x" * 10_000)
            if keeper.is_early:
                rounds.append(keeper.round())
            with server.collector.database.reading() as connection:
                size = max(size, sum(build.size for build in purge.read_builds(connection)))
    assert len(rounds) > 1
    assert size <= 200_000


def test_quota_keeps_first_and_latest_bundles(
    server: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_rows, "MOST_BUNDLES", 3)
    monkeypatch.setattr(bundle_rows, "MOST_BUNDLE_BYTES", 100)
    arrival = Arrival("web1", Grant(1, TokenKind.ADMIN), 1.0)
    server.client("admin")
    replaced: list[str] = []
    for number, size in enumerate([10, 20, 30, 10, 10, 80]):
        new = NewObject(kind="host", name="a.tar.gz", key=f"k{number}", size=size, sha256=str(number))
        with server.collector.database.changing() as connection:
            replaced += bundle_rows.add(connection, arrival, new).replaced

    with server.collector.database.reading() as connection:
        kept = list(connection.execute(select(bundles.c.key).order_by(bundles.c.id)).scalars())
    assert kept == ["k0", "k4", "k5"]
    assert replaced == ["k1", "k2", "k3"]


def test_numbers_are_not_reused_after_deletion(house: tuple[RunningCollector, Clock]) -> None:
    server, clock = house
    admin = server.client("admin")
    before = admin.step("web1", "Disk setup", build="b5").json["id"]

    housekeeper(server, clock, days=0.5).round()
    reply = admin.step("web1", "Disk setup", build="b6")

    assert reply.json["build"] == 6
    assert reply.json["id"] > before


def test_orphaned_objects_are_deleted_after_a_day(house: tuple[RunningCollector, Clock]) -> None:
    server, _ = house
    collector = server.collector
    file = collector.settings.data / "upload"
    collector.objects.put("web9/nobody", file)
    kept_at = file.stat().st_mtime

    assert list(orphans(collector.database, collector.objects, kept_at)) == []
    assert list(orphans(collector.database, collector.objects, kept_at + 2 * DAY)) == ["web9/nobody"]


def test_only_replaced_record_files_are_deleted(house: tuple[RunningCollector, Clock]) -> None:
    server, clock = house
    with server.collector.database.changing() as connection:
        row = {"host_id": 1, "offset": 0, "data": b"[]", "received_at": NOW - 3 * DAY}
        for service, file in (("a", "old"), ("a", "new"), ("b", "only")):
            connection.execute(insert(chunks).values({**row, "service": service, "file": file}))

    housekeeper(server, clock, days=0.5).round()

    with server.collector.database.reading() as connection:
        kept = connection.execute(select(chunks.c.service, chunks.c.file).order_by(chunks.c.id)).all()
    assert [tuple(row) for row in kept] == [("a", "new"), ("b", "only")]


def test_prune_dry_run_lists_and_prune_deletes(house: tuple[RunningCollector, Clock]) -> None:
    server, _ = house
    settings = server.collector.settings
    where = ("--data", settings.data, "--database", settings.database)

    # The command uses the real time, and these builds are of the year 2027.
    with server.collector.database.changing() as connection:
        connection.execute(update(builds).values(updated_at=builds.c.updated_at - 20 * 365 * DAY))
    would = collector_command("prune", "--keep-days", 1, "--dry-run", *where)
    assert left(server)[0] == [1, 2, 3, 4, 5]
    did = collector_command("prune", "--keep-days", 1, *where)

    assert would.out.startswith("would forget 2 builds, 2 steps, 2 bundles: about ")
    assert did.out.startswith("forgot 2 builds, 2 steps, 2 bundles: about ")
    assert left(server)[0] == [2, 4, 5]
    entries = collector_command("audit", "--output", "json", *where)
    assert json.loads(entries.out)[0]["action"] == "retention"


def test_prune_requires_a_limit(tmp_path: Path) -> None:
    assert collector_command("prune", "--data", tmp_path).status == 2


def test_without_limits_nothing_is_deleted(house: tuple[RunningCollector, Clock]) -> None:
    server, clock = house

    housekeeper(server, clock).round()

    with server.collector.database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(builds)).scalar_one() == 5

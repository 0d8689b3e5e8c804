"""Lists of hosts: order, filters and pages."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, update

from service_record.collector.domain.progress import group_rounds
from service_record.collector.store.database import FILE
from service_record.collector.store.fleet import Cursor, Filters, Fleet, Sort, fleet
from service_record.collector.store.host_rows import read_host, read_step_logs
from service_record.collector.store.schema import hosts
from service_record.http.collector_answers import HostDetail
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector

T = TypeVar("T")


def asked(server: RunningCollector, question: Callable[[Connection], T]) -> T:
    with server.collector.database.reading() as connection:
        return question(connection)


def shown(
    server: RunningCollector, limit: int = 100, after: Cursor | None = None, **filters: object
) -> Fleet:
    server.settle()  # hosts in trouble come first
    now = server.collector.now()
    return asked(server, lambda connection: fleet(connection, Filters(**filters), limit, after, now=now))  # type: ignore[arg-type]


def detail(server: RunningCollector, build: int | None) -> HostDetail | None:
    return asked(server, lambda connection: read_host(connection, "web1", 1.0, build))


def names(found: Fleet) -> list[str]:
    return [one.name for one in found.hosts]


def test_fleet_is_filtered_by_groups_and_names(server: RunningCollector) -> None:
    admin = server.client("admin")
    for name, group in (("web1", "dc1"), ("web2", "dc1/rack2"), ("db1", "dc11"), ("w_b3", "")):
        admin.step(name, "Disk setup", group=group)

    assert names(shown(server)) == ["db1", "w_b3", "web1", "web2"]
    assert names(shown(server, groups=("dc1",))) == ["web1", "web2"]
    assert names(shown(server, groups=("dc1/rack2", "dc11"))) == ["db1", "web2"]
    assert names(shown(server, machines=("WEB?", "db1"))) == ["db1", "web1", "web2"]
    assert names(shown(server, machines=("w_b*",))) == ["w_b3"]


def test_page_says_total_number_of_hosts(server: RunningCollector) -> None:
    admin = server.client("admin")
    for number in range(5):
        admin.step(f"web{number}", "Disk setup")

    admin.step("web3", "Disk setup", "failed")

    pages = [shown(server, limit=2)]
    while pages[-1].next is not None:
        pages.append(shown(server, limit=2, after=pages[-1].next))

    assert [names(page) for page in pages] == [["web3", "web0"], ["web1", "web2"], ["web4"]]
    assert {(page.total, sum(page.counts.values())) for page in pages} == {(5, 5)}
    assert names(shown(server, limit=2, after=pages[0].next, verdicts=("progressing",))) == ["web1", "web2"]


def test_host_is_shown_with_steps_by_build(server: RunningCollector) -> None:
    admin = server.client("admin")
    admin.step("web1", "Disk setup", "failed", build="one", logs="no disk\n" * 1000)
    admin.step("web1", "Disk setup", "done", build="two")

    now, before = (detail(server, build) for build in (None, 1))

    assert now is not None
    assert before is not None
    assert [build.number for build in now.builds] == [2, 1]
    assert [one.latest[0].status for one in now.steps] == ["done"]
    (failed,) = before.steps[0].latest
    assert (len(failed.logs), failed.logs_length) == (4000, 8000)
    assert asked(server, lambda c: read_step_logs(c, "web1", failed.id)) == "no disk\n" * 1000
    assert detail(server, 3) is None
    assert asked(server, lambda c: read_host(c, "web2", 1.0)) is None


@given(st.text("abc", max_size=40))
def test_counted_rounds_contain_all_reports_in_order(reports: str) -> None:
    rounds = group_rounds(reports, key=str)

    assert "".join("".join(one.latest) * one.count for one in rounds) == reports
    assert all(one.first == one.latest for one in rounds)


def test_repeated_rounds_are_shown_once() -> None:
    rounds = group_rounds("abcabcabcadd", key=str)

    assert [("".join(one.latest), one.count) for one in rounds] == [("abc", 3), ("a", 1), ("d", 2)]


@pytest.mark.slow
@pytest.mark.parametrize("sort", list(Sort))
def test_paging_misses_no_moving_host(server: RunningCollector, sort: Sort) -> None:
    group, reader = server.client("group", "dc1"), server.client("reader")
    for number in range(9):
        group.step(f"web{number}", "Disk setup", "init", group=f"dc1/rack{number % 3}")
    server.settle()
    seen: list[str] = []
    after = ""
    while True:
        page = reader.get("/api/v1/hosts", sort=sort, limit=2, after=after).json
        seen += [host["name"] for host in page["hosts"]]
        after = page["next"]
        if not after:
            break
        moving = f"web{8 - len(seen) // 2}"  # it was not on an earlier page, and is first now
        group.step(moving, "Disk setup", "failed")
        server.settle()

    assert {f"web{number}" for number in range(9)} == set(seen)
    if sort in {Sort.NAME, Sort.GROUP}:
        assert len(seen) == 9


def test_hosts_are_sorted(server: RunningCollector) -> None:
    clock, admin = 1_800_000_000.0, server.client("admin")
    times = {"web1": (0, 50), "web2": (20, 90), "web3": (10, 70)}
    for name, group in (("web1", "b"), ("web2", "a"), ("web3", "")):
        admin.step(name, "Disk setup", group=group)
    server.settle()
    with server.collector.database.changing() as connection:
        for name, (started, updated) in times.items():
            values = {
                "started_at": clock + started,
                "updated_at": clock + updated,
                "ended_at": clock + updated,
            }
            connection.execute(update(hosts).where(hosts.c.name == name).values(**values))

    def in_order(sort: Sort) -> list[str]:
        return names(
            asked(server, lambda connection: fleet(connection, Filters(), sort=sort, now=clock + 99))
        )

    assert in_order(Sort.NAME) == ["web1", "web2", "web3"]
    assert in_order(Sort.GROUP) == ["web3", "web2", "web1"]
    assert in_order(Sort.UPDATED) == ["web2", "web3", "web1"]
    assert in_order(Sort.DURATION) == ["web2", "web3", "web1"]


@pytest.mark.parametrize(
    "after", ["failed:web1", "name:1:", "updated:1:x:web1", "verdict:1:odd:web1", "name:nan::a"]
)
def test_invalid_page_cursor_is_refused(sqlite_server: RunningCollector, after: str) -> None:
    reader = sqlite_server.client("reader")

    assert reader.get("/api/v1/hosts", sort=after.partition(":")[0], after=after).status == 400
    assert reader.get("/api/v1/hosts", sort="name", after="group:1:dc1:web1").status == 400
    assert reader.get("/api/v1/hosts", sort="odd").status == 400


def test_only_the_owner_reads_the_database(tmp_path: Path) -> None:
    settings = make_collector_settings(tmp_path)
    settings.data.mkdir(mode=0o755)
    with run_collector(settings) as server:
        server.client("admin").step("web1", "Disk setup")
        modes = {path.name: path.stat().st_mode & 0o777 for path in settings.data.glob(f"{FILE}*")}

    assert set(modes.values()) == {0o600}
    assert settings.data.stat().st_mode & 0o777 == 0o755

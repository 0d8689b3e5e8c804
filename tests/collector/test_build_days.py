"""Results and durations of builds by day: the sums, and the charts on the page of statistics."""

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, insert, select

from service_record.collector.domain.build_days import DAY, EndedBuild, build_series
from service_record.collector.store.schema import builds, hosts
from service_record.collector.web.trend_chart import HEIGHT, draw_trend
from tests.collector.browsing import Visitor, sign_in_visitor
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector

NOW = 20_000 * DAY + 3600.0
RESULTS = (
    ("dc1/rack1", "4.18", "done"),
    ("dc1/rack1", "4.19", "failed"),
    ("dc2", "4.19", "done"),
    ("dc2", "4.19", "stuck"),
)


def ended(
    verdict: str, days_ago: float = 0.0, seconds: float = 60.0, group: str = "", release: str = ""
) -> EndedBuild:
    at = NOW - days_ago * DAY
    return EndedBuild(group, release, verdict, at - seconds, at)


def test_builds_are_counted_on_the_day_of_their_end() -> None:
    some = [
        ended("done", seconds=7200),
        ended("failed"),
        ended("looping", 1),
        ended("done", 2),
        ended("done", 9),
    ]

    (series,) = build_series(some, (), 3, NOW)

    assert [(day.done, day.failed, day.unfinished) for day in series.days] == [
        (1, 0, 0),
        (0, 0, 1),
        (1, 1, 0),
    ]
    assert [day.success_rate for day in series.days] == [1.0, 0.0, 0.5]
    assert (series.whole.total, series.whole.success_rate) == (4, 0.5)
    assert series.days[-1].day == 20_000 * DAY


def test_durations_are_those_of_successful_builds() -> None:
    took = [ended("done", seconds=float(each)) for each in range(1, 101)]

    (series,) = build_series([*took, ended("failed", seconds=9000)], (), 1, NOW)

    assert (series.whole.p50, series.whole.p95) == (50.0, 95.0)


def test_lowest_success_rate_comes_first() -> None:
    some = [ended(verdict, group=group, release=release) for group, release, verdict in RESULTS]

    by_group = build_series(some, {"group"}, 7, NOW)
    by_both = build_series(some, {"group", "release"}, 7, NOW)

    assert [(one.group, one.release, one.whole.success_rate) for one in by_group] == [
        ("dc1/rack1", None, 0.5),
        ("dc2", None, 0.5),
    ]
    assert [(one.group, one.release) for one in by_both] == [
        ("dc1/rack1", "4.19"),
        ("dc2", "4.19"),
        ("dc1/rack1", "4.18"),
    ]
    assert build_series([], {"group"}, 7, NOW) == ()


def test_bars_stay_within_the_chart() -> None:
    rare = [ended("done", 1)] * 10_000 + [ended("failed", 1)] + [ended("silent")]

    (series,) = build_series(rare, (), 2, NOW)
    trend = draw_trend(series)

    bars = [bar for chart in (trend.results, trend.durations) for day in chart.days for bar in day.bars]
    assert all(bar.height > 0 and 0 <= bar.y <= bar.y + bar.height <= HEIGHT + 0.01 for bar in bars)
    assert {bar.look for bar in bars} == {"success", "failure", "interrupted", "median", "longest"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with run_collector(make_collector_settings(tmp_path_factory.mktemp("builds"))) as running:
        for name, group in (("web1", "dc1/rack1"), ("web2", "dc2")):
            running.client("admin").ask("PUT", f"/api/v1/hosts/{name}", data={"group": group})

        def add(connection: Connection) -> None:
            by_group = {row.group: row.id for row in connection.execute(select(hosts.c.group, hosts.c.id))}
            at = running.collector.now() - 60
            rows = [
                {"host_id": by_group[group], "number": number, "release": release, "verdict": verdict}
                for number, (group, release, verdict) in enumerate(RESULTS, 50)
            ]
            rows.append({**rows[0], "number": 99, "verdict": "progressing"})
            connection.execute(
                insert(builds),
                [
                    {
                        **row,
                        "started_at": at - 90,
                        "updated_at": at,
                        "ended_at": at if row["verdict"] == "done" else None,
                    }
                    for row in rows
                ],
            )

        running.collector.writer.change(add).result()
        yield running


@pytest.fixture
def visitor(server: RunningCollector) -> Visitor:
    return sign_in_visitor(server)


def test_page_shows_results_of_the_filtered_builds(visitor: Visitor) -> None:
    def page(query: str = "") -> str:
        return " ".join(visitor.get(f"/statistics{query}").body.decode().split())

    assert "4 builds, 50 % succeeded: 2 done, 1 failed, 1 unfinished" in page()
    assert "2 builds, 50 % succeeded: 1 done, 1 failed<" in page("?group=dc1")
    assert "half of 1 build took at most 1m 30s, 95 of 100 at most 1m 30s" in page("?release=4.18&days=14")
    assert "no builds<" in page("?group=dc3")


def test_page_splits_builds_by_group(visitor: Visitor) -> None:
    page = visitor.page("/statistics?by=group")

    assert {"dc1/rack1", "dc2"} <= set(page.texts("th"))
    assert len([node for node in page.all("svg") if node.attributes.get("class") == "trend"]) == 4


def test_statistics_of_the_api_have_builds_by_day(server: RunningCollector) -> None:
    reader = server.client("reader")

    (series,) = reader.get("/api/v1/statistics", days="2", group="dc2").json["builds"]

    assert [len(series["days"]), sum(day["done"] for day in series["days"])] == [2, 1]
    assert series["whole"]["unfinished"] == 1
    assert reader.get("/api/v1/statistics", days="0").status == 400


def test_confined_reader_sees_builds_of_the_group_only(server: RunningCollector) -> None:
    (series,) = server.client("reader", "dc2").get("/api/v1/statistics").json["builds"]
    assert series["whole"]["failed"] == 0
    assert time.time() - series["days"][-1]["day"] < DAY

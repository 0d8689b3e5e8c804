"""Statistics of the steps of many builds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.collector.domain.statistics import (
    Execution,
    FailureCount,
    Percentiles,
    calculate_statistics,
    percentile,
)


def took(seconds: float | None, group: str = "", release: str = "") -> Execution:
    return Execution("disk_setup", group, release, seconds, is_failed=False)


def failed(signature: str, seconds: float | None = None) -> Execution:
    return Execution("disk_setup", "", "", seconds, is_failed=True, signature=signature)


def test_times_exclude_failures() -> None:
    (statistics,) = calculate_statistics(
        [took(float(second)) for second in range(1, 101)] + [failed("no disk", 9000.0)]
    )

    assert statistics.times == Percentiles(50.0, 95.0, 99.0)
    assert (statistics.count, statistics.failed) == (101, 1)


def test_step_without_begin_has_no_times() -> None:
    (statistics,) = calculate_statistics([took(None), failed("no disk")])

    assert (statistics.times, statistics.failure_rate) == (None, 0.5)


def test_most_frequent_failures_come_first() -> None:
    seen = [failed("no disk"), failed("no space"), failed("no disk")]
    seen.append(Execution("boot", "", "", 1.0, is_failed=False))

    statistics = calculate_statistics(seen)

    assert [one.label for one in statistics] == ["disk_setup", "boot"]
    assert statistics[0].failures == (FailureCount("no disk", 2), FailureCount("no space", 1))


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ({}, {(None, None)}),
        ({"by_group": True}, {("dc1", None), ("dc2", None)}),
        ({"by_release": True}, {(None, "9.4"), (None, "9.6")}),
        ({"by_group": True, "by_release": True}, {("dc1", "9.4"), ("dc1", "9.6"), ("dc2", "9.4")}),
    ],
)
def test_statistics_can_be_split_by_group_and_release(
    by: dict[str, bool], keys: set[tuple[str | None, str | None]]
) -> None:
    places = [("dc1", "9.4"), ("dc1", "9.6"), ("dc2", "9.4"), ("dc1", "9.4")]
    seen = [took(1.0, *place) for place in places]

    statistics = calculate_statistics(seen, **by)

    assert {(one.group, one.release) for one in statistics} == keys
    assert sum(one.count for one in statistics) == len(seen)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([50, 95, 99]))
def test_percentile_is_the_nearest_rank(values: list[float], rank: int) -> None:
    found = percentile(sorted(values), rank)

    assert found in values
    assert sum(value <= found for value in values) >= math.ceil(len(values) * rank / 100)
    assert sum(value < found for value in values) < math.ceil(len(values) * rank / 100)


def test_equal_failures_are_sorted_by_group_and_release() -> None:
    places = [("dc2", "9.4"), ("dc1", "9.6"), ("dc1", "9.4"), ("", "9.9")]
    statistics = calculate_statistics((took(1.0, *place) for place in places), by_group=True, by_release=True)
    assert [(one.group, one.release) for one in statistics] == sorted(places)
    assert [percentile(range(1, 102), rank) for rank in (0, 50, 95, 99, 100)] == [1, 51, 96, 100, 101]

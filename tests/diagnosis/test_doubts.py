"""What the files speak against: local time taken for UTC, and writes that did not end."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from service_record.history import build_history
from service_record.history.build import utc_offset, with_anomalies
from service_record.record.entry import Entry
from tests.builders import START, entry, upstream_entry

WRITTEN = START.timestamp()
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("ahead", "offset"),
    [
        (-5 * HOUR, -5 * HOUR),
        (5.5 * HOUR, 5.5 * HOUR),
        (-9.5 * HOUR - timedelta(seconds=120), -9.5 * HOUR),
        (12.75 * HOUR + timedelta(seconds=120), 12.75 * HOUR),
        (0.5 * HOUR, 0.5 * HOUR),
        (14 * HOUR, 14 * HOUR),
        (-12 * HOUR, -12 * HOUR),
        (timedelta(), None),
        (-timedelta(seconds=90), None),
        (0.25 * HOUR, None),
        (-5 * HOUR - timedelta(seconds=121), None),
        (15 * HOUR, None),
        (-13 * HOUR, None),
        (timedelta(days=300), None),
    ],
    ids=str,
)
def test_zone_is_a_multiple_of_quarter_hours(ahead: timedelta, offset: timedelta | None) -> None:
    assert utc_offset(START + ahead, WRITTEN) == offset


@pytest.mark.parametrize("written", [-1e300, 1e300, 2.0**63, 0.0])
def test_absurd_file_time_is_ignored(written: float) -> None:
    assert utc_offset(START, written) is None


def offsets(records: Mapping[str, Entry], written: Mapping[str, float]) -> dict[str, timedelta | None]:
    history = with_anomalies(build_history((name, [one]) for name, one in records.items()), written, ())
    return {service.name: service.utc_offset for service in history.services}


def test_only_times_of_upstream_are_doubted() -> None:
    ours = {"ours": entry(), "of no boot": entry(boot_id=None), "of no process": entry(pid=None)}
    records = {"upstreams": upstream_entry(), "unknown": upstream_entry(), **ours}
    written = dict.fromkeys(("upstreams", *ours), WRITTEN + 5 * 3600)
    assert offsets(records, written) == dict.fromkeys(records) | {"upstreams": -5 * HOUR}


@pytest.mark.parametrize("other", [5 * 3600 + 600, 3600, 0], ids=["copied", "another-zone", "right"])
def test_files_that_disagree_tell_nothing_of_the_zone(other: int) -> None:
    records = {"one": upstream_entry(), "two": upstream_entry()}
    assert offsets(records, {"one": WRITTEN + 5 * 3600, "two": WRITTEN + other}) == {"one": None, "two": None}


def test_record_without_entries_does_not_count() -> None:
    history = build_history([("empty", []), ("one", [upstream_entry()])])
    written = {"empty": WRITTEN, "one": WRITTEN - 3600}
    assert [service.utc_offset for service in with_anomalies(history, written, ()).services] == [None, HOUR]


def test_files_beside_a_record_are_noticed() -> None:
    history = with_anomalies(build_history([("one", [entry()]), ("two", [entry()])]), {}, {"two"}, {"one"})
    assert [service.is_unfinished for service in history.services] == [False, True]
    assert [service.has_damaged_copy for service in history.services] == [True, False]

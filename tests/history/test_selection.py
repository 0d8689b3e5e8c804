"""Selection of the runs of a history and of the entries of a record."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from service_record.history import build_history
from service_record.history.build import Selection, find_boot
from service_record.record.entry import Entry, Malformed, Phase
from tests.builders import BOOT_ID, START, entry, failed_run

OTHER_BOOT = "c1" * 16
GOOD = [entry(at=100), entry(Phase.STAGE_START, 101, stage="pull"), entry(Phase.SERVICE_END, 105)]
GOOD = [replace(one, boot_id=OTHER_BOOT, invocation_id="2f" * 16) for one in GOOD]
BAD = failed_run()
SELECTIONS = {
    "all": (Selection(), ["bad", "good"]),
    "a service": (Selection(services=("good",)), ["good"]),
    "a boot": (Selection(boot_id=BOOT_ID), ["bad"]),
    "a stage": (Selection(stage="pull"), ["good"]),
    "what failed": (Selection(failed=True), ["bad"]),
    "since after the first": (Selection(since=START + timedelta(seconds=50)), ["good"]),
    "since the last moment": (Selection(since=START + timedelta(seconds=105)), ["good"]),
    "since later": (Selection(since=START + timedelta(seconds=106)), []),
    "until before the second": (Selection(until=START + timedelta(seconds=50)), ["bad"]),
    "until its first moment": (Selection(until=START + timedelta(seconds=100)), ["bad", "good"]),
    "until before all": (Selection(until=START - timedelta(seconds=1)), []),
}


@pytest.mark.parametrize(("selection", "services"), SELECTIONS.values(), ids=SELECTIONS)
def test_services_without_selected_runs_are_left_out(selection: Selection, services: list[str]) -> None:
    history = build_history([("bad", BAD), ("good", GOOD)])
    assert sorted(service.name for service in selection.of(history).services) == services


@pytest.mark.parametrize(
    ("selection", "times"),
    [
        (Selection(), [100, 101, 105]),
        (Selection(stage="pull"), [101]),
        (Selection(failed=True), []),
        (Selection(boot_id=BOOT_ID), []),
        (Selection(since=START + timedelta(seconds=101)), [101, 105]),
        (Selection(until=START + timedelta(seconds=101)), [100, 101]),
    ],
)
def test_entries_are_selected_and_damage_always_is(selection: Selection, times: list[int]) -> None:
    damage = Malformed(4, "{", "a damaged entry")
    pieces = list(selection.within([*GOOD, damage]))
    found = [piece.time for piece in pieces if isinstance(piece, Entry)]
    assert [(time - START).total_seconds() for time in found if time is not None] == times
    assert pieces[-1] == damage


def test_selected_stage_is_shown_alone() -> None:
    def stage(at: int, name: str, **fields: object) -> list[Entry]:
        return [
            entry(Phase.STAGE_START, at, stage=name, **fields),
            entry(Phase.STAGE_END, at + 1, stage=name, **fields),
        ]

    record = [
        entry(Phase.PRE_COMMAND_START, 0, pre_command="prepare"),
        *stage(1, "pull", pre_command="prepare"),
        *stage(3, "unpack", pre_command="prepare"),
        *[entry(at=5), *stage(6, "unpack"), entry(Phase.SERVICE_END, 8)],
    ]
    history = build_history([("job", record), ("empty", [])])

    def selected(stage: str) -> list[tuple[str, list[str], list[str]]]:
        return [
            (service.name, [s.name for c in run.commands for s in c.stages], [s.name for s in run.stages])
            for service in Selection(stage=stage).of(history).services
            for run in service.runs
        ]

    assert selected("pull") == [("job", ["pull"], [])]
    assert selected("unpack") == [("job", ["unpack"], ["unpack"])]
    assert [s.name for s in Selection(stage="none").of(history).services] == ["empty"]


def test_what_has_no_time_is_selected_by_any() -> None:
    record = [replace(one, timestamp=None) for one in BAD]
    for selection in (Selection(since=START + timedelta(days=9)), Selection(until=START)):
        assert list(selection.within(record)) == record
        assert len(selection.of(build_history([("bad", record)])).services) == 1


BOOTS = ("ab" * 16, "ac" * 16, "12345678" * 4)


@pytest.mark.parametrize(
    ("prefix", "place"),
    [
        *[("0", 2), ("-1", 1), ("-2", 0), ("+0", 2), ("1", 0), ("+1", 0), ("2", 1), ("3", 2)],
        *[("ab", 0), ("ac" * 16, 1), ("acacacac-acac", 1), ("12345678", 2)],
    ],
)
def test_boot_is_found_by_number_or_id_prefix(prefix: str, place: int) -> None:
    assert find_boot(BOOTS, prefix) == BOOTS[place]


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        *[(n, f"no boot {n}: the records have 3; 0 is the latest") for n in ("4", "-3", "1234567")],
        ("a", "2 boots begin with a; give more digits"),
        ("f", "no boots begin with f; 0 is the latest, -1 the one before"),
        ("+-1", r"no boots begin with \+-1; 0 is the latest, -1 the one before"),
        ("87654321", "no boots begin with 87654321; 0 is the latest, -1 the one before"),
    ],
)
def test_what_names_no_boot_or_several_is_refused(prefix: str, message: str) -> None:
    with pytest.raises(LookupError, match=f"^{message}$"):
        find_boot(BOOTS, prefix)

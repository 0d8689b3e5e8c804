"""Selection of the runs of a history and of the entries of a record."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from service_record.history import build_history
from service_record.history.build import Selection
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
def test_runs_are_selected_and_services_without_any_are_left_out(
    selection: Selection, services: list[str]
) -> None:
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

"""Losses of power: some of what `make torture` tries, the same in each run."""

import pytest

from tests.torture.device import LAYOUTS, OPTIONS, cannot_mount
from tests.torture.device import tortured as tortured_on_a_device
from tests.torture.injection import cannot_trace
from tests.torture.power import tortured

LOSSES = 250
SECONDS = 1.0


@pytest.mark.skipif(cannot_trace() is not None, reason=f"cannot be had here: {cannot_trace()}")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writer", ["shell", "python"])
def test_what_sectors_keep_of_what_was_written_is_whole_entries_and_no_others(
    writer: str, layout: str
) -> None:
    tally = tortured(writer, layout, LOSSES)
    assert not tally.findings, "\n".join(tally.findings)


@pytest.mark.skipif(cannot_mount() is not None, reason=f"cannot be had here: {cannot_mount()}")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_system_that_lost_its_power_has_what_was_synced_and_nothing_invented(layout: str) -> None:
    tally = tortured_on_a_device(layout, OPTIONS[0], SECONDS)
    assert not tally.findings, "\n".join(tally.findings)

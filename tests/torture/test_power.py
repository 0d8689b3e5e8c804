"""Losses of power: some of what `make torture` tries, the same in each run."""

import pytest

from tests.torture.device import LAYOUTS, OPTIONS
from tests.torture.device import tortured as tortured_on_a_device
from tests.torture.power import tortured

LOSSES = 120
SECONDS = 1.0


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writer", ["shell", "python"])
@pytest.mark.parametrize("is_lasting", [False, True], ids=["", "synced"])
def test_what_sectors_keep_of_what_was_written_is_whole_entries_and_no_others(
    writer: str, layout: str, is_lasting: bool
) -> None:
    tally = tortured(writer, layout, LOSSES, is_lasting=is_lasting)
    assert not tally.findings, "\n".join(tally.findings)


@pytest.mark.usefixtures("mounting")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_system_that_lost_its_power_has_what_was_synced_and_nothing_invented(layout: str) -> None:
    tally = tortured_on_a_device(layout, OPTIONS[0], SECONDS)
    assert not tally.findings, "\n".join(tally.findings)

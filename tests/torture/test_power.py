"""Losses of power: some of what `make torture` tries, the same in each run."""

import pytest

from tests.torture.power import LAYOUTS, tortured

LOSSES = 60


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writer", ["shell", "python"])
@pytest.mark.parametrize("is_lasting", [False, True], ids=["", "synced"])
def test_what_sectors_keep_of_what_was_written_is_whole_entries_and_no_others(
    writer: str, layout: str, is_lasting: bool
) -> None:
    tally = tortured(writer, layout, LOSSES, is_lasting=is_lasting)
    assert not tally.findings, "\n".join(tally.findings)

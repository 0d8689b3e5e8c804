"""Losses of power: some of what `make torture` tries, the same in each run."""

import pytest

from tests.torture.power import LAYOUTS, tortured

LOSSES = 60


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writer", ["shell", "python"])
@pytest.mark.parametrize("is_lasting", [False, True], ids=["", "synced"])
def test_power_loss_leaves_only_whole_entries(writer: str, layout: str, is_lasting: bool) -> None:
    tally = tortured(writer, layout, LOSSES, is_lasting=is_lasting)
    assert not tally.findings, "\n".join(tally.findings)

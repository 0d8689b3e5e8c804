"""Some power losses that `make torture` simulates, the same in each run."""

import pytest

from tests.torture.power import LAYOUTS, torture

LOSSES = 60


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writer", ["shell", "python"])
@pytest.mark.parametrize("does_sync", [False, True], ids=["", "synced"])
def test_power_loss_leaves_only_whole_entries(writer: str, layout: str, does_sync: bool) -> None:
    tally = torture(writer, layout, LOSSES, does_sync=does_sync)
    assert not tally.findings, "\n".join(tally.findings)

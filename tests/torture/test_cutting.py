"""A few of the cuts that `make torture` makes, the same in each run, and those that found something."""

import pytest

from tests.torture.appending import APPENDS, Append
from tests.torture.cutting import Cut, extent, judged, tortured

pytestmark = pytest.mark.usefixtures("tracing")

SAMPLE = 4
each_append = pytest.mark.parametrize("append", APPENDS, ids=str)


@each_append
def test_truncated_write_is_harmless(append: Append) -> None:
    tally = tortured(append, most=SAMPLE)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases > SAMPLE / 2


@each_append
@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_entry_without_newline_counts_as_written(append: Append, lacking: int) -> None:
    assert judged(append, Cut(extent(append)[0] - lacking, is_lifted=True))[1] == []


@pytest.mark.parametrize("writer", ["shell", "python"])
def test_entry_without_padding_is_written_once(writer: str) -> None:
    append = Append(writer, "array")
    for blanks in 10, 500, 1000:
        assert judged(append, Cut(extent(append)[0] + blanks, is_lifted=True))[1] == []

"""A few of the cuts that `make torture` makes, the same in each run, and those that found something."""

import pytest

from tests.torture.appending import APPENDS, Append
from tests.torture.cutting import Cut, extent, judged, tortured

pytestmark = pytest.mark.usefixtures("tracing")

SAMPLE = 4
each_append = pytest.mark.parametrize("append", APPENDS, ids=str)


@each_append
def test_a_write_that_is_cut_short_harms_neither_the_service_nor_its_record(append: Append) -> None:
    tally = tortured(append, most=SAMPLE)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases > SAMPLE / 2


@each_append
@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_an_entry_that_lacks_only_its_newline_or_bracket_counts_as_written(
    append: Append, lacking: int
) -> None:
    assert judged(append, Cut(extent(append)[0] - lacking, is_lifted=True))[1] == []


@pytest.mark.parametrize("writer", ["shell", "python"])
def test_an_entry_that_lacks_only_the_blanks_behind_its_array_is_there_once(writer: str) -> None:
    append = Append(writer, "array")
    for blanks in 10, 500, 1000:
        assert judged(append, Cut(extent(append)[0] + blanks, is_lifted=True))[1] == []

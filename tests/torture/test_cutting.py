"""Some truncations that `make torture` tries, the same in each run, and truncations that once broke a
promise.
"""

import pytest

from tests.torture.appending import APPENDS, Append
from tests.torture.cutting import Cut, judge, measure_entry, torture

pytestmark = pytest.mark.usefixtures("tracing")

SAMPLE = 4
each_append = pytest.mark.parametrize("append", APPENDS, ids=str)


@each_append
def test_truncated_write_is_harmless(append: Append) -> None:
    tally = torture(append, limit=SAMPLE)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases > SAMPLE / 2


@each_append
@pytest.mark.parametrize("missing", [1, 2, 3])
def test_entry_without_newline_counts_as_written(append: Append, missing: int) -> None:
    assert judge(append, Cut(measure_entry(append)[0] - missing, is_lifted=True))[1] == []


@pytest.mark.parametrize("writer", ["shell", "python"])
def test_entry_without_padding_is_written_once(writer: str) -> None:
    append = Append(writer, "array")
    for padding in 10, 500, 1000:
        assert judge(append, Cut(measure_entry(append)[0] + padding, is_lifted=True))[1] == []

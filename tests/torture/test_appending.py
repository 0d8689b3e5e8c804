"""Some faults that `make torture` tries on an append, the same in each run, and faults that once broke a
promise.
"""

import pytest

from tests.torture.appending import APPENDS, Append, judge, list_faults, torture
from tests.torture.injection import ERRORS, Fault

pytestmark = pytest.mark.usefixtures("tracing")

SAMPLE = 12
each_append = pytest.mark.parametrize("append", APPENDS, ids=str)


@each_append
def test_failed_system_call_is_harmless(append: Append) -> None:
    tally = torture(append, limit=SAMPLE)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases > SAMPLE / 2


@pytest.mark.parametrize("error", ERRORS)
def test_failed_unlock_writes_entry_once(error: str) -> None:
    append = Append("python", "array")
    unlock = Fault("flock", 2, error)
    assert unlock in list_faults(append)
    assert judge(append, unlock) == (True, [])

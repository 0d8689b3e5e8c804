"""A round of everything at once; `make torture` has minutes of it."""

from tests.torture.together import tortured

ENTRIES = 60


def test_concurrent_programs_do_not_interfere() -> None:
    tally = tortured(seconds=0, entries=ENTRIES)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases == 2 * 4 * ENTRIES

"""One round with all programs at once; `make torture` runs many."""

from tests.torture.together import torture

ENTRIES = 60


def test_concurrent_programs_do_not_interfere() -> None:
    tally = torture(seconds=0, entries=ENTRIES)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases == 2 * 4 * ENTRIES

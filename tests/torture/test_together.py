"""A round of everything at once; `make torture` has minutes of it."""

from tests.torture.together import tortured

ENTRIES = 60


def test_writers_readers_followers_bundles_and_cleanup_do_not_get_in_each_others_way() -> None:
    tally = tortured(seconds=0, entries=ENTRIES)
    assert not tally.findings, "\n".join(tally.findings)
    assert tally.cases == 2 * 4 * ENTRIES

"""A fixed sample of the damage that `make torture` does to records."""

from tests.torture.reading import (
    ENTRIES,
    Flip,
    Truncation,
    judge,
    list_flips,
    list_truncations,
    make_records,
    torture,
)

SAMPLE = 2500


def test_damage_loses_at_most_one_entry() -> None:
    for record in make_records():
        tally = torture(record, SAMPLE)
        assert not tally.findings, "\n".join(tally.findings)
        assert tally.cases == SAMPLE


def test_cases_cover_each_bit_and_length() -> None:
    for record in make_records():
        assert len(record.entries) == ENTRIES
        assert len(list_flips(record)) == 8 * len(record.content)
        assert len(list_truncations(record)) == len(record.content)


def test_checker_detects_lost_and_invented_entries() -> None:
    whole = make_records()[0]
    begin, end = whole.spans[3]
    empty = type(whole)(whole.name, whole.content[:begin] + whole.content[end:], whole.entries, whole.spans)
    assert judge(whole, Flip(begin, 0)) is None
    assert "entry 3 is lost" in str(judge(empty, Flip(0, 0)))
    strange = type(whole)(whole.name, whole.content, whole.entries[1:], whole.spans[1:])
    assert "not written" in str(judge(strange, Flip(begin - 1, 0)))
    assert "invented" in str(judge(strange, Truncation(end + 1)))

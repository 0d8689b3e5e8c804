"""The reader before damaged records: some of what `make torture` tries, the same in each run."""

from tests.torture.reading import ENTRIES, Flip, Truncation, flips, judged, records, tortured, truncations

SAMPLE = 2500


def test_damage_loses_at_most_one_entry() -> None:
    for record in records():
        tally = tortured(record, SAMPLE)
        assert not tally.findings, "\n".join(tally.findings)
        assert tally.cases == SAMPLE


def test_cases_cover_each_bit_and_length() -> None:
    for record in records():
        assert len(record.entries) == ENTRIES
        assert len(flips(record)) == 8 * len(record.content)
        assert len(truncations(record)) == len(record.content)


def test_checker_detects_lost_and_invented_entries() -> None:
    whole = records()[0]
    begin, end = whole.places[3]
    empty = type(whole)(whole.name, whole.content[:begin] + whole.content[end:], whole.entries, whole.places)
    assert judged(whole, Flip(begin, 0)) is None
    assert "entry 3 is lost" in str(judged(empty, Flip(0, 0)))
    strange = type(whole)(whole.name, whole.content, whole.entries[1:], whole.places[1:])
    assert "nobody wrote" in str(judged(strange, Flip(begin - 1, 0)))
    assert "invented" in str(judged(strange, Truncation(end + 1)))

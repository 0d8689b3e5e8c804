"""`triage` of 300 bundles with planted truth."""

from pathlib import Path

from bench.planted import plant, table, triaged


def test_planted_truth_is_found(tmp_path: Path) -> None:
    truth = plant(tmp_path)
    rows = table(truth, triaged(tmp_path))
    assert [row for row in rows if row[1] != row[2]] == []

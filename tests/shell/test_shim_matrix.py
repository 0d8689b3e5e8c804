"""Run every option, trap, signal and kind of ending with the shim and without it; compare with the table."""

from pathlib import Path

import pytest

from tests.endings.kinds import OPTIONS, read_kinds
from tests.matrix.table import NAMES, get_minor_version, list_versions, read_table, run_dimension
from tests.shell.scripts import Bash, bashes, every_bash

PAGE = Path(__file__).parents[2] / "docs/project/shim-matrix.md"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("dimension", "bash"),
    [(name, bash) for name in NAMES for bash in (every_bash() if name == "endings" else bashes())],
    ids=str,
)
def test_cases_are_recorded_as_in_the_table(bash: Bash, dimension: str) -> None:
    """A version of bash that the table does not have is checked for false records only."""
    found = run_dimension(bash, dimension)
    lines = list(map(str, found))

    assert [complaint for outcome in found for complaint in outcome.complaints] == []
    assert read_table(get_minor_version(bash), dimension) in (lines, None), (
        "python -m tests.matrix rewrites the table"
    )


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("version", list(list_versions()))
def test_most_lines_are_exact(version: str, options: str) -> None:
    lines = read_table(version, "endings") or []
    usual = {kind.title for kind in read_kinds() if not kind.doubtful}
    verdicts = [
        line.rpartition("line ")[2]
        for line in lines
        if f"; {options}: " in line and "; line " in line and line.partition("; ")[0] in usual
    ]

    assert verdicts
    assert verdicts.count("exact") > len(verdicts) / 2


def test_page_has_the_number_of_cases() -> None:
    rows = [
        f"| {name} | {' | '.join(str(len(read_table(version, name) or ())) for version in list_versions())} |"
        for name in NAMES
    ]
    assert "\n".join(rows) in PAGE.read_text()

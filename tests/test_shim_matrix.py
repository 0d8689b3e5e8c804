"""Every option, trap, signal and kind of ending: as without the shim, and recorded as the table says."""

from pathlib import Path

import pytest

from tests.endings.kinds import OPTIONS, kinds
from tests.matrix.table import NAMES, minor, noted, outcomes, versions
from tests.shell.scripts import Bash, bashes, every_bash

PAGE = Path(__file__).parents[1] / "docs/shim-matrix.md"
EXACT_AT_LEAST = {"euoE": 245 / 338, "euo": 245 / 338, "none": 55 / 80}
"""Shares of the endings in failure that a recorder reaches when it only knows what bash tells it."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("dimension", "bash"),
    [(name, bash) for name in NAMES for bash in (every_bash() if name == "endings" else bashes())],
    ids=str,
)
def test_each_case_runs_as_without_the_shim_and_comes_to_what_the_table_says(
    bash: Bash, dimension: str
) -> None:
    """A bash that the table does not have, such as a newer one, is asked for the rest all the same."""
    found = outcomes(bash, dimension)
    lines = list(map(str, found))

    assert [complaint for outcome in found for complaint in outcome.complaints] == []
    assert noted(minor(bash), dimension) in (lines, None), "python -m tests.matrix writes it anew"


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("version", list(versions()))
def test_enough_lines_are_exact(version: str, options: str) -> None:
    lines = noted(version, "endings") or []
    usual = {kind.title for kind in kinds() if not kind.doubtful}
    told = [
        line.rpartition("line ")[2]
        for line in lines
        if f"; {options}: " in line and "; line " in line and line.partition("; ")[0] in usual
    ]

    assert told
    assert told.count("exact") / len(told) >= EXACT_AT_LEAST[options]


def test_the_page_has_the_number_of_cases() -> None:
    rows = [
        f"| {name} | {' | '.join(str(len(noted(version, name) or ())) for version in versions())} |"
        for name in NAMES
    ]
    assert "\n".join(rows) in PAGE.read_text()

"""What a run of the torture comes to, as docs/promises.md shows it."""

from datetime import date

from tests.torture.tally import Tally, runs

EMPTY = "| on | seconds | order | cases | found |\n|----|----|----|----|----|\n"
TALLIES = [
    Tally(target="this", cases=1_000, all_cases=1_000),
    Tally(target="that", cases=234, all_cases=500, findings=("that: wrong",)),
]


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def test_a_run_is_a_row_with_all_that_it_tried_and_found() -> None:
    table = runs(EMPTY, TALLIES, date(2026, 11, 22), 1200.4)
    assert [[*row[:2], *row[3:]] for row in rows(table)] == [["2026-11-22", "1,200", "1,234", "1"]]


def test_of_many_runs_the_last_stay() -> None:
    table = EMPTY
    for day in range(1, 9):
        table = runs(table, TALLIES[:1], date(2026, 11, day), 20)
    assert [row[0] for row in rows(table)] == [f"2026-11-0{day}" for day in range(3, 9)]
    assert {row[-1] for row in rows(table)} == {"none"}

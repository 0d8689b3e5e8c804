"""Each wrong command of docs/project/first-minutes.md has the answer that the page shows, in two lines."""

from pathlib import Path

from tests.cli.wrong_commands import make_host, rows, run
from tests.faults import Faults


def test_wrong_commands_are_answered_as_the_page_shows(tmp_path: Path) -> None:
    make_host(tmp_path)
    known = rows()
    assert known
    with Faults() as faults:
        for row in known:
            with faults.case(row.command):
                now = run(row, tmp_path)
                assert now.lines <= 2
                assert (now.status, now.message) == (row.status, row.message)

"""docs/python.md: its programs run, and record without a complaint."""

import re
from pathlib import Path

import pytest

from tests.programs import REPOSITORY, read_entries, run_program

PAGE = (REPOSITORY / "docs" / "python.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FAILING = "raise ConnectionError"


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda source: source.strip().splitlines()[-1].strip())
def test_programs_of_the_page_run(tmp_path: Path, source: str) -> None:
    done = run_program(tmp_path, f"\n{source}")

    assert done.returncode == (1 if FAILING in source else 0), done.stderr
    assert "service-record:" not in done.stderr


def test_entry_of_the_page_is_the_recorded_entry(tmp_path: Path) -> None:
    failing = next(source for source in PROGRAMS if FAILING in source)
    run_program(tmp_path, f"\n{failing}")
    end = read_entries(tmp_path, "release-image")[-1]

    assert f'"errorMessage": "{end.error_message}"' in PAGE
    assert [f'"{name}"' in PAGE for name in end.to_json()] == [True] * len(end.to_json())

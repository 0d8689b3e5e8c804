"""A case that fails, hangs, is missing or cannot be read fails the test run; a skipped one says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell.scripts import ROOT

PASSING = '@test "passes" {\n  true\n}\n'
FAILING = '@test "fails" {\n  echo "what it saw"\n  false\n}\n'
SKIPPED = '@test "is skipped" {\n  skip "no such thing here"\n}\n'
HANGING = '@test "hangs" {\n  sleep 60\n}\n'
UNREADABLE = '@test "has no end" {\n  if true\n}\n'
CONDITIONAL = 'if false; then\n@test "is never seen" {\n  true\n}\nfi\n'


def run_pytest(directory: Path, cases: str) -> subprocess.CompletedProcess[str]:
    """Run pytest, with our collector, on a directory with one .bats file of these cases."""
    directory.joinpath("conftest.py").write_text("from tests.shell.conftest import pytest_collect_file\n")
    directory.joinpath("cases.bats").write_text(cases)
    own = {"PYTHONPATH": str(ROOT), "SERVICE_RECORD_BASHES": "", "BATS_RUN_SECONDS": "2"}
    own["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take most of a second
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--rootdir", directory, directory],
        cwd=directory,
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("cases", "status", "message"),
    [
        pytest.param(PASSING, 0, "1 passed", id="a passing case passes"),
        pytest.param(PASSING + FAILING, 1, "1 failed, 1 passed", id="a failing case fails"),
        pytest.param(PASSING + FAILING, 1, "# what it saw", id="a failing case shows what it printed"),
        pytest.param(PASSING + SKIPPED, 0, "no such thing here", id="a skipped case says why"),
        pytest.param(PASSING + HANGING, 1, "1 failed, 1 passed", id="a hanging case fails"),
        pytest.param(PASSING + UNREADABLE, 1, "2 failed", id="cases that bash cannot read fail"),
        pytest.param(PASSING + CONDITIONAL, 1, "1 failed, 1 passed", id="a case that is never run fails"),
        pytest.param(PASSING + PASSING, 1, "2 failed", id="two cases of one name fail"),
        pytest.param("", 5, "no tests ran", id="no case at all is no success"),
    ],
)
def test_run_reports_case_results(tmp_path: Path, cases: str, status: int, message: str) -> None:
    run = run_pytest(tmp_path, cases)

    assert message in run.stdout
    assert run.returncode == status, run.stdout

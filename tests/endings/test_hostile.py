"""Randomly composed scripts, and doubtful kinds of ending without `set -e`."""

import pytest

from tests.endings.composer import compose_scripts
from tests.endings.judge import Ending, Verdict, run_endings
from tests.endings.kinds import OPTIONS, read_kinds
from tests.shell.scripts import Bash, every_bash

SCRIPTS = 250


def list_false_lines(endings: list[Ending]) -> list[str]:
    """Return the endings with a false line, or with an exact line and a false command."""
    return [
        f"{ending}: {ending.end}"
        for ending in endings
        if ending.verdict is Verdict.WRONG
        or (ending.verdict is Verdict.EXACT and not ending.has_true_command)
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
def test_composed_scripts_have_no_false_line(bash: Bash) -> None:
    endings = run_endings(
        bash, [(kind, options) for kind in compose_scripts(0, SCRIPTS) for options in OPTIONS]
    )

    assert list_false_lines(endings) == []
    assert any(ending.verdict is Verdict.EXACT for ending in endings)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
def test_doubtful_endings_without_options_have_no_false_line(bash: Bash) -> None:
    endings = run_endings(bash, [(kind, "none") for kind in read_kinds() if kind.doubtful])

    assert [complaint for ending in endings for complaint in ending.complaints] == []

"""Scripts that are composed at random, and the doubtful kinds of ending without `set -e`."""

import pytest

from tests.endings.composed import composed
from tests.endings.judge import Ending, Verdict, run_endings
from tests.endings.kinds import OPTIONS, kinds
from tests.shell.scripts import Bash, every_bash

SCRIPTS = 250


def false_claims(endings: list[Ending]) -> list[str]:
    """Return the endings with a false line, or with another command than that of an exact line."""
    return [
        f"{ending}: {ending.end}"
        for ending in endings
        if ending.verdict is Verdict.WRONG
        or (ending.verdict is Verdict.EXACT and not ending.has_true_command)
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
def test_composed_scripts_have_no_false_line(bash: Bash) -> None:
    found = run_endings(bash, [(kind, options) for kind in composed(0, SCRIPTS) for options in OPTIONS])

    assert false_claims(found) == []
    assert any(ending.verdict is Verdict.EXACT for ending in found)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
def test_doubtful_endings_without_options_have_no_false_line(bash: Bash) -> None:
    found = run_endings(bash, [(kind, "none") for kind in kinds() if kind.doubtful])

    assert [complaint for ending in found for complaint in ending.complaints] == []

"""However a script ends, its record tells the true line, or says that it is approximate, or tells none."""

import pytest

from tests.endings.judge import COUNTED, Ending, Verdict, ending, score
from tests.endings.kinds import OPTIONS, Kind, kinds
from tests.shell.scripts import Bash, bashes

EXACT_AT_LEAST = {"euoE": 245 / 338, "euo": 245 / 338, "none": 55 / 80}
"""What a recorder that only knows what bash tells it has reached, as shares of the endings in failure."""

each_bash = pytest.mark.parametrize("bash", bashes(), ids=str)
each_options = pytest.mark.parametrize("options", OPTIONS)


@pytest.fixture(params=kinds(), ids=lambda kind: kind.title)
def judged(request: pytest.FixtureRequest, bash: Bash, options: str) -> Ending:
    kind: Kind = request.param
    return ending(bash, options, kind)


@each_bash
@each_options
def test_the_line_is_exact_or_said_to_be_approximate_or_absent(judged: Ending) -> None:
    assert judged.verdict is not Verdict.WRONG, judged.end


@each_bash
@each_options
def test_the_script_ends_as_it_does_without_the_shim(judged: Ending) -> None:
    assert judged.recorded.behaviour == judged.without.behaviour


@each_bash
@each_options
def test_the_end_is_recorded_with_its_result_and_status(judged: Ending) -> None:
    status = judged.without.returncode
    expected = ("failure" if status else "success", status if status >= 0 else None)

    if "unrecorded" in judged.kind.settings:
        assert judged.end is None
    else:
        assert judged.end is not None
        assert (judged.end["result"], judged.end.get("exitCode")) == expected
        assert not judged.recorded.damaged


@each_bash
@each_options
def test_the_command_is_the_one_of_an_exact_line(judged: Ending) -> None:
    if judged.verdict is Verdict.EXACT:
        assert judged.has_the_true_command, judged.end


@each_bash
@each_options
def test_enough_lines_are_exact(bash: Bash, options: str) -> None:
    counts = score(bash, options)
    failed = sum(counts[verdict] for verdict in COUNTED)

    assert counts[Verdict.EXACT] / failed >= EXACT_AT_LEAST[options], counts

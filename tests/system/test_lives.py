"""`show` and `analyze` state how ordinary services ended."""

import pytest

from testing.machine import Machine
from tests.command_line import Answer
from tests.system.ordinary_services import SERVICES, read_results, run_services


@pytest.fixture(scope="module")
def results(shared_machine: Machine) -> dict[str, tuple[Answer, str]]:
    run_services(shared_machine)
    return read_results(shared_machine)


@pytest.mark.parametrize("name", SERVICES)
def test_show_and_analyze_state_the_outcome(results: dict[str, tuple[Answer, str]], name: str) -> None:
    case = SERVICES[name]
    answer, shown = results[name]
    if not case.verdict:
        assert answer.status == 3
        return
    first = answer.out.splitlines()[0]
    assert answer.status == (0 if case.verdict in {"succeeded", "stopped"} else 1)
    assert case.text in answer.out
    if case.verdict == "stopped":
        assert "stopped" in shown
    else:
        assert first[2:].startswith(case.verdict)
        assert (case.verdict == "succeeded") == ("✓" in shown)

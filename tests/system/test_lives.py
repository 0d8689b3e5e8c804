"""Ordinary lives of services: `show` and `analyze` say what each came to."""

import pytest

from testing.machine import Machine
from tests.command_line import Answer
from tests.system.lives import LIVES, boot, first_lines


@pytest.fixture(scope="module")
def said(shared_machine: Machine) -> dict[str, tuple[Answer, str]]:
    boot(shared_machine)
    return first_lines(shared_machine)


@pytest.mark.parametrize("name", LIVES)
def test_show_and_analyze_state_the_outcome(said: dict[str, tuple[Answer, str]], name: str) -> None:
    life = LIVES[name]
    answer, shown = said[name]
    if not life.word:
        assert answer.status == 3
        return
    first = answer.out.splitlines()[0]
    assert answer.status == (0 if life.word in {"succeeded", "stopped"} else 1)
    assert life.says in answer.out
    if life.word == "stopped":
        assert "stopped" in shown
    else:
        assert first[2:].startswith(life.word)
        assert (life.word == "succeeded") == ("✓" in shown)

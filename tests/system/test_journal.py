"""The last journal lines of services that fail while journald lags behind."""

import pytest

from testing.machine import Machine

SERVICES = 30
CHATTER = "for i in {1..200}; do echo chatter; done\n"
LAST_WORDS = {
    "failing": "ls /no/such/file",
    "killed": "ls /no/such/file || kill -KILL $$",
}


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    names = [f"{kind}-{number}" for kind in LAST_WORDS for number in range(SERVICES)]
    for name in names:
        shared_machine.bash_service(name, CHATTER + LAST_WORDS[name.partition("-")[0]])
        shared_machine.drop_in(name)
    shared_machine.boot(f"start {' '.join(names)}; rest {' '.join(names)}")
    return shared_machine


@pytest.mark.parametrize("kind", LAST_WORDS)
def test_slow_journal_loses_no_last_lines(machine: Machine, kind: str) -> None:
    runs = [run for number in range(SERVICES) for run in machine.runs(f"{kind}-{number}")]

    assert len(runs) == SERVICES
    without = [run.service for run in runs if "/no/such/file" not in (run.facts.message or "")]
    assert without == []

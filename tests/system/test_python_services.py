"""Python services under a real systemd, beside a bash service in the same record."""

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

GOOD = """
with service_record.service():
    with service_record.stage("first"):
        pass
    with service_record.stage("second"):
        print("working")
"""
FAILING = """
def fetch(host):
    print(f"asking {host}", flush=True)
    raise ConnectionError(f"{host} does not answer")

with service_record.service():
    with service_record.stage("fetch"):
        fetch("mirror.example")
"""
KILLED = """
import os, signal
with service_record.service(), service_record.stage("work"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
WAITING = """
import time
with service_record.service(), service_record.stage("wait"):
    time.sleep(3600)
"""


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.python_service("good", GOOD)
    shared_machine.python_service("failing", FAILING)
    shared_machine.python_service("killed", KILLED)
    shared_machine.python_service("stopped", WAITING)
    shared_machine.python_service("vanished", "import os\nservice_record.start_service()\nos._exit(4)")
    services = "good failing killed stopped vanished"
    for service in services.split():
        shared_machine.drop_in(service)
    shared_machine.boot(f"""
        start {services}
        until grep -q '"stage start"' /var/log/openshift/stopped.json; do sleep 0.05; done
        /venv/bin/python /venv/bin/service-record show stopped >/observed/running
        systemctl stop stopped
        rest {services}
        cat /observed/running
    """)
    return shared_machine


def test_unit_name_is_the_service_name(machine: Machine) -> None:
    assert machine.phases("good") == [
        "service start",
        *("stage start first", "stage end first"),
        *("stage start second", "stage end second"),
        "service end",
    ]


def test_exception_has_line_and_journal(machine: Machine) -> None:
    (run,) = machine.runs("failing")

    assert (run.outcome, run.in_stage) == (Outcome.FAILURE, "fetch")
    assert run.facts.location is not None
    assert (run.facts.location.line, run.facts.location.function) == (6, "fetch")
    assert run.facts.message is not None
    assert "mirror.example does not answer" in run.facts.message
    assert "asking mirror.example" in run.facts.message


@pytest.mark.parametrize(
    ("service", "outcome", "signal", "exit_code"),
    [
        ("killed", Outcome.FAILURE, "KILL", None),
        ("stopped", Outcome.STOPPED, "TERM", None),
        ("vanished", Outcome.FAILURE, None, 4),
    ],
)
def test_systemd_closes_ended_python_services(
    machine: Machine, service: str, outcome: Outcome, signal: str | None, exit_code: int | None
) -> None:
    (run,) = machine.runs(service)

    assert run.outcome is outcome
    assert (run.facts.signal, run.facts.exit_code) == (signal, exit_code)

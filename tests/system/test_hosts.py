"""Services that may do little, or know nothing of being recorded."""

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

FAILING = "record_service_stage_start work; exit 3"
CONFINED = {
    "strict": ("ProtectSystem=strict",),
    "user": ("User=daemon",),
    "dynamic-user": ("DynamicUser=yes",),
}


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.drop_in()
    shared_machine.unit("content", "ExecStart=/bin/true")
    shared_machine.unit("failing", "ExecStart=/bin/ls /no/such/file")
    shared_machine.unit("stopped", "ExecStart=/bin/sleep infinity")
    shared_machine.unit("missing", "ExecStart=/no/such/program")
    shared_machine.bash_service("aware", "true")
    shared_machine.bash_service("allowed", FAILING, *CONFINED["strict"], "ReadWritePaths=/var/log/openshift")
    for name, settings in CONFINED.items():
        shared_machine.bash_service(name, FAILING, *settings)
    services = " ".join(["content", "failing", "missing", "aware", "allowed", *CONFINED])
    # As units/tmpfiles.d has it before any service; else only the first exit helper makes it.
    shared_machine.boot(f"""
        mkdir -m 1733 /dev/shm/service-record
        start {services} stopped
        systemctl stop stopped
        rest {services} stopped
    """)
    return shared_machine


@pytest.mark.parametrize(
    ("service", "outcome", "exit_code", "signal"),
    [
        ("content", Outcome.SUCCESS, 0, None),
        ("failing", Outcome.FAILURE, 2, None),
        ("missing", Outcome.FAILURE, 203, None),
        ("stopped", Outcome.STOPPED, None, "TERM"),
    ],
)
def test_a_service_that_knows_nothing_of_us_has_a_run(
    machine: Machine, service: str, outcome: Outcome, exit_code: int | None, signal: str | None
) -> None:
    (run,) = machine.runs(service)

    assert machine.phases(service) == ["service start", "service end"]
    assert (run.outcome, run.facts.exit_code, run.facts.signal) == (outcome, exit_code, signal)


def test_a_failure_of_a_service_that_knows_nothing_of_us_has_its_journal_lines(machine: Machine) -> None:
    (run,) = machine.runs("failing")

    assert run.facts.message is not None
    assert "/no/such/file" in run.facts.message


def test_a_service_that_records_itself_is_not_recorded_twice(machine: Machine) -> None:
    assert machine.phases("aware") == ["service start", "service end"]


@pytest.mark.parametrize("service", CONFINED)
def test_a_service_that_may_not_write_its_record_ends_as_it_would_and_has_one(
    machine: Machine, service: str
) -> None:
    (run,) = machine.runs(service)

    assert machine.phases(service) == [
        "service start",
        "stage start work",
        "stage end work",
        "service end",
    ]
    assert (run.outcome, run.in_stage, run.facts.exit_code) == (Outcome.FAILURE, "work", 3)


def test_a_confined_service_records_itself_where_it_may_write(machine: Machine) -> None:
    (run,) = machine.runs("allowed")

    assert (run.outcome, run.in_stage, run.facts.exit_code) == (Outcome.FAILURE, "work", 3)

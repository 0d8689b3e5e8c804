"""A script like the sample of upstream's document. Its third stage fails, under a real systemd."""

import pytest

from service_record.history.outcome import Location, Outcome
from testing.machine import Machine

SAMPLE = """\
#!/usr/bin/env bash
set -euoE pipefail

. /usr/local/bin/bootstrap-service-record.sh

attempts=0

api_answers() {
    ((++attempts == 3))
}

apply_manifests() {
    ls "/manifests/$1"
}

record_service_stage_start "render"
printf 'rendered\\n'
record_service_stage_success

while true
do
    record_service_stage_start "wait-for-api"

    if api_answers
    then
        record_service_stage_success
        break
    else
        record_service_stage_failure
    fi
done

record_service_stage_start "apply"

# The rest is never reached.
apply_manifests "cluster" # HERE

record_service_stage_success
"""
FAILING = 1 + SAMPLE[: SAMPLE.index("# HERE")].count("\n")
WITHIN = 1 + SAMPLE[: SAMPLE.index('ls "')].count("\n")


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.program("in-function.sh", SAMPLE)
    shared_machine.program("at-top-level.sh", SAMPLE.replace('apply_manifests "cluster"', "ls /manifests"))
    for service in ("in-function", "at-top-level"):
        shared_machine.unit(service, "Type=exec", f"ExecStart={service}.sh")
    shared_machine.drop_in()
    shared_machine.boot("start in-function at-top-level; rest in-function at-top-level")
    return shared_machine


def test_stages_are_recorded_with_their_tries(machine: Machine) -> None:
    assert machine.phases("at-top-level") == [
        "service start",
        *("stage start render", "stage end render"),
        *("stage start wait-for-api", "stage end wait-for-api") * 3,
        *("stage start apply", "stage end apply"),
        "service end",
    ]


def test_third_stage_fails_at_its_line(machine: Machine) -> None:
    (run,) = machine.runs("at-top-level")

    assert (run.outcome, run.in_stage) == (Outcome.FAILURE, "apply")
    assert run.facts.location == Location(FAILING, "main", "/usr/local/bin/at-top-level.sh")
    assert not run.facts.is_approximate
    assert run.facts.command == "ls /manifests"


def test_stack_leads_to_line_in_function(machine: Machine) -> None:
    (run,) = machine.runs("in-function")

    path = "/usr/local/bin/in-function.sh"
    assert run.facts.location == Location(WITHIN, "apply_manifests", path)
    assert run.facts.stack[-1] == Location(FAILING, "main", path)


@pytest.mark.parametrize("service", ["in-function", "at-top-level"])
def test_show_has_stage_line_and_journal(machine: Machine, service: str) -> None:
    shown = machine.show(service)

    assert "apply" in shown
    assert f"/usr/local/bin/{service}.sh" in shown
    assert str(FAILING) in shown
    assert "No such file or directory" in shown

"""Runs that no helper can close because the machine lost power."""

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

BODY = """
record_service_stage_start work
[[ -e /observed/second-boot ]] || sleep infinity
record_service_stage_success
"""


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.bash_service("service", BODY)
    shared_machine.drop_in("service")
    shared_machine.boot("""
        start service
        until grep -q '"stage start"' /var/log/openshift/service.json; do sleep 0.05; done
        power_loss
    """)
    return shared_machine


def test_verdict_names_power_loss_before_new_records(machine: Machine) -> None:
    program = "/venv/bin/python /venv/bin/service-record"

    found = machine.boot(f"""
        touch /etc/machine-id
        {program} analyze || echo "exit $?"
        {program} report --dry-run
    """)

    assert "interrupted: service in stage work: the host went down meanwhile" in found
    assert "exit 1" in found
    assert "verdict: interrupted: service in stage work: the host went down meanwhile" in found


def test_next_boot_shows_interrupted_services(machine: Machine) -> None:
    shown = machine.boot("""
        touch /observed/second-boot
        start service; rest service
        /venv/bin/python /venv/bin/service-record show --boot all --output wide
    """)

    before, after = machine.runs("service")
    assert before.boot_id != after.boot_id
    assert (before.outcome, before.in_stage) == (Outcome.INTERRUPTED, "work")
    assert after.outcome is Outcome.SUCCESS
    assert "interrupted" in shown
    assert "succeeded" in shown

"""Services that do not record themselves, with the drop-in for all services: `show` lists them while they
run.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from testing.machine import Machine

SHOW = "/venv/bin/python /venv/bin/service-record show"
PRE_COMMAND = """\
#!/usr/bin/env bash
PRE_COMMAND=prepare
. /usr/local/bin/bootstrap-service-record.sh
true
"""


@pytest.fixture(scope="module")
def shown(shared_machine: Machine) -> dict[str, Any]:
    """Return the output of `show` on the running machine."""
    machine = shared_machine
    machine.program("prepare", PRE_COMMAND)
    machine.unit("daemon", "ExecStart=/bin/sleep infinity")
    machine.unit("oneshot", "Type=oneshot", "ExecStart=/bin/true", "ExecStart=/bin/sleep infinity")
    machine.unit("of-many@", "ExecStart=/bin/sleep infinity")
    machine.unit("dotted.name", "ExecStart=/bin/sleep infinity")
    machine.unit("waiting", "ExecStartPre=/bin/sleep infinity", "ExecStart=/bin/true")
    machine.unit("prepared", "ExecStartPre=prepare", "ExecStart=/bin/sleep infinity")
    machine.unit("again", "ExecStart=/bin/sh -c 'sleep infinity'")
    machine.unit("over", "ExecStart=/bin/true")
    machine.bash_service("aware", "record_service_stage_start work; sleep infinity")
    machine.drop_in()
    services = "daemon oneshot of-many@1 of-many@2 dotted.name waiting prepared again aware"
    machine.boot(f"""
        systemctl start --no-block {services} over
        until grep -q '"stage start"' /var/log/openshift/aware.json; do sleep 0.05; done
        systemctl restart again
        rest over
        for service in daemon oneshot of-many@1 of-many@2 dotted.name prepared; do
            until (($(systemctl show --property=MainPID --value $service))); do sleep 0.05; done
        done
        {SHOW} --output json >/observed/now
        {SHOW} daemon >/observed/named
        systemctl stop {services}
        {SHOW} --output json >/observed/after
    """)
    found: dict[str, Any] = {"named": (machine.observed / "named").read_text()}
    for moment in ("now", "after"):
        document = json.loads((machine.observed / moment).read_text())
        found[moment] = {service["service"]: service for service in document["services"]}
    return found


@pytest.mark.parametrize(
    "name", ["daemon", "oneshot", "of-many@1", "of-many@2", "dotted_name", "waiting", "prepared", "again"]
)
def test_service_is_running_until_its_end(shown: dict[str, Any], name: str) -> None:
    assert shown["now"][name]["outcome"] == "running"
    assert shown["after"][name]["outcome"] in {"stopped", "success"}
    assert len(shown["after"][name]["runs"]) == len(shown["now"][name]["runs"])


def test_previous_run_is_shown(shown: dict[str, Any]) -> None:
    runs = shown["now"]["again"]["runs"]

    assert [(run["attempt"], run["outcome"]) for run in runs] == [(1, "stopped"), (2, "running")]


def test_self_recording_service_is_one_run(shown: dict[str, Any]) -> None:
    (run,) = shown["now"]["aware"]["runs"]

    assert (run["outcome"], run["inStage"]) == ("running", "work")
    assert run["recorder"].startswith("bash/")


def test_ended_service_is_not_running(shown: dict[str, Any]) -> None:
    assert shown["now"]["over"]["outcome"] == "success"


def test_service_is_found_by_name(shown: dict[str, Any]) -> None:
    assert "daemon running" in shown["named"]


def test_death_in_the_first_second_is_recorded(tmp_path: Path) -> None:
    machine = Machine(tmp_path, is_its_own_clock=True)
    machine.unit("early", "Type=oneshot", "ExecStart=/bin/false")
    machine.unit("later", "Type=oneshot", "ExecStart=/bin/false")
    machine.drop_in()
    machine.boot("""
        for ((n = 0; n < 12; n++)); do start early; done
        until read -r uptime _ </proc/uptime && ((${uptime%.*})); do sleep 0.05; done
        start later
    """)
    early, (later,) = machine.runs("early"), machine.runs("later")
    times = [run.first_entry.timestamp() for run in (*early, later) if run.first_entry is not None]
    assert len(early) >= 3
    assert len(times) == len(early) + 1
    assert max(times) - min(times) < 60

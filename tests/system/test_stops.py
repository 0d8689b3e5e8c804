"""Services that are stopped, restarted or rebooted, and services that time out or are killed."""

import json
from dataclasses import dataclass

import pytest

from service_record.history.outcome import Outcome, Run
from service_record.record.entry import Result
from testing.machine import Machine

FOREVER = "record_service_stage_start waiting; sleep infinity"
PRE_COMMAND = """\
#!/usr/bin/env bash
PRE_COMMAND=prepare
. /usr/local/bin/bootstrap-service-record.sh
record_service_stage_start waiting
sleep infinity
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A service, the `systemctl` command that ends it, and the expected record."""

    body: str = FOREVER
    settings: tuple[str, ...] = ()
    ended_by: str = "stop"
    outcome: Outcome = Outcome.STOPPED
    request: str | None = "stop"
    signal: str | None = "TERM"
    stage: str | None = "waiting"


ONESHOT = ("Type=oneshot",)
STOPS = {
    "simple": Stop(),
    "oneshot": Stop(settings=ONESHOT),
    "restarted": Stop(ended_by="restart", request="restart"),
    "restarted-oneshot": Stop(settings=ONESHOT, ended_by="restart", request="restart"),
    "with-its-own-signal": Stop(settings=("KillSignal=SIGQUIT", "LimitCORE=0"), signal=None),
    "with-a-trap": Stop(
        body="trap 'exit 143' TERM\nrecord_service_stage_start waiting; while :; do sleep 0.05; done",
        signal=None,
    ),
    "with-a-trap-that-is-a-success": Stop(
        body="trap 'exit 143' TERM\nrecord_service_stage_start waiting; while :; do sleep 0.05; done",
        settings=("SuccessExitStatus=143",),
        signal=None,
    ),
    "in-an-array": Stop(settings=("Environment=SERVICE_RECORDS_LAYOUT=array",)),
    "in-a-pre-command": Stop(settings=("ExecStartPre=/usr/local/bin/prepare",), signal="unknown"),
    # For systemd, a daemon that ends by SIGTERM was successful, whoever sent the signal.
    "terminated": Stop(ended_by="kill", request=None),
    "terminated-oneshot": Stop(settings=ONESHOT, ended_by="kill", outcome=Outcome.FAILURE, request=None),
    "killed": Stop(ended_by="kill --signal=KILL", outcome=Outcome.FAILURE, request=None, signal="KILL"),
    "not-stopped-in-time": Stop(
        body="trap '' TERM\nrecord_service_stage_start waiting; while :; do sleep 0.05; done",
        settings=("TimeoutStopSec=3s",),
        outcome=Outcome.FAILURE,
        request=None,
        signal="KILL",
    ),
    "crashed-when-stopped": Stop(
        body="trap 'kill -SEGV $$' TERM\nrecord_service_stage_start waiting; while :; do sleep 0.05; done",
        settings=("LimitCORE=0",),
        outcome=Outcome.FAILURE,
        request=None,
        signal="SEGV",
    ),
    "failed-when-stopped": Stop(
        body="trap 'exit 6' TERM\nrecord_service_stage_start waiting; while :; do sleep 0.05; done",
        outcome=Outcome.FAILURE,
        request=None,
        signal=None,
    ),
    "of-a-broken-pipe": Stop(
        settings=("IgnoreSIGPIPE=no",),
        ended_by="kill --signal=PIPE",
        outcome=Outcome.STOPPED,
        request=None,
        signal="PIPE",
    ),
}
REBOOTED = {"rebooted": (), "rebooted-oneshot": ONESHOT}


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.program("prepare", PRE_COMMAND)
    for name, stop in STOPS.items():
        shared_machine.bash_service(name, stop.body, *stop.settings)
        shared_machine.drop_in(name)
    for name, settings in REBOOTED.items():
        shared_machine.bash_service(name, FOREVER, *settings)
        shared_machine.drop_in(name)
    shared_machine.bash_service("by-the-shim-alone", FOREVER)
    shared_machine.bash_service("again-by-the-shim-alone", FOREVER)
    shared_machine.unit("unaware", "ExecStart=/bin/sleep infinity")
    shared_machine.drop_in("unaware")
    ends = "\n".join(f"systemctl {stop.ended_by} {name} &" for name, stop in STOPS.items())
    recorded = [*STOPS, *REBOOTED, "by-the-shim-alone", "again-by-the-shim-alone"]
    shared_machine.boot(f"""
        starts() {{ grep -c '"stage start"' /var/log/openshift/$1.json; }}
        systemctl start --no-block {" ".join(recorded)} unaware
        for service in {" ".join(recorded)}; do
            until grep -q '"stage start"' /var/log/openshift/$service.json; do sleep 0.05; done
        done
        until systemctl is-active unaware; do sleep 0.05; done
        {ends}
        systemctl stop by-the-shim-alone unaware
        for attempt in 2 3 4; do
            systemctl restart again-by-the-shim-alone
            until (($(starts again-by-the-shim-alone) == attempt)); do sleep 0.05; done
        done
        rest {" ".join(name for name, stop in STOPS.items() if stop.ended_by != "restart")} unaware
        for service in restarted restarted-oneshot; do
            until (($(starts $service) == 2)); do sleep 0.05; done
        done
    """)
    return shared_machine


def get_first_run(machine: Machine, name: str) -> Run:
    return machine.runs(name)[0]


@pytest.mark.parametrize("name", STOPS)
def test_stop_is_recorded_and_is_no_success(machine: Machine, name: str) -> None:
    stop, run = STOPS[name], get_first_run(machine, name)
    stages = run.stages or run.commands[0].stages
    ends = [e for e in machine.entries(name) if e.invocation_id == run.invocation_id and e.phase.is_end]

    assert (run.outcome, run.facts.signal, run.facts.stop_request) == (
        stop.outcome,
        stop.signal,
        stop.request,
    )
    assert (run.in_stage, [stage.outcome for stage in stages]) == (stop.stage, [stop.outcome])
    assert ends[-1].result is Result.FAILURE


@pytest.mark.parametrize("name", REBOOTED)
def test_reboot_stops_running_services(machine: Machine, name: str) -> None:
    run = get_first_run(machine, name)

    assert run.outcome is Outcome.STOPPED
    assert run.facts.stop_request == "shutdown"
    assert "stopped by systemd for a shutdown (SIGTERM)" in machine.show(name)


def test_service_that_does_not_record_is_stopped(machine: Machine) -> None:
    assert get_first_run(machine, "unaware").outcome is Outcome.STOPPED


def test_stop_without_the_drop_in_is_interrupted(machine: Machine) -> None:
    run = get_first_run(machine, "by-the-shim-alone")

    assert (run.outcome, run.in_stage) == (Outcome.INTERRUPTED, "waiting")
    assert "stopped or killed by a signal" in machine.show("by-the-shim-alone")


def test_stopped_services_are_not_failures(machine: Machine) -> None:
    stopped = [name for name, stop in STOPS.items() if stop.outcome is Outcome.STOPPED]
    services = [*stopped, *REBOOTED, "unaware"]

    found = json.loads(machine.analyze(*services, "--output", "json"))

    assert found["verdict"] == "stopped"
    assert found["says"].endswith("nothing is wrong")
    assert {each["service"] for each in found["stopped"]} == set(services)
    machine.show("--fail", *services)


def test_restarts_without_the_drop_in_are_not_a_loop(machine: Machine) -> None:
    found = json.loads(machine.analyze("again-by-the-shim-alone", "--output", "json", status=1))

    assert found["verdict"] == "interrupted"
    assert "looping" not in found["says"]

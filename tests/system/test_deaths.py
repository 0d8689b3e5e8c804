"""Every way in which a recorded service can end for systemd, all in one boot."""

import json
from dataclasses import dataclass

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

ARRAY = "Environment=SERVICE_RECORDS_LAYOUT=array"
WORK = "record_service_stage_start first; record_service_stage_success"
FOREVER = "record_service_stage_start waiting; sleep infinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A service and the expected end in its record. `service_result` has the values of $SERVICE_RESULT in
    systemd.exec(5).
    """

    body: str
    settings: tuple[str, ...] = ()
    outcome: Outcome = Outcome.FAILURE
    exit_code: int | None = None
    signal: str | None = None
    service_result: str | None = None
    stage: str | None = "waiting"


DEATHS = {
    "success": Death(body=WORK, outcome=Outcome.SUCCESS, exit_code=0, stage=None),
    "failure-in-a-stage": Death(body="record_service_stage_start waiting; bash -c 'exit 5'", exit_code=5),
    "exit": Death(body="exit 7", exit_code=7, stage=None),
    "sigkill": Death(
        body="record_service_stage_start waiting; kill -KILL $$", signal="KILL", service_result="signal"
    ),
    "crash-of-bash": Death(
        body="record_service_stage_start waiting; bash -c 'kill -SEGV $PPID; sleep infinity'",
        settings=("LimitCORE=0",),
        signal="SEGV",
        service_result="signal",
    ),
    "stopped": Death(body=FOREVER, outcome=Outcome.STOPPED, signal="TERM", service_result="success"),
    "start-timeout": Death(
        body=FOREVER, settings=("Type=notify", "TimeoutStartSec=1s"), signal="TERM", service_result="timeout"
    ),
    "watchdog": Death(
        body=f"systemd-notify --ready; {FOREVER}",
        settings=("Type=notify", "NotifyAccess=all", "WatchdogSec=1s", "LimitCORE=0"),
        signal="ABRT",
        service_result="watchdog",
    ),
    "exec-of-a-success": Death(body="exec true", outcome=Outcome.SUCCESS, exit_code=0, stage=None),
    "exec-of-a-failure": Death(
        body="record_service_stage_start waiting; exec bash -c 'exit 9'",
        exit_code=9,
        service_result="exit-code",
    ),
    "exit-trap-set-last": Death(
        body=f"{WORK}; trap 'rm -f /run/no-such' EXIT; true", outcome=Outcome.SUCCESS, exit_code=0, stage=None
    ),
    "traps-removed-last": Death(
        body=f"{WORK}; trap - EXIT ERR; true", outcome=Outcome.SUCCESS, exit_code=0, stage=None
    ),
    "traps-kept-and-set-again": Death(
        body=f"""{WORK}; old=$(trap -p EXIT); trap 'true' EXIT; eval "$old"; true""",
        outcome=Outcome.SUCCESS,
        exit_code=0,
        stage=None,
    ),
    "failure-where-traps-were-removed-last": Death(
        body=f"{WORK}; trap - EXIT ERR; bash -c 'exit 5'", exit_code=5, stage=None
    ),
    "success-in-an-array": Death(
        body=WORK, settings=(ARRAY,), outcome=Outcome.SUCCESS, exit_code=0, stage=None
    ),
    "sigkill-in-an-array": Death(
        body="record_service_stage_start waiting; kill -KILL $$",
        settings=(ARRAY,),
        signal="KILL",
        service_result="signal",
    ),
}


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    for name, death in DEATHS.items():
        shared_machine.bash_service(name, death.body, *death.settings)
        shared_machine.drop_in(name)
    shared_machine.boot(f"""
        start {" ".join(DEATHS)}
        until grep -q '"stage start"' /var/log/openshift/stopped.json; do sleep 0.05; done
        systemctl stop stopped
        rest {" ".join(DEATHS)}
    """)
    return shared_machine


@pytest.mark.parametrize("name", DEATHS)
def test_record_has_one_end_with_its_stage(machine: Machine, name: str) -> None:
    death, phases = DEATHS[name], machine.phases(name)

    (run,) = machine.runs(name)

    assert (run.outcome, run.facts.signal, run.in_stage) == (death.outcome, death.signal, death.stage)
    if death.exit_code is not None:
        assert run.facts.exit_code == death.exit_code
    if death.service_result is not None:
        assert run.facts.service_result == death.service_result
    assert (phases[0], phases.count("service start"), phases[-1][:11]) == ("service start", 1, "service end")


@pytest.mark.parametrize("name", [name for name, death in DEATHS.items() if ARRAY in death.settings])
def test_array_record_is_one_closed_array(machine: Machine, name: str) -> None:
    entries = json.loads(machine.records.path(name).read_bytes())

    assert [entry["phase"] for entry in entries] == [entry.phase for entry in machine.entries(name)]

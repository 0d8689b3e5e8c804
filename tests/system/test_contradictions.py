"""Services whose record and systemd disagree: the exit helper amends some ends and keeps others."""

from dataclasses import dataclass

import pytest

from service_record.history.outcome import Outcome, Run
from service_record.record.entry import Phase
from testing.machine import BASH_HEAD, Machine

WORK = "record_service_stage_start work\ntrue\n"
DONE = WORK + "record_service_stage_success\n"
SUCCESS, FAILURE, STOPPED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.STOPPED
AN_EXIT_TRAP = "trap 'exit 6' EXIT\n"
DAEMON = "setsid sleep infinity &\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A service and its expected run."""

    body: str = DONE
    settings: tuple[str, ...] = ()
    start: str = ""
    """`ExecStart=` if it does not run the script itself."""
    outcome: Outcome = FAILURE
    exit_code: int | None = None
    signal: str | None = None
    service_result: str | None = None
    stages: tuple[Outcome, ...] = (SUCCESS,)
    ends: int = 2
    """Number of `service end` entries in the record."""


CASES = {
    "cleanup-that-fails": Case(
        body="cleanup() { rm /no/such/file; }\ntrap cleanup EXIT\n" + WORK,
        exit_code=1,
        stages=(FAILURE,),
        ends=1,
    ),
    "exit-in-a-trap": Case(body=AN_EXIT_TRAP + WORK, exit_code=6, stages=(FAILURE,), ends=1),
    "exit-in-a-trap-after-the-stages": Case(body=AN_EXIT_TRAP + DONE, exit_code=6, ends=1),
    "exit-in-a-trap-to-success": Case(
        body="trap 'exit 0' EXIT\n" + WORK + "exit 5", outcome=SUCCESS, exit_code=0
    ),
    "other-exit-in-a-trap": Case(
        body=AN_EXIT_TRAP + WORK + "exit 5", exit_code=6, service_result="exit-code", stages=(FAILURE,)
    ),
    "success-by-its-status": Case(
        body=WORK + "exit 143", settings=("SuccessExitStatus=143",), outcome=SUCCESS, exit_code=143
    ),
    "stop-command-that-fails": Case(
        settings=("ExecStop=/bin/false",), exit_code=1, service_result="exit-code"
    ),
    "post-command-that-fails": Case(
        settings=("Type=oneshot", "ExecStartPost=/bin/false"), exit_code=1, service_result="exit-code"
    ),
    "recorded-post-command-that-fails": Case(
        settings=("ExecStopPost=/usr/local/bin/tidy-up",), exit_code=1, ends=1
    ),
    "time-out-that-it-took-for-a-stop": Case(
        body="trap 'exit 0' TERM\n" + WORK + "while :; do sleep 0.05; done",
        settings=("RuntimeMaxSec=1s",),
        exit_code=0,
        service_result="timeout",
        stages=(FAILURE,),
    ),
    "time-out-that-it-took-for-a-failure": Case(
        body="trap 'exit 1' TERM\n" + WORK + "while :; do sleep 0.05; done",
        settings=("RuntimeMaxSec=1s",),
        exit_code=1,
        service_result="timeout",
        stages=(FAILURE,),
    ),
    "no-readiness": Case(settings=("Type=notify",), exit_code=0, service_result="protocol"),
    "second-command-of-a-oneshot": Case(
        settings=("Type=oneshot", "ExecStart=sh -c 'exit 4'"), exit_code=4, service_result="exit-code"
    ),
    "pre-command-with-an-exit-trap": Case(
        settings=("ExecStartPre=/usr/local/bin/prepare",),
        exit_code=6,
        stages=(),
        ends=0,
    ),
    "shell-around-it-that-fails": Case(
        start="sh -c '/usr/local/bin/{}.sh; exit 3'", exit_code=3, service_result="exit-code"
    ),
    "shell-around-it-that-goes-on": Case(
        body=WORK + "exit 5",
        start="sh -c '/usr/local/bin/{}.sh || true'",
        outcome=SUCCESS,
        exit_code=0,
        stages=(FAILURE,),
    ),
    "daemon-that-is-killed": Case(
        body=DONE + DAEMON, settings=("Type=forking",), signal="KILL", service_result="signal"
    ),
    "daemon-that-is-stopped": Case(
        body=DONE + DAEMON, settings=("Type=forking",), outcome=STOPPED, signal="TERM"
    ),
    "launcher-with-an-exit-trap": Case(
        body=AN_EXIT_TRAP + DONE, settings=("Type=forking",), exit_code=6, ends=1
    ),
    "without-an-answer-of-systemctl": Case(
        body=WORK + "kill -KILL $$",
        signal="KILL",
        service_result="signal",
        stages=(FAILURE,),
        ends=1,
    ),
    "agreed-failure": Case(body=WORK + "exit 7", exit_code=7, stages=(FAILURE,), ends=1),
    "agreed-success": Case(outcome=SUCCESS, exit_code=0, ends=1),
    "agreed-launcher": Case(
        body=WORK + "exit 7", settings=("Type=forking",), exit_code=7, stages=(FAILURE,), ends=1
    ),
}
DAEMONS = ("daemon-that-is-killed", "daemon-that-is-stopped")


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    head = BASH_HEAD.replace(". ", "{}=it\n. ", 1)
    shared_machine.program("prepare", head.format("PRE_COMMAND") + AN_EXIT_TRAP + DONE)
    shared_machine.program("tidy-up", head.format("POST_COMMAND") + "exit 1\n")
    for name, case in CASES.items():
        shared_machine.bash_service(name, case.body, *case.settings)
        if case.start:
            shared_machine.unit(name, f"ExecStart={case.start.format(name)}", *case.settings)
        shared_machine.drop_in(name)
    shared_machine.replace_path("without-an-answer-of-systemctl", "/observed/path")
    shared_machine.unit("unmet", "ExecCondition=/bin/false", "ExecStart=/bin/true")
    shared_machine.drop_in("unmet")
    names = " ".join(CASES)
    shared_machine.boot(f"""
        mkdir /observed/path
        ln -s /usr/bin/{{bash,env,grep,tail,timeout}} /observed/path
        start {names} unmet
        until systemctl is-active {" ".join(DAEMONS)}; do sleep 0.05; done
        systemctl kill --signal=KILL daemon-that-is-killed
        systemctl stop daemon-that-is-stopped
        rest {names} unmet
    """)
    return shared_machine


def get_last_run(machine: Machine, name: str) -> Run:
    """Return the last run of the service."""
    return machine.attempts(name)[-1]


@pytest.mark.parametrize("name", CASES)
def test_end_that_agrees_with_systemd_stays(machine: Machine, name: str) -> None:
    case, run = CASES[name], get_last_run(machine, name)
    ends = [entry for entry in machine.entries(name) if entry.phase is Phase.SERVICE_END]
    (recorded,) = [run for run in machine.runs(name) if run.stages or not case.stages][:1]

    assert (run.outcome, run.facts.exit_code, run.facts.signal) == (case.outcome, case.exit_code, case.signal)
    if case.service_result is not None:
        assert run.facts.service_result == case.service_result
    assert tuple(stage.outcome for stage in recorded.stages) == case.stages
    assert len(ends) == case.ends


def test_unmet_condition_leaves_no_record(machine: Machine) -> None:
    assert "unmet" not in machine.records.services()


def test_failed_stop_command_is_named(machine: Machine) -> None:
    (run,) = machine.runs("stop-command-that-fails")

    assert run.facts.command == "ExecStop=/bin/false"
    assert "ExecStop=/bin/false" in machine.show("stop-command-that-fails")

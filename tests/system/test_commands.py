"""Pre- and post-commands, and services that systemd restarts."""

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

ATTEMPTS = 3
PRE_COMMAND = """\
#!/usr/bin/env bash
set -euo pipefail
PRE_COMMAND=prepare
. /usr/local/bin/bootstrap-service-record.sh
{}
"""
POST_COMMAND = """\
#!/usr/bin/env bash
POST_COMMAND=tidy-up
. /usr/local/bin/bootstrap-service-record.sh
true
"""


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.program("prepare", PRE_COMMAND.format("true"))
    shared_machine.program("prepare-in-vain", PRE_COMMAND.format("ls /no/such/file"))
    shared_machine.program("tidy-up", POST_COMMAND)
    around = "ExecStopPost=tidy-up"
    shared_machine.bash_service("prepared", "true", "ExecStartPre=prepare", around)
    shared_machine.bash_service("unprepared", "true", "ExecStartPre=prepare-in-vain", around)
    shared_machine.bash_service("killed", "kill -KILL $$", "ExecStartPre=prepare", around)
    shared_machine.unit("unaware", "ExecStart=sh -c 'echo going; exit 3'", "ExecStartPre=prepare")
    shared_machine.unit("unaware-unprepared", "ExecStart=true", "ExecStartPre=ls /no/such/file")
    shared_machine.unit("missing", "ExecStart=/no/such/program")
    again = ("Restart=on-failure", "RestartSec=20ms", f"StartLimitBurst={ATTEMPTS}")
    shared_machine.bash_service("again", "record_service_stage_start work\nls /no/such/file", *again)
    services = ("prepared", "unprepared", "killed", "unaware", "unaware-unprepared", "missing", "again")
    for service in services:
        shared_machine.drop_in(service)
    shared_machine.boot(f"start {' '.join(services)}; rest {' '.join(services)}")
    return shared_machine


def test_commands_are_recorded_around_their_service(machine: Machine) -> None:
    assert machine.phases("prepared") == [
        "pre-command start prepare",
        "pre-command end prepare",
        "service start",
        "service end",
        "post-command start tidy-up",
        "post-command end tidy-up",
    ]


def test_commands_and_their_service_are_one_run(machine: Machine) -> None:
    (run,) = machine.runs("prepared")

    assert run.outcome is Outcome.SUCCESS
    assert [command.name for command in run.commands] == ["prepare", "tidy-up"]


def test_failed_pre_command_fails_its_service(machine: Machine) -> None:
    (run,) = machine.runs("unprepared")

    assert run.outcome is Outcome.FAILURE
    assert run.in_command == "prepare"
    assert run.facts.location is not None
    assert run.facts.location.line == 5
    assert run.facts.message is not None
    assert "/no/such/file" in run.facts.message


def test_killed_service_with_post_command_is_closed(machine: Machine) -> None:
    (run,) = machine.runs("killed")

    assert run.outcome is Outcome.FAILURE
    assert run.facts.signal == "KILL"
    assert [command.outcome for command in run.commands] == [Outcome.SUCCESS, Outcome.SUCCESS]


def test_unaware_service_is_recorded_beside_its_command(
    machine: Machine,
) -> None:
    (run,) = machine.runs("unaware")

    assert run.outcome is Outcome.FAILURE
    assert run.facts.exit_code == 3
    assert run.facts.message == "going"
    assert [command.outcome for command in run.commands] == [Outcome.SUCCESS]
    assert [
        entry.pid for entry in machine.entries("unaware") if entry.phase.is_end and not entry.pre_command
    ] == [run.pid]


def test_unstarted_service_is_recorded_without_process(machine: Machine) -> None:
    assert machine.phases("unaware-unprepared") == ["service start", "service end"]
    assert {entry.pid for entry in machine.entries("unaware-unprepared")} == {None}
    (run,) = machine.runs("unaware-unprepared")
    assert run.outcome is Outcome.FAILURE
    assert run.facts.service_result == "exit-code"


def test_service_with_missing_program_is_recorded(machine: Machine) -> None:
    (run,) = machine.runs("missing")

    assert machine.phases("missing") == ["service start", "service end"]
    assert (run.outcome, run.facts.exit_code) == (Outcome.FAILURE, 203)


def test_attempts_up_to_start_limit_are_runs(machine: Machine) -> None:
    runs = machine.runs("again")

    assert [run.attempt for run in runs] == list(range(1, ATTEMPTS + 1))
    assert {run.outcome for run in runs} == {Outcome.FAILURE}
    assert len({run.invocation_id for run in runs}) == ATTEMPTS


def test_failure_has_lines_of_its_attempt(machine: Machine) -> None:
    for run in machine.runs("again"):
        assert run.facts.message is not None
        assert run.facts.message.count("/no/such/file") == 1


def test_show_states_identical_attempts(machine: Machine) -> None:
    shown = machine.show("again")

    assert "work" in shown
    assert f"{ATTEMPTS}" in shown
    assert "/usr/local/bin/again.sh" in shown

"""Facts about an end that only systemd has: the time limit, the failed command, the partner that caused it,
and journal lines.
"""

import json
from dataclasses import dataclass

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

IGNORES_TERM = "trap '' TERM; while :; do sleep 0.1; done"
FOREVER = "record_service_stage_start work; sleep infinity"
NESTED = """
import time
with service_record.service(), service_record.stage("outer"), service_record.stage("inner"):
    {}
"""
UNPRIVILEGED = """\
#!/usr/bin/python3
import sys
sys.path.insert(0, "/src")
import service_record
print("asking the mirror", flush=True)
with service_record.service(), service_record.stage("fetch"):
    raise ConnectionError("no answer")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A service that exceeds a time limit of its unit."""

    settings: tuple[str, ...]
    body: str = FOREVER
    is_stopped: bool = False
    expected: str | None


LIMITS = {
    "start": Limit(settings=("Type=notify", "TimeoutStartSec=1s"), expected="TimeoutStartSec"),
    "start-oneshot": Limit(settings=("Type=oneshot", "TimeoutStartSec=1s"), expected="TimeoutStartSec"),
    "start-post": Limit(
        settings=("ExecStartPost=/bin/sleep 60", "TimeoutStartSec=1s"), expected="TimeoutStartSec"
    ),
    "stop": Limit(
        body=IGNORES_TERM, settings=("TimeoutStopSec=3s",), is_stopped=True, expected="TimeoutStopSec"
    ),
    "stop-command": Limit(
        body="exit 0", settings=("ExecStop=/bin/sleep 60", "TimeoutStopSec=3s"), expected="TimeoutStopSec"
    ),
    "runtime": Limit(settings=("RuntimeMaxSec=1s",), expected="RuntimeMaxSec"),
    "runtime-and-stop": Limit(
        body=IGNORES_TERM, settings=("RuntimeMaxSec=1s", "TimeoutStopSec=3s"), expected="RuntimeMaxSec"
    ),
}


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    for name, limit in LIMITS.items():
        shared_machine.bash_service(name, limit.body, *limit.settings)
    shared_machine.bash_service("bound", FOREVER)
    shared_machine.write_unit(
        "bound.service",
        "[Unit]\nBindsTo=partner.service\nAfter=partner.service\n[Service]\nExecStart=/usr/local/bin/bound.sh\n",
    )
    shared_machine.write_unit(
        "bound-too.service",
        "[Unit]\nBindsTo=stopped-partner.service\nAfter=stopped-partner.service\n"
        "[Service]\nExecStart=/bin/sleep infinity\n",
    )
    shared_machine.unit("partner", "ExecStart=/bin/sh -c 'sleep 1; exit 3'")
    shared_machine.unit("stopped-partner", "ExecStart=/bin/sleep infinity")
    shared_machine.bash_service("post", FOREVER, "ExecStartPost=/bin/false")
    shared_machine.unit("pre", "ExecStartPre=/bin/sh -c 'exit 4'", "ExecStart=/bin/true")
    shared_machine.unit("forgiven", "ExecStartPost=-/bin/false", "ExecStart=/bin/sh -c 'kill -KILL $$$$'")
    for name, last in {
        "py-stopped": "time.sleep(60)",
        "py-killed": "import os; os.kill(os.getpid(), 9)",
    }.items():
        shared_machine.python_service(name, NESTED.format(last))
    shared_machine.bash_service("bash-user", "echo 'cannot reach it' >&2; exit 5", "User=nobody")
    shared_machine.bash_service("bash-root", "echo 'cannot reach it' >&2; exit 5")
    shared_machine.program("python-user", UNPRIVILEGED)
    shared_machine.unit("python-user", "ExecStart=/usr/local/bin/python-user", "DynamicUser=yes")
    shared_machine.tmpfiles()
    shared_machine.drop_in()
    at_once = [*LIMITS, "post", "pre", "forgiven", "py-killed", "bash-user", "bash-root", "python-user"]
    shared_machine.boot(f"""
        systemctl start --no-block {" ".join(at_once)} bound bound-too py-stopped
        until grep -q '"inner"' /var/log/openshift/py-stopped.json; do sleep 0.05; done
        until systemctl is-active stop bound-too; do sleep 0.05; done
        sleep 0.3
        systemctl stop stop py-stopped stopped-partner
        rest {" ".join(at_once)} bound bound-too py-stopped
    """)
    return shared_machine


@pytest.mark.parametrize("name", LIMITS)
def test_time_limit_is_named(machine: Machine, name: str) -> None:
    run = machine.attempts(name)[-1]

    assert (run.outcome, run.facts.service_result) == (Outcome.FAILURE, "timeout")
    assert run.facts.time_limit == LIMITS[name].expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("start", "it did not start within the time limit"),
        ("start-oneshot", "it did not start within the time limit"),
        ("stop", "it did not stop within the time limit"),
        ("runtime", "it ran longer than its unit allows"),
    ],
)
def test_exceeded_time_limit_is_named_in_text_and_json(machine: Machine, name: str, words: str) -> None:
    limit = LIMITS[name].expected
    document = json.loads(machine.analyze(name, "--output", "json", status=1))

    assert words in machine.analyze(name, status=1).splitlines()[0]
    assert f"{limit}=" in machine.show(name)
    assert f'"timeLimit": "{limit}"' in json.dumps(document)


def test_partner_whose_end_stopped_a_service_is_named(machine: Machine) -> None:
    (run,) = machine.runs("bound")

    assert (run.outcome, run.facts.stopped_with) == (Outcome.STOPPED, "partner.service")
    assert "because partner.service ended" in machine.show("bound")


def test_partner_that_was_stopped_with_it_is_not_named(machine: Machine) -> None:
    (run,) = machine.runs("bound-too")

    assert (run.outcome, run.facts.stop_request, run.facts.stopped_with) == (Outcome.STOPPED, "stop", None)


@pytest.mark.parametrize(
    ("name", "command", "exit_code"),
    [("post", "ExecStartPost=/bin/false", 1), ("pre", "ExecStartPre=/bin/sh", 4)],
)
def test_other_command_that_failed_is_the_reason(
    machine: Machine, name: str, command: str, exit_code: int
) -> None:
    run = machine.attempts(name)[-1]

    assert (run.outcome, run.facts.command, run.facts.exit_code) == (Outcome.FAILURE, command, exit_code)
    assert "told to stop" not in machine.analyze(name, status=1)


def test_command_whose_failure_is_ignored_is_not_the_reason(machine: Machine) -> None:
    (run,) = machine.runs("forgiven")

    assert (run.facts.command, run.facts.signal) == (None, "KILL")


@pytest.mark.parametrize(
    ("name", "outcome"), [("py-stopped", Outcome.STOPPED), ("py-killed", Outcome.FAILURE)]
)
def test_python_stages_ended_by_signal_end_once(machine: Machine, name: str, outcome: Outcome) -> None:
    (run,) = machine.runs(name)

    assert [(stage.name, stage.depth, stage.outcome) for stage in run.stages] == [
        ("outer", 0, outcome),
        ("inner", 1, outcome),
    ]


@pytest.mark.parametrize("name", ["bash-user", "bash-root"])
def test_failure_of_a_user_has_its_journal_lines(machine: Machine, name: str) -> None:
    (run,) = machine.runs(name)

    assert run.facts.message is not None
    assert "cannot reach it" in run.facts.message
    assert (run.facts.exit_code, run.facts.command) == (5, "exit 5")
    assert run.facts.location is not None
    assert machine.phases(name).count("service end") == (2 if name == "bash-user" else 1)


def test_exception_does_not_double_journal_lines(machine: Machine) -> None:
    (run,) = machine.runs("python-user")

    assert run.facts.message is not None
    assert run.facts.message.count("ConnectionError: no answer") == 1
    assert "line 7, in <module>" in run.facts.message
    assert run.facts.location is not None

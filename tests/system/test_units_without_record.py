"""`analyze NAME` and `show NAME` for units without a record: systemd and its journal answer."""

import re

import pytest

from testing.machine import Machine

UNITS = {
    "asserted": "[Unit]\nAssertPathExists=/no/such\n[Service]\nExecStart=/bin/true\n",
    "asserted-twice": "[Unit]\nAssertPathExists=/etc\nAssertPathExists=/no/such\n"
    "[Service]\nExecStart=/bin/true\n",
    "conditional": "[Unit]\nConditionPathExists=/no/such\n[Service]\nExecStart=/bin/true\n",
    "no-user": "[Service]\nUser=no-such-user\nExecStart=/bin/true\n",
    "no-directory": "[Service]\nWorkingDirectory=/no/such\nExecStart=/bin/true\n",
    "no-program": "[Service]\nExecStart=/no/such/program\n",
    "no-namespace": "[Unit]\nDescription=Listing\n[Service]\nReadWritePaths=/no/such\nExecStart=/bin/true\n",
    "no-root": "[Service]\nRootDirectory=/no/such\nExecStart=/bin/true\n",
    "no-environment": "[Service]\nEnvironmentFile=/no/such\nExecStart=/bin/true\nExecStopPost=/bin/true\n",
    "no-pid-file": "[Service]\nType=forking\nPIDFile=/run/no-such.pid\nExecStart=/bin/true\n",
    "idle": "[Service]\nExecStart=/bin/true\n",
    "requisite": "[Unit]\nRequisite=idle.service\nAfter=idle.service\n[Service]\nExecStart=/bin/true\n",
    "stop-post": "[Service]\nExecStart=/bin/true\nExecStopPost=/bin/false\n",
    "misspelt": "[Service]\nExecStrt=/bin/true\n",
    "relative": "[Service]\nExecStart=bin/true\n",
    "prepared": "[Service]\nType=oneshot\nExecStartPre=/bin/sh -c 'exit 6'\nExecStart=/bin/true\n",
    "second": "[Unit]\nRequires=prepared.service\nAfter=prepared.service\n[Service]\nExecStart=/bin/true\n",
    "third": "[Unit]\nRequires=second.service\nAfter=second.service\n[Service]\nExecStart=/bin/true\n",
    "needy": "[Unit]\nRequires=missing.service\n[Service]\nExecStart=/bin/true\n",
    "limited": "[Unit]\nStartLimitBurst=2\nStartLimitInterval=60\n[Service]\nType=oneshot\nExecStart=true\n",
    "spent": "[Service]\nRestart=on-failure\nRestartSec=0\nExecStart=/bin/false\n",
    "flooding": "[Service]\nLogRateLimitIntervalSec=1s\nLogRateLimitBurst=20\nExecStart=/bin/bash -c '"
    "for again in 1 2; do for number in {1..99}; do echo flood; done; sleep 1.2; done; exit 3'\n",
    "looping": "[Service]\nRestart=always\nRestartSec=1h\nExecStart=/bin/false\n",
    "lively": "[Service]\nExecStart=/bin/sleep 600\n",
}
ANSWERS = {
    "asserted": (
        1,
        "✗ failed: asserted did not start: an assertion of its unit is not met (AssertPathExists=/no/such)",
    ),
    "asserted-twice": (1, "not met (one of AssertPathExists=/etc, AssertPathExists=/no/such)"),
    "conditional": (0, "■ stopped: conditional did not start: a condition of its unit is not met (Condition"),
    "no-user": (1, "(exit 217 of ExecStart=/bin/true): Failed to determine user credentials"),
    "no-directory": (
        1,
        "(exit 200 of ExecStart=/bin/true): Changing to the requested working directory",
    ),
    "no-program": (
        1,
        "no-program.service: the program of the service, /no/such/program, is missing",
    ),
    "no-namespace": (1, "(exit 226 of ExecStart=/bin/true): Failed to set up mount namespacing: "),
    "no-root": (1, "(exit 226 of ExecStart=/bin/true): Failed to set up mount namespacing: No such file"),
    "no-environment": (
        1,
        ": an environment file of the unit cannot be read: No such file or directory; nothing is recorded",
    ),
    "no-pid-file": (
        1,
        "systemd could not open the PID file of the unit, /run/no-such.pid: No such file or directory",
    ),
    "requisite": (1, "requisite did not start: a unit that it requires is not active (idle.service)"),
    "stop-post": (1, "✗ failed: stop-post.service: exit 1 of ExecStopPost=/bin/false"),
    "misspelt": (1, "misspelt.service:2: Unknown key 'ExecStrt' in section [Service], ignoring."),
    "relative": (1, "relative.service:2: Neither a valid executable name nor an absolute path: bin/true"),
    "prepared": (1, "✗ failed: prepared.service: exit 6 of ExecStartPre=/bin/sh"),
    "second": (
        1,
        "second did not start: it requires prepared.service, which failed: exit 6 of ExecStartPre=/bin",
    ),
    "third": (1, "it requires second.service, which requires prepared.service, which failed: exit 6 of Exec"),
    "needy": (
        0,
        "■ stopped: needy.service is not active; it requires missing.service, and there is no such",
    ),
    "limited": (1, "✗ failed: limited.service: systemd gave up restarting it"),
    "spent": (1, "; systemd does not start it again: the start limit was hit"),
    "flooding": (1, "✗ failed: flooding: exit 3; the journal dropped "),
    "looping": (1, "✗ failed: looping.service: exit 1 of ExecStart=/bin/false"),
    "lively": (0, "● running: lively.service is active; nothing is recorded of it"),
    "veiled": (0, "■ stopped: veiled did not start: its unit is masked"),
    "no-such": (3, "Error: no record of no-such in /var/log/openshift; there are: flooding, web"),
}
SCENARIO = """\
export COLUMNS=1000
ask() {{ # VERB NAME...
  echo "# $*"
  /venv/bin/python -c 'from service_record.cli import main; main(prog_name="service-record")' "$@" 2>&1
  echo "= $?"
}}
while systemctl list-jobs --no-legend | grep -Eqv ' (finish\\.service|[^ ]*\\.target) '; do sleep 0.05; done
systemctl reset-failed
systemctl mask --runtime veiled
for unit in {units} limited limited; do start "$unit" 2>/dev/null; done
start web; rest web {ended}
for unit in {asked}; do ask analyze "$unit"; ask show "$unit"; done
ask analyze --output wide
ask show
ask bundle --output /observed/host.tar.gz
ask analyze --from /observed/host.tar.gz --output wide
ask analyze --from /observed/host.tar.gz third
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    """Return the output and the exit code of each call."""
    machine = Machine(tmp_path_factory.mktemp("machine"), wants=("limited.service",))  # keeps it loaded
    for name, text in UNITS.items():
        machine.write_unit(f"{name}.service", text)
    machine.write_unit("veiled.service", "")
    machine.drop_in("flooding")
    machine.bash_service("web", "true", "Type=oneshot")
    scenario = SCENARIO.format(
        units=" ".join(UNITS), ended=" ".join(UNITS.keys() - {"lively", "looping"}), asked=" ".join(ANSWERS)
    )
    found = re.findall(r"^# ([^\n]+)\n(.*?)^= (\d+)$", machine.boot(scenario), re.MULTILINE | re.DOTALL)
    return {call: (answer, int(status)) for call, answer, status in found}


@pytest.mark.parametrize("name", ANSWERS)
def test_analyze_answers_from_systemd(results: dict[str, tuple[str, int]], name: str) -> None:
    status, text = ANSWERS[name]
    answer, code = results[f"analyze {name}"]
    assert text in answer.splitlines()[0]
    assert code == status


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "flooding"])
def test_show_answers_like_analyze(results: dict[str, tuple[str, int]], name: str) -> None:
    answer, code = results[f"show {name}"]
    sentence = ANSWERS[name][1].removeprefix("✗ ").removeprefix("■ stopped: ").removeprefix("● running: ")
    assert sentence.removeprefix("failed: ") in answer
    assert code == (3 if name == "no-such" else 0)


def test_analyze_without_a_name_lists_every_fault(results: dict[str, tuple[str, int]]) -> None:
    answer, _ = results["analyze --output wide"]
    for name in ("asserted", "misspelt", "relative", "second", "third"):
        assert f"{name} did not start: " in answer
    for name in ("conditional", "veiled", "needy", "lively"):
        assert name not in answer


def test_show_and_analyze_agree_on_the_start_limit(results: dict[str, tuple[str, int]]) -> None:
    for pattern in (
        "failed: limited.service: .*systemd gave up",
        "spent.service: exit 1 of ExecStart=/bin/false; .*the start limit was hit",
    ):
        assert re.search(pattern, results["show"][0])
        assert re.search(pattern, results["analyze --output wide"][0])


def test_bundle_answers_failed_dependencies_as_the_host_does(results: dict[str, tuple[str, int]]) -> None:
    on_host, from_bundle = results["analyze third"], results["analyze --from /observed/host.tar.gz third"]
    assert (on_host[0].splitlines()[0], on_host[1]) == (from_bundle[0].splitlines()[0], from_bundle[1])
    answer, _ = results["analyze --from /observed/host.tar.gz --output wide"]
    for name in ("second", "third"):
        assert f"{name} did not start: it requires " in answer
    assert "prepared.service: exit 6 of ExecStartPre=/bin/sh" in answer

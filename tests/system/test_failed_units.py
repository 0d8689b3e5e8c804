"""`analyze` on a host with failed units that have no record."""

import re

import pytest

from testing.machine import Machine

SCENARIO = """\
analyze() {
  echo "# $1"
  /venv/bin/python -c 'from service_record.cli import main; main(prog_name="service-record")' \\
    analyze --utc "${@:2}" 2>&1
  echo "= $?"
}
while systemctl list-jobs --no-legend | grep -Eqv ' (finish\\.service|[^ ]*\\.target) '; do sleep 0.05; done
systemctl reset-failed
start bootkube; rest bootkube
analyze healthy
analyze condition --expect bootkube,conditional.service
analyze absent --expect no-such
analyze aware-of-nothing --expect unrecorded
systemctl start --no-block slow waiting
analyze queued --expect waiting
systemctl stop slow
start limited; start limited; start limited
analyze limit
systemctl reset-failed
start asserted
analyze assertion --expect asserted
start dependent
analyze dependency --expect dependent
systemctl reset-failed
start silent-pre
analyze explained silent-pre
rm /var/log/openshift/silent-pre.json; systemctl reset-failed silent-pre
analyze other bootkube

mkdir /run/copy; cp /var/log/openshift/bootkube.json /run/copy
analyze copied --from /run/copy
SERVICE_RECORDS_DIR=/run/copy analyze elsewhere
start mnt-data.mount
mkdir /run/hung; printf '#!/bin/sh\\nexec sleep 60\\n' >/run/hung/systemctl; chmod +x /run/hung/systemctl
SECONDS=0
PATH=/run/hung:$PATH analyze hung
echo "took $SECONDS"
rm /var/log/openshift/*.json
analyze unrecorded --output json
analyze nothing no-such
analyze named bootkube
"""
WANTED = (
    "conditional.service",
    "limited.service",
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return output and exit code of `analyze` for each name in the scenario."""
    machine = Machine(tmp_path_factory.mktemp("machine"), wants=WANTED)
    machine.bash_service("bootkube", "true", "Type=oneshot")
    machine.unit("conditional", "ConditionPathExists=/no/such/file", "ExecStart=/bin/true")
    machine.write_unit("asserted.service", "[Unit]\nAssertPathExists=/no\n[Service]\nExecStart=/bin/true\n")
    machine.unit("prepared", "ExecStartPre=/bin/sh -c 'exit 6'", "ExecStart=/bin/true")
    requires = "[Unit]\nRequires=prepared.service\nAfter=prepared.service\n[Service]\nExecStart=/bin/true\n"
    machine.write_unit("dependent.service", requires)
    machine.unit("silent-pre", "ExecStartPre=/bin/sh -c 'exit 7'", "ExecStart=/bin/true")
    machine.drop_in("silent-pre")
    machine.unit("unrecorded", "ExecStart=/bin/sleep 600")
    machine.unit("slow", "Type=oneshot", "ExecStart=/bin/sleep 600")
    machine.write_unit("waiting.service", "[Unit]\nAfter=slow.service\n[Service]\nExecStart=/bin/true\n")
    limit = ("StartLimitBurst=2", "StartLimitIntervalSec=600")
    machine.bash_service("limited", "true", "Type=oneshot", *limit)
    machine.write_unit("mnt-data.mount", "[Mount]\nWhat=/dev/no-such\nWhere=/mnt/data\nType=ext4\n")
    output = machine.boot(SCENARIO.replace("start bootkube;", "start bootkube unrecorded;", 1))
    return dict(re.findall(r"^# (\S+)\n(.*?^= \d+$.*?)(?=^# |\Z)", output, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize(
    ("name", "line", "status"),
    [
        pytest.param("healthy", "✓ succeeded: ", 0),
        pytest.param(
            "condition",
            "✗ failed: conditional did not start: a condition of its unit is not met",
            1,
        ),
        pytest.param("assertion", "✗ failed: asserted did not start: an assertion of its unit is not met", 1),
        pytest.param("absent", "✗ failed: no-such did not start: there is no unit no-such.service", 1),
        pytest.param("aware-of-nothing", "✓ succeeded: ", 0),
        pytest.param("queued", "● running: waiting has not started yet: systemd has queued its start; ", 0),
        pytest.param(
            "dependency", "✗ failed: dependent did not start: it requires prepared.service, which failed", 1
        ),
        pytest.param(
            "limit", "✗ failed: limited.service: it was started too often, and systemd refused to", 1
        ),
        pytest.param("explained", '✗ failed: silent-pre: exit 7 of "ExecStartPre=/bin/sh"', 1),
        pytest.param("other", "✓ succeeded: ", 0),
        pytest.param("copied", "✓ succeeded: nothing is wrong", 0),
        pytest.param("nothing", "Error: no records in /var/log/openshift: no *.json file there", 3),
        pytest.param("named", "■ stopped: bootkube.service is not active, and systemd knows of no", 0),
    ],
)
def test_verdict_agrees_with_systemd(answers: dict[str, str], name: str, line: str, status: int) -> None:
    first, *rest = answers[name].splitlines()
    assert first.startswith(line)
    assert f"= {status}" in rest


def test_failed_unit_has_command_and_next_steps(
    answers: dict[str, str],
) -> None:
    page = " ".join(answers["dependency"].split())
    assert "failed: prepared.service: exit 6 of ExecStartPre=/bin/sh; nothing is recorded of it" in page
    assert "next systemctl status prepared.service journalctl --boot --unit=prepared.service" in page


def test_hanging_systemd_is_reported_after_two_seconds(answers: dict[str, str]) -> None:
    assert "Warning: systemd does not answer; which units failed is not known" in answers["hung"]
    assert "✓ succeeded: no record tells of a failure; systemd does not say which units" in answers["hung"]
    seconds = re.search(r"^took (\d+)$", answers["hung"], re.MULTILINE)
    assert seconds is not None
    assert int(seconds[1]) < 20


def test_host_without_records_is_judged_by_units(answers: dict[str, str]) -> None:
    answer = answers["unrecorded"]
    assert '"verdict": "failed"' in answer
    assert '"unit": "mnt-data.mount"' in answer
    assert '"command": "ExecMount=/bin/mount"' in answer.replace("/usr/bin/mount", "/bin/mount")
    assert "= 1" in answer

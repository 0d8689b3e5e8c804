"""The unit for Cluster API under a real systemd: the sentinel after a success, the reason of a failure."""

import json
import re

import pytest

from service_record.record.journal_sending import MessageKind
from testing.machine import REPOSITORY, Machine

SENTINEL = "bootstrap-success.complete"
PROGRAM = """\
#!/bin/sh
exec /venv/bin/python -c 'from service_record.cli import main; main(prog_name="service-record")' "$@"
"""
SCENARIO = f"""\
touch /var/log/cloud-init-output.log
look() {{
  echo "# $1"
  for file in /run/cluster-api/* /var/log/cloud-init-output.log; do
    [[ ! -s $file ]] || echo "$file: $(tr '\\n' ' ' <"$file")"
  done
}}
watch() {{ systemctl start "service-record-cluster-api@$1"; }}
until_there() {{ for _ in {{1..200}}; do [[ ! -s /run/cluster-api/$1 ]] || return; sleep 0.05; done; }}

watch earlier
watch bootkube
start bootkube
until_there bootstrap-failure.txt
look failed
until journalctl --quiet MESSAGE_ID={MessageKind.BOOTSTRAP_FAILED.message_id} | grep -q .; do sleep 0.05; done
echo "# message"
journalctl --output=cat --unit=bootkube MESSAGE_ID={MessageKind.BOOTSTRAP_FAILED.message_id}
systemctl stop service-record-cluster-api@earlier
touch /run/has-disk
start bootkube
until_there {SENTINEL}
look mended
timeout 20 bash -c 'while systemctl is-active --quiet service-record-cluster-api@bootkube; do sleep 0.1; done'
echo "ended $(systemctl show --property=Result --value service-record-cluster-api@bootkube)"
rm -r /run/cluster-api

start stays
watch stays
until_there {SENTINEL}
look stays
rm -r /run/cluster-api

watch daemon
start daemon
systemctl stop daemon
sleep 1
look stopped
systemctl stop service-record-cluster-api@daemon
"""


@pytest.fixture(scope="module")
def listings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the listing of files for each name in the scenario."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    body = """\
    [[ -e /run/has-disk ]] || { echo 'no space left on device' >&2; exit 1; }
    """
    machine.bash_service("bootkube", body, "Type=oneshot")
    machine.unit("stays", "Type=oneshot", "RemainAfterExit=yes", "ExecStart=/bin/true")
    machine.unit("daemon", "ExecStart=/bin/sleep 600")
    machine.unit("earlier", "Type=oneshot", "ExecStart=/bin/true")
    machine.drop_in()
    # This service succeeded in an earlier boot and has not run in this one.
    times = {"bootId": "3f131ec329c24f0e8db41c58554b5d38", "pid": 7}
    entries = (
        {"timestamp": "2026-11-21T01:05:10.000Z", "phase": "service start", **times},
        {"timestamp": "2026-11-21T01:05:11.000Z", "phase": "service end", "result": "success", **times},
    )
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    machine.records.path("earlier").write_text(lines)
    machine.program("service-record", PROGRAM)
    name = "service-record-cluster-api"
    machine.program(f"{name}.sh", (REPOSITORY / f"shell/{name}.sh").read_text())
    unit = (REPOSITORY / f"units/{name}@.service").read_text()
    unit = unit.replace("/usr/local/share/service-record/", "/usr/local/bin/")
    machine.write_unit(f"{name}@.service", f"{unit}[Service]\nEnvironment=SERVICE_RECORD_INTERVAL=0.1\n")
    output = machine.boot(SCENARIO)
    return dict(re.findall(r"^# (\S+)\n(.*?)(?=^# |\Z)", output, re.MULTILINE | re.DOTALL))


def test_failure_has_reason_and_no_sentinel(listings: dict[str, str]) -> None:
    assert SENTINEL not in listings["failed"]
    reason, log = listings["failed"].splitlines()
    assert reason.startswith(
        "/run/cluster-api/bootstrap-failure.txt: service-record: bootkube.service failed"
    )
    assert "bootkube: the disk is full" in reason
    assert "bootkube: the disk is full" in log


def test_failure_is_a_message_of_the_service(listings: dict[str, str]) -> None:
    where = "/run/cluster-api/bootstrap-failure.txt"
    assert listings["message"] == f"bootkube.service failed; the reason is in {where}\n"


def test_later_success_replaces_reason(listings: dict[str, str]) -> None:
    assert f"/run/cluster-api/{SENTINEL}: success" in listings["mended"]
    assert "bootstrap-failure.txt" not in listings["mended"]
    assert "ended success" in listings["mended"]


def test_service_that_remains_after_exit_succeeds(listings: dict[str, str]) -> None:
    assert f"/run/cluster-api/{SENTINEL}: success" in listings["stays"]


def test_stopped_service_is_no_success(listings: dict[str, str]) -> None:
    assert "/run/cluster-api" not in listings["stopped"]

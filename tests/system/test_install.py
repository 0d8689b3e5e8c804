"""`install` and `uninstall` on a host with a running systemd, which reloads its units each time."""

import json

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

INSTALLER = """\
cp -a /usr/local/bin /run/programs
mount -t tmpfs -o mode=0755 tmpfs /usr/local/bin
mount -t tmpfs -o mode=0755 tmpfs /usr/local/share
cp -a /run/programs/. /usr/local/bin
mkdir /etc/service-record
touch /etc/service-record/reporter.toml
service_record() {
  /venv/bin/python -c 'from service_record.cli import main; main(prog_name="service-record")' "$@"
}
everything() {  # where systemd, which has just booted, writes things of its own, without times
  find /usr/local/bin /usr/local/share -type d -printf '%p %m %u\\n' -o -printf '%p %m %u %T@ %l\\n' | sort
  find /etc /var/lib -path '*service-record*' -o -path '*boot-reporter*' -o -path '/etc/systemd*' | sort
}
"""
LEFT = (
    f'{{"timestamp":"2026-11-21T01:05:10.123Z","phase":"service start","invocationId":"{"7" * 32}","pid":9}}'
)
SCENARIO = f"""\
{INSTALLER}
everything >/run/before
service_record install --all-services --array --reporter 2>&1
stat --format='inbox %a, at once' /dev/shm/service-record
systemctl show --property=ExecStopPost,NeedDaemonReload --value killed
systemctl is-enabled boot-reporter.timer
service_record doctor --output json >/observed/doctor.json
start killed; rest killed
systemctl start boot-reporter.timer
service_record install
service_record uninstall >/dev/null
service_record install --close killed
stat --format='inbox %a' /dev/shm/service-record
systemctl show --property=ExecStopPost,NeedDaemonReload --value killed
printf '%s\\n' '{LEFT}' >/dev/shm/service-record/left.{"7" * 32}.json
service_record uninstall 2>&1
ls -d /dev/shm/service-record /dev/shm/service-record.uptime
systemctl is-active boot-reporter.timer
systemctl show --property=ExecStopPost,NeedDaemonReload --value killed
everything >/run/after
diff /run/before /run/after && echo 'as it was'
"""


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.unit("killed", "ExecStart=/bin/bash -c 'kill -KILL $$$$'")
    return shared_machine


@pytest.fixture(scope="module")
def output(machine: Machine) -> list[str]:
    return machine.boot(SCENARIO).splitlines()


def test_install_and_uninstall_reload_systemd(machine: Machine, output: list[str]) -> None:
    stops = [line for line in output if line.startswith("{ path=")]
    assert len(stops) == 2
    assert all(stop.startswith("{ path=/usr/bin/timeout ;") for stop in stops)
    assert "systemd closes the records of: killed." in output
    assert "Note: the next boot starts it; systemctl start boot-reporter.timer does so now" in output
    assert [line for line in output if line in {"yes", "no", "enabled", "active", "inactive"}] == [
        "no",
        "enabled",
        "no",
        "inactive",
        "no",
    ]
    assert [line for line in output if "run it yourself" in line] == []
    assert [line for line in output if "inbox" in line] == ["inbox 1733, at once", "inbox 1733"]


def test_doctor_finds_the_host_armed(machine: Machine, output: list[str]) -> None:
    document = json.loads((machine.observed / "doctor.json").read_text())
    states = {each["check"]: each["state"] for each in document["checks"]}

    assert output
    assert [states[check] for check in ("files", "drop-ins", "records", "inbox")] == ["passed"] * 4
    assert states["boot reporter"] == "failed"  # its settings are empty


def test_uninstall_collects_files_of_root_in_the_inbox(machine: Machine, output: list[str]) -> None:
    (entry,) = machine.entries("left")

    assert entry.pid == 9
    missing = [line for line in output if "No such file or directory" in line]
    assert [line.split("'")[1] for line in missing] == [
        "/dev/shm/service-record",
        "/dev/shm/service-record.uptime",
    ]


def test_unaware_service_is_recorded(machine: Machine, output: list[str]) -> None:
    (run,) = machine.runs("killed")
    assert (run.outcome, run.facts.signal) == (Outcome.FAILURE, "KILL")
    assert (machine.records.directory / "killed.json").read_text().startswith("[")


def test_uninstall_restores_the_running_host(output: list[str]) -> None:
    assert output[-1] == "as it was", output

"""Files in the inbox: those of services of users, and those of root's services while the records are
read-only.
"""

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

STAGES = "record_service_stage_start work; record_service_stage_success"
MANAGER = """\
[Service]
User=%i
RuntimeDirectory=user/%i
Environment=XDG_RUNTIME_DIR=/run/user/%i HOME=/run/user/%i
ExecStart=/lib/systemd/systemd --user
Delegate=yes
KillMode=mixed
"""
# Two files that a service wrote while its record was read-only. The clock was set back between them, so the
# second run has the earlier time.
LEFT_TWICE = r"""
leave() { # INVOCATION MINUTE UPTIME
  printf '{"timestamp":"2026-11-21T01:%s:00.000Z","phase":"%s","invocationId":"%s","pid":7,"uptime":%s}\n' \
    "$2" "service start" "$1" "$3.00" "$2" 'service end","result":"success' "$1" "$3.50" \
    >"/dev/shm/service-record/left-twice.$1.json"
}
leave ffffffffffffffffffffffffffffffff 30 9
leave 00000000000000000000000000000000 10 10
touch --date='1 hour ago' /dev/shm/service-record/left-twice.0*.json
"""
AS_USER = "setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR=/run/user/65534"


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.write_unit("user@.service", MANAGER)
    shared_machine.bash_service("of-a-user", STAGES)
    shared_machine.bash_service("early", f"{STAGES}; exit 3")
    shared_machine.bash_service("stopped-early", f"{STAGES}; sleep infinity")
    shared_machine.bash_service("flooded", f"{STAGES}; exit 3", "User=daemon")
    shared_machine.bash_service("left", STAGES, "User=daemon")
    shared_machine.unit("later", "Type=oneshot", "ExecStart=/bin/false")
    shared_machine.unit("after-the-flood", "Type=oneshot", "ExecStart=/bin/true")
    shared_machine.tmpfiles()
    shared_machine.drop_in()
    shared_machine.boot(f"""
        inbox() {{ ls -A /dev/shm/service-record; }}
        until [[ -d /dev/shm/service-record ]]; do sleep 0.05; done
        mkdir -p /run/systemd/user
        printf '[Service]\\nType=oneshot\\nExecStart=/usr/local/bin/of-a-user.sh\\n' \\
          >/run/systemd/user/of-a-user.service
        systemctl start user@65534
        until {AS_USER} systemctl --user is-active basic.target; do sleep 0.1; done
        {AS_USER} systemctl --user start of-a-user && touch /observed/user-service-ran
        inbox >/observed/by-user
        mount --bind /var/log/openshift /var/log/openshift
        mount -o remount,ro,bind /var/log/openshift
        start early stopped-early
        until grep -q '"stage end"' /dev/shm/service-record/stopped-early.*; do sleep 0.05; done
        rest early
        inbox >/observed/while-read-only
        umount /var/log/openshift
        {LEFT_TWICE}
        start later
        inbox >/observed/after-later
        systemctl stop stopped-early
        inbox >/observed/at-the-end
        mkdir -p /etc/systemd/system/left.service.d
        printf '[Service]\\nExecStopPost=\\n' >/etc/systemd/system/left.service.d/50-no-helper.conf
        systemctl daemon-reload
        start left; rest left
        inbox >/observed/without-helper
        rm /etc/systemd/system/left.service.d/50-no-helper.conf
        systemctl daemon-reload
        start left; rest left
        inbox >/observed/with-helper
        cd /dev/shm/service-record
        printf 'flooded.%032x.json\\n' {{1..20000}} | setpriv --reuid=65534 --clear-groups xargs touch
        start flooded
        rest flooded
        start after-the-flood
    """)
    return shared_machine


def list_services(machine: Machine, name: str) -> list[str]:
    return [file.partition(".")[0] for file in (machine.observed / name).read_text().split()]


def test_service_of_a_user_leaves_nothing_in_the_inbox(machine: Machine) -> None:
    assert (machine.observed / "user-service-ran").exists()
    assert list_services(machine, "by-user") == []


def test_file_of_root_is_collected_at_next_end(machine: Machine) -> None:
    (run,) = machine.runs("early")

    assert list_services(machine, "while-read-only") == ["early", "stopped-early"]
    assert list_services(machine, "after-later") == ["stopped-early"]
    assert (run.outcome, run.facts.exit_code) == (Outcome.FAILURE, 3)
    assert [stage.name for stage in run.stages] == ["work"]


def test_files_are_added_in_order_of_uptime(machine: Machine) -> None:
    ends = [entry for entry in machine.entries("left-twice") if entry.phase == "service end"]

    assert [entry.uptime for entry in ends] == [9.5, 10.5]


def test_file_of_running_service_waits_for_its_end(machine: Machine) -> None:
    (run,) = machine.runs("stopped-early")

    assert list_services(machine, "at-the-end") == []
    assert (run.outcome, [stage.name for stage in run.stages]) == (Outcome.STOPPED, ["work"])


def test_next_end_collects_after_a_failed_helper(machine: Machine) -> None:
    run = ["service start", "stage start work", "stage end work", "service end"]
    assert list_services(machine, "without-helper") == ["left"]
    assert list_services(machine, "with-helper") == []
    assert machine.phases("left") == [*run, *run]
    first, second = machine.runs("left")
    assert first.first_entry is not None
    assert second.first_entry is not None
    assert first.first_entry < second.first_entry


def test_many_files_of_another_user_hide_no_end(machine: Machine) -> None:
    (run,) = machine.runs("flooded")

    assert (run.outcome, run.facts.exit_code) == (Outcome.FAILURE, 3)
    assert [stage.name for stage in run.stages] == ["work"]
    assert machine.phases("after-the-flood") == ["service start", "service end"]

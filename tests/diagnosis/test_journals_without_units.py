"""A journal as text does not say which unit a program ran for."""

import calendar
import json
from pathlib import Path

import pytest

from service_record.history.unit_events import read_event
from tests.command_line import service_record

MOUNT_FAILED = """\
Jan 03 10:00:00 node1 systemd[1]: Mounting data.mount - /data...
Jan 03 10:00:01 node1 {line}
Jan 03 10:00:02 node1 systemd[1]: data.mount: Mount process exited, code=exited, status=32/n/a
Jan 03 10:00:02 node1 systemd[1]: data.mount: Failed with result 'exit-code'.
Jan 03 10:00:02 node1 systemd[1]: Failed to mount data.mount - /data.
"""
SCRIPT_FAILED = """\
Jan 03 09:58:00 node1 bash[600]: /usr/local/bin/earlier.sh: line 3: mvn: command not found
Jan 03 10:00:00 node1 systemd[1]: Starting setup.service - Set up...
Jan 03 10:00:01 node1 bash[744]: {line}
Jan 03 10:00:02 node1 systemd[1]: setup.service: Main process exited, code=exited, status=1/FAILURE
Jan 03 10:00:02 node1 systemd[1]: setup.service: Failed with result 'exit-code'.
Jan 03 10:00:02 node1 systemd[1]: Failed to start setup.service - Set up.
"""


def analyze(journal: str, directory: Path) -> str:
    """Return the first line of the analysis of this journal."""
    file = directory / "journal.txt"
    file.write_text(journal)
    return service_record("analyze", "--from", file, COLUMNS="300").out.splitlines()[0]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "mount[715]: mount.nfs: access denied by server while mounting nfs1:/export",
            "exit 32; points to: the NFS server does not let this host mount nfs1:/export",
        ),
        (
            "kernel: XFS (sdb1): Filesystem has duplicate UUID 8a3c1a1c - can't mount",
            "the file system on sdb1 is there twice",
        ),
    ],
)
def test_cause_of_a_failed_mount_is_named(line: str, cause: str, tmp_path: Path) -> None:
    assert analyze(MOUNT_FAILED.format(line=line), tmp_path).endswith(f"failed: data.mount: {cause}")


@pytest.mark.parametrize("unit", ["setup.service - Set up", "Set up"], ids=["systemd 249", "systemd 248"])
def test_failed_run_is_found_by_name_or_description(unit: str, tmp_path: Path) -> None:
    journal = SCRIPT_FAILED.replace("setup.service - Set up", unit)
    cause = analyze(journal.format(line="E: Unable to locate package jqq"), tmp_path)
    assert cause.endswith("failed: setup: exit 1; points to: no repository has the package jqq")


def test_bare_label_does_not_hide_the_cause(tmp_path: Path) -> None:
    lines = "Error: \nJan 03 10:00:01 node1 dnf[745]:   - nothing provides libfoo.so.2 needed by agent-3.1-1"
    cause = analyze(SCRIPT_FAILED.format(line=lines), tmp_path)
    assert cause.endswith("points to: packages do not fit together: agent-3.1-1 needs libfoo.so.2")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("/usr/local/bin/setup.sh: line 12: jq: command not found", "jq is not installed, or not on PATH"),
        (
            "curl: (60) SSL certificate problem: self-signed certificate in certificate chain",
            "this host does not trust who signed a certificate",
        ),
    ],
)
def test_line_of_a_script_points_to_the_cause(line: str, cause: str, tmp_path: Path) -> None:
    first = analyze(SCRIPT_FAILED.format(line=line), tmp_path)
    assert first.endswith(f"failed: setup: exit 1; points to: {cause}")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "apt-get[745]: E: The repository 'http://deb.lab sid Release' does not have a Release file.",
            "the package mirror does not have the repository http://deb.lab sid Release",
        ),
        (
            "curl[745]: curl: (35) OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to files.lab:443",
            "curl: curl: (35) OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to files.lab:443",
        ),
    ],
)
def test_line_of_a_new_program_points_to_the_cause(line: str, cause: str, tmp_path: Path) -> None:
    journal = SCRIPT_FAILED.format(line="setting up").replace(
        "setting up\n", f"setting up\nJan 03 10:00:01 node1 {line}\n"
    )
    assert analyze(journal, tmp_path).endswith(f"failed: setup: exit 1; points to: {cause}")


@pytest.mark.parametrize(
    ("other", "certainty"),
    [("Started web.service - Web.", "podman-web: "), ("Starting podman-db.service - DB...", "points to: ")],
)
def test_program_belongs_to_unit_with_its_name(other: str, certainty: str, tmp_path: Path) -> None:
    line = 'podman[745]: Error: the container name "web" is already in use by 1f2e.'
    journal = f"Jan 03 09:59:00 node1 systemd[1]: {other}\n" + SCRIPT_FAILED.replace("setup", "podman-web")
    journal = journal.replace("bash[744]: {line}", line)
    assert f"{certainty}a container of the same name" in analyze(journal, tmp_path)


def test_last_lines_of_a_failed_run_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "journal.txt"
    file.write_text(SCRIPT_FAILED.format(line="3 of 9 parts are here"))
    assert "bash: 3 of 9 parts are here" in service_record("analyze", "--from", file, COLUMNS="300").out


@pytest.mark.parametrize("earlier", ["chronyd[745]: started", "systemd[1]: Started chronyd.service - NTP."])
def test_line_of_a_running_daemon_is_not_the_cause(earlier: str, tmp_path: Path) -> None:
    line = "chronyd[745]: The repository 'x' does not have a Release file."
    journal = f"Jan 03 09:59:00 node1 {earlier}\n" + SCRIPT_FAILED.format(line="setting up").replace(
        "setting up\n", f"setting up\nJan 03 10:00:01 node1 {line}\n"
    )
    assert analyze(journal, tmp_path).endswith("failed: setup: exit 1")


def test_script_that_ran_earlier_is_not_the_cause(tmp_path: Path) -> None:
    first = analyze(SCRIPT_FAILED.format(line="setting up"), tmp_path)
    assert first.endswith("failed: setup: exit 1")


def test_line_with_another_unit_is_not_the_cause(tmp_path: Path) -> None:
    journal = SCRIPT_FAILED.format(line="setting up").replace(
        "setting up\n", "setting up\nJan 03 10:00:01 node1 backup.service[745]: jq: command not found\n"
    )
    assert analyze(journal, tmp_path).endswith("failed: setup: exit 1")


def test_journal_line_belongs_to_its_mount_unit(tmp_path: Path) -> None:
    def line(message: str, **fields: str) -> str:
        entry = {"__REALTIME_TIMESTAMP": "1767434400000000", "_BOOT_ID": "b0" * 16, "MESSAGE": message}
        return json.dumps(entry | fields)

    denied = "mount.nfs: access denied by server while mounting nfs1:/export"
    of_systemd = {"SYSLOG_IDENTIFIER": "systemd", "_PID": "1"}
    journal = [line(denied, SYSLOG_IDENTIFIER="mount", _PID="715", _SYSTEMD_UNIT="data.mount")]
    journal += [
        line(f"{unit}: Failed with result 'exit-code'.", UNIT=unit, **of_systemd)
        for unit in ("data.mount", "scratch.mount")
    ]
    file = tmp_path / "journal.json"
    file.write_text("\n".join(journal) + "\n")
    answer = service_record("analyze", "--from", file, COLUMNS="300").out
    named = [text for text in answer.splitlines() if "scratch.mount" in text or "data.mount: the NFS" in text]
    assert "failed: data.mount: the NFS server does not let this host mount nfs1:/export" in named[0]
    assert not any("scratch.mount: the NFS" in text for text in named)


def test_line_about_another_unit_is_no_cause(tmp_path: Path) -> None:
    other = (
        "Jan 03 10:00:01 node1 systemd[1]: other.service: Failed to load environment files: No such file\n"
    )
    journal = SCRIPT_FAILED.format(line="setting up").replace("setting up\n", f"setting up\n{other}")
    assert analyze(journal, tmp_path).endswith("failed: setup: exit 1")


FAILED = """\
Jan 03 10:00:00 node1 systemd[1]: Starting {name} - It...
Jan 03 10:00:01 node1 {line}
Jan 03 10:00:02 node1 systemd[1]: {name}: Control process exited, code=exited, status=1/FAILURE
-- The unit {name} has entered the 'failed' state with result 'exit-code'.
░░ The unit {name} has entered the 'failed' state with result 'exit-code'.
Jan 03 10:00:02 node1 systemd[1]: {name}: Failed with result 'exit-code'.
Jan 03 10:00:02 node1 systemd[1]: Failed to start {name} - It.
"""


def test_explanation_of_a_message_is_no_evidence(tmp_path: Path) -> None:
    file = tmp_path / "journal.txt"
    file.write_text(FAILED.format(name="db.service", line='check-db[44]: Directory "/srv/db" is missing.'))
    answer = service_record("analyze", "--from", file, COLUMNS="300").out
    assert 'Directory "/srv/db" is missing' in answer
    assert "has entered" not in answer


def test_failed_open_of_btrfs_does_not_prove_damage(tmp_path: Path) -> None:
    line = "kernel: BTRFS error (device dm-3): open_ctree failed"
    assert "damaged" not in analyze(FAILED.format(name="data.mount", line=line), tmp_path)


@pytest.mark.parametrize(
    "message",
    ["Job data.device/start timed out.", "Job data.device/start failed with result 'dependency'."],
)
def test_job_of_an_old_systemd_is_read(message: str) -> None:
    event = read_event(message)
    assert event is not None
    assert event[1]["unit"] == "data.device"


def test_exact_rule_precedes_general_ones(tmp_path: Path) -> None:
    path = "/var/lib/kubelet/config.yaml"
    line = (
        f'kubelet[7]: E0103 10:00:01.1 7 server.go:206] "Failed to load kubelet config file" err="failed to'
        f" load Kubelet config file {path}, error failed to read kubelet config file"
        rf' \"{path}\", error: open {path}: no such file or directory"'
    )
    file = tmp_path / "journal.txt"
    file.write_text(
        SCRIPT_FAILED.replace("setup.service", "kubelet.service").replace("bash[744]: {line}", line)
    )
    answer = service_record("analyze", "--from", file, COLUMNS="300").out
    assert f"the kubelet's configuration {path} is not there (kubelet-not-set-up)" in answer
    assert "is not valid" not in answer


def test_running_again_after_a_failure_is_not_called_healthy(tmp_path: Path) -> None:
    again = "Jan 03 10:00:07 node1 systemd[1]: Starting setup.service - Set up...\n"
    journal = SCRIPT_FAILED.format(line="Error: no such host") + again

    assert "setup (attempt 2; before: failed)" in analyze(journal, tmp_path)
    assert "no service has failed" not in analyze(journal, tmp_path)


DEVICE_TIMED_OUT = r"""Jan 03 10:00:00 node1 systemd[1]: Started dbus.service - D-Bus System Message Bus.
Jan 03 10:01:30 node1 systemd[1]: Timed out waiting for device dev-vdb1.device - /dev/vdb1.
Jan 03 10:01:30 node1 systemd[1]: Dependency failed for data.mount - /data.
Jan 03 10:01:30 node1 systemd[1]: data.mount: Job data.mount/start failed with result 'dependency'.
Jan 03 10:01:30 node1 systemd[1]: dev-vdb1.device: Job dev-vdb1.device/start failed with result 'timeout'.
"""


def test_missing_device_is_optional_if_boot_continued(tmp_path: Path) -> None:
    assert "failed: data.mount did not start" in analyze(DEVICE_TIMED_OUT, tmp_path)
    for message in ("Started app.service - App.", "Reached target multi-user.target - Multi-User System."):
        went_on = f"{DEVICE_TIMED_OUT}Jan 03 10:01:31 node1 systemd[1]: {message}\n"
        assert "failed:" not in analyze(went_on, tmp_path)


TIMED_OUT = """\
Jan 03 10:00:00 node1 systemd[1]: Started smartd.service - Disk monitor.
Jan 03 10:00:01 node1 systemd[1]: Starting setup.service - Set up...
Jan 03 10:00:20 node1 {line}
Jan 03 10:00:31 node1 systemd[1]: setup.service: start operation timed out. Terminating.
Jan 03 10:00:31 node1 systemd[1]: setup.service: Failed with result 'timeout'.
Jan 03 10:00:31 node1 systemd[1]: Failed to start setup.service - Set up.
"""


@pytest.mark.parametrize(
    ("line", "is_likely"),
    [
        ("smartd[741]: Device: /dev/sdb [SAT], error: 8 Currently unreadable (pending) sectors", False),
        ("smartd[741]: fatal: Temporary failure in name resolution", False),
        ("smartd[741]: Error: setup cannot read /dev/sdb", True),
    ],
    ids=["labelled error", "known line", "names the service"],
)
def test_error_of_another_daemon_needs_a_connection(line: str, is_likely: bool, tmp_path: Path) -> None:
    assert ("points to" in analyze(TIMED_OUT.format(line=line), tmp_path)) is is_likely


def test_start_of_simple_service_is_found_by_name(tmp_path: Path) -> None:
    journal = """\
Jan 03 10:00:00 node1 systemd[1]: Started Quay Container.
Jan 03 10:00:01 node1 podman[3513]: Error: failed to mount shm tmpfs "/var/lib/shm": invalid argument
Jan 03 10:00:02 node1 systemd[1]: quay-app.service: Main process exited, code=exited, status=126/n/a
Jan 03 10:00:02 node1 systemd[1]: quay-app.service: Failed with result 'exit-code'.
"""
    assert "points to: podman: Error: failed to mount shm tmpfs" in analyze(journal, tmp_path)
    assert "points to" not in analyze(journal.replace("Quay", "Web"), tmp_path)


def test_run_begins_before_systemd_considers_it_started(tmp_path: Path) -> None:
    journal = """\
Jan 03 10:00:00 node1 systemd[1]: Starting chat.service - Chat...
Jan 03 10:00:01 node1 node[2032]: Listening on port 80
Jan 03 10:00:01 node1 systemd[1]: Started chat.service - Chat.
Jan 03 10:00:02 node1 node[2032]: Error: Cannot find module '/opt/main.js'
Jan 03 10:00:02 node1 systemd[1]: chat.service: Main process exited, code=exited, status=1/FAILURE
Jan 03 10:00:02 node1 systemd[1]: chat.service: Failed with result 'exit-code'.
"""
    assert "points to: node: Error: Cannot find module" in analyze(journal, tmp_path)


@pytest.mark.parametrize(
    "ended",
    ["", "Jan 03 10:00:02 node1 systemd[1]: mnt.mount: Mount process finished, but there is no mount.\n"],
    ids=["no reason", "reason"],
)
def test_mount_without_result_does_not_wait_to_be_ready(ended: str, tmp_path: Path) -> None:
    journal = f"""\
Jan 03 10:00:00 node1 systemd[1]: Mounting mnt.mount - /mnt...
Jan 03 10:00:01 node1 mount[2032]: Error: cannot connect to server gluster1
{ended}\
Jan 03 10:00:02 node1 systemd[1]: mnt.mount: Failed with result 'protocol'.
Jan 03 10:00:02 node1 systemd[1]: Failed to mount mnt.mount - /mnt.
"""
    assert analyze(journal, tmp_path) == (
        "✗ failed: mnt.mount: its mount program ended well, but nothing is mounted; points to: mount: "
        "Error: cannot connect to server gluster1"
    )


@pytest.mark.parametrize(
    ("before", "is_likely"),
    [
        ("", True),
        ("Jan 03 10:00:00 node1 smartd[741]: Error: cannot read /dev/sdb\n", False),
        ("Jan 03 10:00:00 node1 systemd[1]: Started web.service - Web.\n", False),
    ],
    ids=["alone", "another program", "another unit"],
)
def test_fragment_without_start_needs_one_program(before: str, is_likely: bool, tmp_path: Path) -> None:
    journal = f"""\
{before}Jan 03 10:00:01 node1 node[2032]: Error: Cannot find module '/opt/main.js'
Jan 03 10:00:02 node1 systemd[1]: chat.service: Main process exited, code=exited, status=1/FAILURE
Jan 03 10:00:02 node1 systemd[1]: chat.service: Failed with result 'exit-code'.
"""
    assert ("points to: node: Error: Cannot find module" in analyze(journal, tmp_path)) is is_likely


def test_boot_that_ends_in_the_emergency_shell_has_failed(tmp_path: Path) -> None:
    journal = """\
Jan 03 10:00:00 node1 systemd[1]: Starting dracut initqueue hook...
Jan 03 10:02:00 node1 dracut-initqueue[418]: Warning: /dev/mapper/root does not exist
Jan 03 10:02:01 node1 systemd[1]: {verb} Dracut Emergency Shell{end}
"""
    started = journal.format(verb="Starting", end="...")
    assert "failed: boot: a disk that is needed, /dev/mapper/root, is not there" in analyze(started, tmp_path)
    stopped = started + journal.splitlines()[-1].format(verb="Stopped", end=".") + "\n"
    assert "failed: boot" not in analyze(stopped, tmp_path)


def test_evidence_has_the_year_of_its_run(tmp_path: Path) -> None:
    begin = "-- Logs begin at Fri 2025-01-03 10:00:00 UTC, end at Sun 2026-03-01 10:00:00 UTC. --\n"
    failed = SCRIPT_FAILED.replace("bash[744]: {line}", "kernel: Out of memory: Killed process 744 (setup)")
    dates = [*(f"{month} 01" for month in calendar.month_abbr[2:]), "Jan 01", "Feb 01", "Mar 01"]
    later = "".join(f"{date} 10:00:00 node1 systemd[1]: Started cron.service - Cron.\n" for date in dates)
    answer = analyze(begin + failed + later, tmp_path)
    assert "failed: setup: memory ran out, and setup was killed" in answer

"""A round of the boot reporter as the unit runs it: what others see of it, and that nothing ends it badly."""

import gzip
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.assisted_installation import LOCAL_IGNITION, Host
from tests.assisted_server import AssistedServer, Says, Silence, local_server
from tests.programs import REPOSITORY
from tests.reporting_host import TOKEN, ReportingHost
from tests.running_server import nobody
from tests.waiting import wait_until_gone

ASK = "GET /v2/clusters/hosts"
TELL = "PUT /v2/infra-envs/hosts/progress"
UPLOAD = "POST /v2/clusters/logs"
DYING = REPOSITORY / "tests" / "dying"
STARTING = REPOSITORY / "tests" / "starting"


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with local_server() as server:
        yield server


@pytest.fixture
def installed(server: AssistedServer) -> Host:
    return server.rules.expect(TOKEN)


@pytest.fixture
def host(tmp_path: Path, server: AssistedServer, installed: Host) -> ReportingHost:
    return ReportingHost(tmp_path / "host", installed, server.url)


def members(bundle: bytes) -> dict[str, bytes]:
    """The files of a bundle, without the directory at its top."""
    with tarfile.open(fileobj=BytesIO(bundle)) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}


def test_a_fact_is_told_once(host: ReportingHost, server: AssistedServer) -> None:
    assert host.report().status == 0
    assert (host.installed.stage, host.installed.info) == ("Rebooting", LOCAL_IGNITION)
    assert server.calls() == [ASK, TELL, TELL]  # first as a stage, which this service has not
    assert host.report().status == 0
    assert server.calls()[3:] == [ASK]


def test_a_service_that_wants_to_be_left_alone_is_not_asked_by_the_next_round(
    host: ReportingHost, server: AssistedServer
) -> None:
    server.fail(Says(503, headers={"Retry-After": "1800"}), path="/hosts")
    assert host.report().status == 0
    assert host.report().status == 0
    assert server.calls() == [ASK]


def test_a_host_with_which_something_is_wrong_ships_what_explains_it_once(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    assert host.report().status == 0
    (bundle,) = server.rules.objects.values()
    found = members(bundle)
    assert next(iter(found)) == "verdict.txt"
    assert found["verdict.txt"].decode().startswith("✗ failed: bootkube in stage pull-image: ")
    assert {"bootstrap/services/bootkube.json", "manifest.json", "redaction.json"} <= set(found)
    assert TOKEN.encode() not in b"".join(found.values())
    assert host.installed.logs_info == "completed"
    assert host.spooled() == []
    calls = server.calls()
    assert host.report().status == 0
    assert server.calls()[len(calls) :] == [ASK]


def test_the_whole_round_reads_the_records_where_the_environment_says(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    host.places.at("/srv").mkdir()
    host.places.records.rename(host.places.at("/srv/records"))
    host.variables["SERVICE_RECORDS_DIR"] = "/srv/records"
    rehearsal = host.report("--dry-run")
    assert "verdict: failed: bootkube in stage pull-image: " in rehearsal.out
    assert host.report().status == 0
    (bundle,) = server.rules.objects.values()
    found = members(bundle)
    assert found["verdict.txt"].decode().startswith("✗ failed: bootkube in stage pull-image: ")
    assert "bootstrap/services/bootkube.json" in found


def test_the_console_has_the_verdict_and_whether_it_was_reported(host: ReportingHost) -> None:
    host.fail()
    host.report()
    first, *rest = host.places.issue.read_text().splitlines()
    assert first.startswith("service-record: failed: bootkube in stage pull-image: ")
    assert rest[-2] == "Log in: service-record analyze"


def test_what_nobody_takes_is_kept_and_shipped_by_a_later_round(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    url = nobody()
    host.settle(url)
    answer = host.report()
    assert answer.status == 0
    assert "Connection refused" in answer.err
    (spooled,) = host.spooled()
    assert "Not reported: " in host.places.issue.read_text()

    bundle = spooled.read_bytes()
    host.settle(server.url)
    assert host.report().status == 0
    assert list(server.rules.objects.values()) == [bundle]
    assert host.spooled() == []
    assert "Not reported" not in host.places.issue.read_text()


def test_a_bundle_that_the_disk_did_not_let_go_of_is_dropped_by_the_next_round(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    assert host.report().status == 0
    host.write(str(host.places.spool_directory.relative_to(host.places.root) / "log-bundle-left.tar.gz"))
    assert host.report().status == 0
    assert host.spooled() == []
    assert server.rules.events


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("frequency = 'often'", "reporter.toml:1: frequency: "),
        ("token = 'abc'", "reporter.toml:1: token: the token does not belong here"),
        ("[[[", "reporter.toml:1: not TOML"),
    ],
    ids=["value", "token", "no TOML"],
)
def test_a_bad_setting_is_one_line_and_the_rest_of_the_round_is_made(
    host: ReportingHost, server: AssistedServer, settings: str, line: str
) -> None:
    host.settle(server.url, settings)
    answer = host.report()
    assert answer.status == 0
    assert line in answer.err
    assert "Traceback" not in answer.err
    assert host.places.issue.exists()


def test_without_any_settings_there_is_a_verdict_on_the_console_and_lines_that_say_what_is_missing(
    host: ReportingHost,
) -> None:
    host.places.settings_file.unlink()
    host.places.credential_file.unlink()
    answer = host.report()
    assert answer.status == 0
    assert "no assisted_service.url; " in answer.err
    assert host.places.issue.exists()


def test_a_secret_that_would_leave_the_host_holds_the_bundle_back(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    host.write("/var/log/pods/a_b_c/d/0.log", gzip.compress(f"token {TOKEN}\n".encode()))
    answer = host.report()
    assert answer.status == 6
    assert "a secret would have left the host" in answer.err
    assert UPLOAD not in server.calls()
    assert host.spooled() == []
    assert not any(host.places.work_directory.glob("*"))
    assert host.report().status == 0, "it is not tried again"


def test_a_rehearsal_asks_and_does_nothing_else(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    before = host.files()
    answer = host.report("--dry-run")
    assert (answer.status, answer.err) == (0, "")
    assert "service: stage Rebooting" in answer.out
    assert f"told: {LOCAL_IGNITION}" in answer.out
    assert server.calls() == [ASK]
    assert host.files() == before


def test_when_no_round_is_due_nothing_is_said_asked_or_written(
    host: ReportingHost, server: AssistedServer
) -> None:
    assert host.report("--due", uptime=60).status == 0
    calls, state = server.calls(), host.places.state_file.stat().st_mtime_ns
    early = host.report("--due", uptime=400)
    assert (early.status, early.out, early.err) == (0, "", "")
    assert server.calls() == calls
    assert host.places.state_file.stat().st_mtime_ns == state
    assert host.report("--due", uptime=800).status == 0
    assert len(server.calls()) > len(calls)


def test_two_rounds_do_not_run_at_once(host: ReportingHost, server: AssistedServer) -> None:
    server.fail(Silence(), path="/hosts")
    with host.reporting():
        assert server.wait_for(1)
        answer = host.report()
    assert answer.status == 0
    assert "another round is running" in answer.err
    assert server.calls() == [ASK]


ends = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["stop", "Ctrl-C"])


@ends
def test_who_ends_a_round_while_it_ships_loses_nothing(
    host: ReportingHost, server: AssistedServer, number: signal.Signals
) -> None:
    host.fail()
    server.fail(Silence(), path="/logs")
    with host.reporting() as report:
        assert server.wait_for(4)  # the question, the fact, a look whether it can be reached, the upload
        os.killpg(report.pid, number)
        _, errors = report.communicate(timeout=60)
    assert b"Traceback" not in errors
    assert [path.name[:10] for path in host.spooled()] == ["log-bundle"]
    assert host.report().status == 0
    assert len(server.rules.objects) == 1


@ends
@pytest.mark.parametrize("seconds", [0, 1], ids=["", "as a thread starts"])
def test_who_ends_a_round_while_it_gathers_finds_nothing_left_of_it(
    host: ReportingHost, tmp_path: Path, number: signal.Signals, seconds: int
) -> None:
    host.fail()
    host.variables = {"PYTHONPATH": f"{STARTING}:{REPOSITORY}", "STARTS_FOR": str(seconds)}
    hanging = tmp_path / "hanging"
    os.mkfifo(hanging)
    host.write("/bin/ip", f'#!/bin/sh\necho $$ >"{hanging}"\nexec sleep 1000\n').chmod(0o755)
    with host.reporting() as report:
        pid = int(hanging.read_text().split()[0])
        os.killpg(report.pid, number)
        _, errors = report.communicate(timeout=60)
    assert b"Traceback" not in errors
    wait_until_gone(pid)
    assert not any(host.places.work_directory.glob("*"))
    assert host.spooled() == []


@pytest.mark.slow
def test_a_round_that_is_killed_at_any_step_is_made_good_by_the_next(
    tmp_path: Path, server: AssistedServer
) -> None:
    """Before each rename, which is how state, bundle and console get to their places."""
    kills = 0
    while True:
        kills += 1
        installed = server.rules.expect(TOKEN)
        host = ReportingHost(tmp_path / str(kills), installed, server.url)
        host.fail()
        host.variables = {"PYTHONPATH": f"{DYING}:{REPOSITORY}", "DIES_AT_RENAME": str(kills)}
        killed = host.report()
        host.variables = {}
        assert host.report().status == 0
        told = [event for event in server.rules.events if event.host_id == installed.id]
        assert len([event for event in told if LOCAL_IGNITION in event.message]) == 1
        assert len([event for event in told if event.name == "host_logs_uploaded"]) in {1, 2}
        assert host.spooled() == []
        assert not any(host.places.work_directory.glob("*"))
        assert not [name for name in host.files() if name.endswith(".new")]
        if killed.status == 0:
            break
    assert kills > 6


def test_on_a_full_disk_nothing_is_told_that_could_not_be_counted(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    host.places.state_directory.mkdir(parents=True)
    fill = """
    mount -t tmpfs -o size=64k tmpfs "$1" || exit 99
    head --bytes=1M /dev/zero >"$1/filler" 2>/dev/null
    shift; exec "$@"
    """
    before = ("unshare", "--mount", "sh", "-c", fill, "sh", str(host.places.state_directory))
    answer = host.report(before=before)
    if answer.status == 99:
        pytest.skip("this root may mount nothing, so no full disk can be had here")
    assert answer.status == 0
    assert "No space left on device; without it nothing is told or shipped" in answer.err
    assert server.calls() == [ASK]
    assert host.places.issue.exists()


@pytest.mark.parametrize("status", [301, 400, 503])
def test_a_service_that_says_something_else_is_told_nothing_and_tells_the_console(
    host: ReportingHost, server: AssistedServer, status: int
) -> None:
    server.fail(Says(status, b"<html><h1>no</h1></html>", {"Location": "/elsewhere"}), path="/hosts", times=9)
    answer = host.report()
    assert answer.status == 0
    assert TELL not in server.calls()
    assert f"Not reported: answered {status}" in host.places.issue.read_text()


@pytest.mark.parametrize("gone", ["token", "cluster"])
def test_a_service_that_does_not_know_the_host_ends_it_for_good(
    host: ReportingHost, server: AssistedServer, gone: str
) -> None:
    if gone == "token":
        server.rules.tokens.clear()
    else:
        server.rules.delete_cluster(host.installed.cluster_id or "")
    assert host.report().status == 0
    left = {name for name in host.files() if "service-record" in name or "reporter" in name}
    assert left == {"var/lib/service-record/reporter.stopped"}
    calls = server.calls()
    assert host.report().status == 0
    assert server.calls() == calls


def test_stopping_by_hand_leaves_the_tombstone_and_the_records(host: ReportingHost) -> None:
    host.fail()
    host.report()
    answer = host.report("--stop")
    assert answer.status == 0
    assert answer.err == f"stopped for good: {host.places.tombstone} stays, and the records\n"
    left = {name for name in host.files() if name != "etc/ignition-machine-config-encapsulated.json"}
    assert left == {"var/lib/service-record/reporter.stopped", "var/log/openshift/bootkube.json"}
    again = host.report("--dry-run")
    assert again.out.startswith("stopped for good: somebody told it to stop")


def test_certificates_beside_the_settings_go_with_them(host: ReportingHost, server: AssistedServer) -> None:
    ours = host.write("/etc/service-record/ca.pem")
    row = 'ca_bundle = "/etc/service-record/ca.pem"'
    host.settle(server.url)
    host.places.settings_file.write_text(f"{host.places.settings_file.read_text()}\n{row}\n")
    assert host.report("--stop").status == 0
    assert not ours.parent.exists()


def test_what_stopping_by_hand_cannot_remove_is_told(host: ReportingHost) -> None:
    pinned = host.write("/var/lib/service-record/spool/bundle.tar.gz")
    if subprocess.run(["chattr", "+i", pinned], check=False, capture_output=True).returncode != 0:
        pytest.skip("immutable files cannot be had here")
    try:
        answer = host.report("--stop")
    finally:
        subprocess.run(["chattr", "-i", pinned], check=True)
    assert answer.status == 75
    assert f"{host.places.spool_directory}: Operation not permitted; remove it by hand\n" in answer.err


@pytest.mark.parametrize("missing", ["httpx2", "stamina"])
def test_what_is_not_installed_is_one_line(tmp_path: Path, missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from service_record.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "report", "--root", tmp_path],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    advice = "pip install 'service-record[reporter]'"
    line = f"Error: the extra 'reporter' is needed, and {missing} is not installed: {advice}\n"
    assert (done.returncode, done.stderr) == (2, line)

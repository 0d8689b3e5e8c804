"""Whole rounds of the boot reporter, as the unit runs them, against a local assisted-service."""

import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from service_record.record.entry import Phase
from service_record.reporter.host_view import MAX_INFO_CHARACTERS
from service_record.reporter.policy.round_context import StageReport
from service_record.reporter.state import load
from tests.assisted_installation import LOCAL_IGNITION, Host
from tests.assisted_server import (
    AssistedServer,
    CannedResponse,
    EarlyResponse,
    NoResponse,
    create_server_with_tokens,
)
from tests.builders import entry, failed_run, require, write_lines
from tests.command_line import PROGRAM, service_record
from tests.programs import REPOSITORY
from tests.reporting_host import FULL_DISK, POINTER, READ_ONLY_DISK, TOKEN, ReportingHost
from tests.running_server import get_refused_url
from tests.torture.injection import find_tracing_obstacle
from tests.waiting import wait_for, wait_until_gone

GET_HOSTS = "GET /v2/clusters/hosts"
PUT_PROGRESS = "PUT /v2/infra-envs/hosts/progress"
POST_LOGS = "POST /v2/clusters/logs"
AT_ONCE = {"Retry-After": "0"}
"""For answers of 503: the next try does not wait."""
DYING = REPOSITORY / "tests" / "dying"
STARTING = REPOSITORY / "tests" / "starting"


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with create_server_with_tokens() as server:
        yield server


@pytest.fixture
def installed(server: AssistedServer) -> Host:
    return server.rules.add_rebooting_host(TOKEN)


@pytest.fixture
def host(tmp_path: Path, server: AssistedServer, installed: Host) -> ReportingHost:
    return ReportingHost(tmp_path / "host", installed, server.url)


def members(bundle: bytes) -> dict[str, bytes]:
    """Return the files of a bundle by path, without the top directory."""
    with tarfile.open(fileobj=BytesIO(bundle)) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}


def test_fact_is_reported_once(host: ReportingHost, server: AssistedServer) -> None:
    assert host.report().status == 0
    assert (host.installed.stage, host.installed.info) == ("Rebooting", LOCAL_IGNITION)
    assert server.calls()[:3] == [
        GET_HOSTS,
        PUT_PROGRESS,
        PUT_PROGRESS,
    ]  # first as a stage, which this service has not
    assert len(server.rules.objects) == 1, "the baseline of this boot"
    assert host.report().status == 0
    assert server.calls().count(PUT_PROGRESS) == 2


def test_retry_after_skips_the_next_round(host: ReportingHost, server: AssistedServer) -> None:
    server.fail(CannedResponse(503, headers={"Retry-After": "1800"}), path="/hosts")
    assert host.report().status == 0
    assert host.report().status == 0
    assert server.calls() == [GET_HOSTS]


def test_failing_host_ships_one_bundle(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    assert host.report().status == 0
    (bundle,) = server.rules.objects.values()
    found = members(bundle)
    assert next(iter(found)) == "verdict.txt"
    assert found["verdict.txt"].decode().startswith("✗ failed: bootkube in stage pull-image: ")
    assert {"bootstrap/services/bootkube.json", "manifest.json", "redaction.json"} <= set(found)
    assert TOKEN.encode() not in b"".join(found.values())
    assert host.installed.logs_info == "completed"
    assert host.installed.info.count("/usr/local/bin/job.sh:12") == 1
    assert host.list_spooled() == []
    calls = server.calls()
    assert host.report().status == 0
    assert server.calls()[len(calls) :] == [GET_HOSTS]


@pytest.fixture
def elsewhere(host: ReportingHost) -> Path:
    """Write a successful run to the default directory, and return another directory for records."""
    write_lines(host.places.records / "bootkube.json", entry(), entry(Phase.SERVICE_END, at=1000))
    host.variables["SERVICE_RECORDS_DIR"] = "/srv/records"
    path = host.places.at("/srv/records")
    path.mkdir(parents=True)
    return path


def test_round_uses_the_records_directory_of_the_environment(
    host: ReportingHost, server: AssistedServer, elsewhere: Path
) -> None:
    write_lines(elsewhere / "kubelet-setup.json", *failed_run("write-config"))
    assert host.report().status == 0
    verdict = "failed: kubelet-setup in stage write-config: "
    assert host.places.issue.read_text().startswith(f"service-record: {verdict}")
    (bundle,) = server.rules.objects.values()
    found = members(bundle)
    assert found["verdict.txt"].decode().startswith(f"✗ {verdict}")
    assert "bootstrap/services/kubelet-setup.json" in found
    assert "bootstrap/services/bootkube.json" not in found
    assert host.report("--due").status == 0
    assert len(server.rules.objects) == 1


def test_programs_use_the_directory_of_the_environment(
    host: ReportingHost, server: AssistedServer, elsewhere: Path
) -> None:
    """The exit helper gets the environment of the recorded unit, `follow` that of its caller."""
    surroundings = {
        **os.environ,
        "SERVICE_RECORDS_DIR": str(elsewhere),
        "SERVICE_NAME": "setup",
        "INVOCATION_ID": "ab" * 16,
    }
    shim = REPOSITORY / "shell" / "bootstrap-service-record.sh"
    script = f". {shim}; record_service_stage_start write-config; kill -KILL $$"
    subprocess.run(["bash", "-c", script], env=surroundings, check=False, capture_output=True)
    ended = {"SERVICE_RESULT": "signal", "EXIT_CODE": "killed", "EXIT_STATUS": "KILL"}
    helper = REPOSITORY / "shell" / "service-record-exit.sh"
    subprocess.run(["bash", str(helper)], env=surroundings | ended, check=True)
    assert [path.name for path in elsewhere.iterdir()] == ["setup.json"]
    follow = [*PROGRAM, "follow", "-o", "jsonl"]
    with subprocess.Popen(follow, env=surroundings, stdout=subprocess.PIPE) as followed:
        last = [require(followed.stdout).readline() for _ in range(4)][-1]
        followed.kill()
    assert json.loads(last)["signal"] == "KILL"
    assert "verdict: failed: setup in stage write-config: " in host.report("--dry-run").out
    assert host.report().status == 0
    (bundle,) = server.rules.objects.values()
    assert "bootstrap/services/setup.json" in members(bundle)


def test_show_and_analyze_name_the_kept_bundle(
    host: ReportingHost, server: AssistedServer, elsewhere: Path
) -> None:
    write_lines(elsewhere / "setup.json", *failed_run("write-config"))
    server.fail(CannedResponse(503, headers=AT_ONCE), times=99)
    host.report()
    assert host.report("--stop").status == 0
    (bundle,) = host.list_spooled()
    program = 'mount --bind "$1" /var/lib && shift && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", program, "sh", host.places.at("/var/lib"), *PROGRAM, "show"],
        env={**os.environ, "SERVICE_RECORDS_DIR": str(elsewhere)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("this root may mount nothing")
    assert f"not every destination has: /var/lib/service-record/spool/{bundle.name}; " in done.stderr


def test_console_shows_the_verdict_and_whether_it_was_reported(host: ReportingHost) -> None:
    host.fail()
    host.report()
    first, *rest = host.places.issue.read_text().splitlines()
    assert first.startswith("service-record: failed: bootkube in stage pull-image: ")
    assert rest[-2] == "Log in: service-record analyze"


def test_console_shows_no_secret(host: ReportingHost) -> None:
    """The text above the prompt can be read without logging in."""
    message = f"got 401 with X-Secret-Key: aB3dE9fG5iJkLmNoP and {TOKEN}"
    records = failed_run(error_message=message)
    host.write("/var/log/openshift/bootkube.json", "".join(f"{json.dumps(e.to_json())}\n" for e in records))
    host.report()
    shown = host.places.issue.read_text()
    assert "got 401" in shown
    assert "aB3dE9fG5iJkLmNoP" not in shown
    assert TOKEN not in shown


def test_stage_report_contains_no_text_of_a_record(host: ReportingHost, server: AssistedServer) -> None:
    records = failed_run("X-Secret-Key: aB3dE9fG5iJkLmNoP", error_message=f"got 401 with {TOKEN}")
    host.write("/var/log/openshift/bootkube.json", "".join(f"{json.dumps(e.to_json())}\n" for e in records))
    assert host.report().status == 0
    bodies = [entry.request.body for entry in server.journal if b"progress_info" in entry.request.body]
    assert bodies
    assert not [body for body in bodies if b"aB3dE9fG5iJkLmNoP" in body or TOKEN.encode() in body]


def test_undelivered_bundle_is_shipped_by_a_later_round(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    url = get_refused_url()
    host.write_settings(url)
    answer = host.report()
    assert answer.status == 0
    assert "Connection refused" in answer.err
    (spooled,) = host.list_spooled()
    assert "Not reported: " in host.places.issue.read_text()

    bundle = spooled.read_bytes()
    host.write_settings(server.url)
    assert host.report().status == 0
    assert list(server.rules.objects.values()) == [bundle]
    assert host.list_spooled() == []
    assert "Not reported" not in host.places.issue.read_text()


def test_next_round_retries_the_deletion_of_a_bundle(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    assert host.report().status == 0
    host.write(str(host.places.spool_directory.relative_to(host.places.root) / "log-bundle-left.tar.gz"))
    assert host.report().status == 0
    assert host.list_spooled() == []
    assert server.rules.events


PLACE = "Boot logs kept on the host: /var/lib/service-record/spool"
VOLATILE_PLACE = "Boot logs kept on the host until it reboots: /run/boot-reporter/spool"


@pytest.fixture
def with_agents_logs(host: ReportingHost, server: AssistedServer) -> dict[str, bytes]:
    """Simulate an upload of the agent, and return the host's files at the service."""
    host.installed.logs_info = "completed"
    name = f"{host.installed.cluster_id}/logs/{host.installed.id}/logs.tar.gz"
    server.rules.objects[name] = b"the agent's own"
    host.fail()
    return server.rules.objects.copy()


def test_agent_logs_are_kept_and_bundle_path_reported(
    host: ReportingHost, server: AssistedServer, with_agents_logs: dict[str, bytes]
) -> None:
    for uptime in (60, 660):
        assert host.report(uptime=uptime).status == 0
        assert server.rules.objects == with_agents_logs
        assert host.installed.info.startswith(f"{LOCAL_IGNITION}. failed: bootkube ")
        assert host.installed.info.endswith(f". {PLACE}")
        assert f"\n{PLACE}." in host.places.issue.read_text()
    (bundle,) = host.list_spooled()
    assert members(bundle.read_bytes())["verdict.txt"]
    reported = [event for event in server.rules.events if PLACE in event.message]
    assert len(reported) == 1
    assert server.calls().count(POST_LOGS) == 1, "host_boot was asked for once"
    assert server.calls()[-1] == GET_HOSTS


def test_bundle_path_is_reported_with_the_new_stage(
    host: ReportingHost, server: AssistedServer, with_agents_logs: dict[str, bytes]
) -> None:
    """On day two, sending an earlier stage again would end the installation."""
    server.rules.knows_boot_stages = True
    host.installed.kind = "AddToExistingClusterHost"
    assert host.report().status == 0
    assert host.installed.stage == LOCAL_IGNITION
    assert host.installed.info.startswith("failed: bootkube ")
    assert host.installed.info.endswith(f". {PLACE}")
    assert server.rules.objects == with_agents_logs


def test_long_verdict_keeps_the_bundle_path() -> None:
    words = StageReport(fact="verdict", stage="Rebooting", info=LOCAL_IGNITION, place=PLACE).words(
        "failed: " + "x" * 5000
    )
    assert len(words) == MAX_INFO_CHARACTERS
    assert words.startswith(f"{LOCAL_IGNITION}. failed: x")
    assert words.endswith(PLACE)


def test_host_logs_overwrite_replaces_the_agent_logs(
    host: ReportingHost, server: AssistedServer, with_agents_logs: dict[str, bytes]
) -> None:
    host.write_settings(server.url, 'host_logs = "overwrite"')
    assert host.report().status == 0
    (name,) = with_agents_logs
    assert members(server.rules.objects[name])["verdict.txt"]
    assert host.list_spooled() == []
    assert host.installed.info.startswith(f"{LOCAL_IGNITION}. failed: bootkube ")
    assert host.installed.info.endswith(". Boot logs are among the logs of this host")


def test_bundle_goes_to_other_destinations_if_agent_logs_exist(
    host: ReportingHost, server: AssistedServer, tmp_path: Path, with_agents_logs: dict[str, bytes]
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    host.write_settings(server.url, f'ship_to = ["{share}"]')
    assert host.report().status == 0
    host.installed.status = "installed"
    answer = host.report(uptime=660)
    (bundle,) = host.list_spooled()
    assert f"{bundle} stays: not every destination has it; remove it with: " in answer.err
    assert [path.read_bytes() for path in share.iterdir()] == [bundle.read_bytes()]
    assert server.rules.objects == with_agents_logs
    assert not host.places.credential_file.exists()


def test_send_always_ships_healthy_host_in_each_round(host: ReportingHost, server: AssistedServer) -> None:
    host.write_settings(server.url, 'send = "always"')
    for number in range(3):
        assert host.report(uptime=60 + 600 * number).status == 0
        events = [event for event in server.rules.events if event.name == "host_logs_uploaded"]
        assert len(events) == number + 1
    (bundle,) = server.rules.objects.values()
    assert gzip.decompress(bundle)


@pytest.mark.parametrize("name", ["spool", "work", "reporter.json"])
@pytest.mark.parametrize("is_link", [True, False], ids=["link", "another kind"])
def test_foreign_files_in_place_of_ours_are_reported(
    host: ReportingHost, server: AssistedServer, tmp_path: Path, name: str, is_link: bool
) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "log-bundle-1.tar.gz").parent.mkdir()
    (theirs / "log-bundle-1.tar.gz").write_text("not ours")
    place = host.places.state_directory / name
    place.parent.mkdir(parents=True)
    if is_link:
        place.symlink_to(theirs)
    elif name == "reporter.json":
        place.mkdir()
    else:
        place.write_text("a file")
    host.fail()
    answer = host.report(uptime=3000)
    assert answer.status == 0
    assert f"{place}: " in answer.err
    assert len(server.rules.objects) == 1
    assert (theirs / "log-bundle-1.tar.gz").read_text() == "not ours"
    assert "moved to" not in host.report(uptime=3001).err


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("frequency = 'often'", "reporter.toml:1: frequency: "),
        ("token = 'abc'", "reporter.toml:1: token: the token does not belong here"),
        ("[[[", "reporter.toml:1: not TOML"),
    ],
    ids=["value", "token", "no TOML"],
)
def test_bad_setting_is_one_line_and_the_round_continues(
    host: ReportingHost, server: AssistedServer, settings: str, line: str
) -> None:
    host.write_settings(server.url, settings)
    answer = host.report()
    assert answer.status == 0
    assert line in answer.err
    assert "Traceback" not in answer.err
    assert host.places.issue.exists()


def test_round_without_settings_lists_missing_ones(
    host: ReportingHost,
) -> None:
    host.places.settings_file.unlink()
    host.places.credential_file.unlink()
    answer = host.report()
    assert answer.status == 0
    assert "no assisted_service.url; " in answer.err
    assert host.places.issue.exists()


def test_bundle_with_a_secret_is_not_shipped(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    host.write("/var/log/pods/a_b_c/d/0.log", gzip.compress(f"token {TOKEN}\n".encode()))
    answer = host.report()
    assert answer.status == 6
    assert "a secret would have left the host" in answer.err
    assert POST_LOGS not in server.calls()
    assert host.list_spooled() == []
    assert not any(host.places.work_directory.glob("*"))
    assert host.report().status == 0, "it is not tried again"


def test_dry_run_only_queries_the_service(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    before = host.files()
    answer = host.report("--dry-run")
    assert (answer.status, answer.err) == (0, "")
    assert "service: stage Rebooting" in answer.out
    assert f"reported: {LOCAL_IGNITION}" in answer.out
    assert server.calls() == [GET_HOSTS]
    assert host.files() == before


def test_round_that_is_not_due_does_nothing(host: ReportingHost, server: AssistedServer) -> None:
    assert host.report("--due", uptime=60).status == 0
    calls, state = server.calls(), host.places.state_file.stat().st_mtime_ns
    early = host.report("--due", uptime=400)
    assert (early.status, early.out, early.err) == (0, "", "")
    assert server.calls() == calls
    assert host.places.state_file.stat().st_mtime_ns == state
    assert host.report("--due", uptime=800).status == 0
    assert len(server.calls()) > len(calls)


@pytest.mark.parametrize("text", ["Bearer {}", "{}\nmore", "", "a {}"])
def test_malformed_token_prevents_all_calls(
    host: ReportingHost, server: AssistedServer, tmp_path: Path, text: str
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    host.fail()
    host.write_settings(server.url, f'ship_to = ["{share}"]')
    host.write("/etc/service-record/token", text.format(TOKEN)).chmod(0o600)
    answer = host.report()
    assert answer.status == 0
    assert f"{host.places.credential_file}:1: " in answer.err
    assert "the assisted-service is sent nothing" in answer.err
    assert server.calls() == []
    assert len(list(share.iterdir())) == 1
    assert "Not reported: the token is unusable" in host.places.issue.read_text()
    host.write("/etc/service-record/token", TOKEN).chmod(0o600)
    assert host.report().status == 0
    assert len(server.rules.objects) == 1


def test_rounds_exclude_each_other(host: ReportingHost, server: AssistedServer) -> None:
    server.fail(NoResponse(), path="/hosts")
    with host.start_report():
        assert server.wait_for(1)
        answer = host.report()
    assert answer.status == 0
    assert "another round is running" in answer.err
    assert server.calls() == [GET_HOSTS]


ends = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["stop", "Ctrl-C"])


@ends
def test_round_that_is_ended_while_shipping_loses_nothing(
    host: ReportingHost, server: AssistedServer, number: signal.Signals
) -> None:
    host.fail()
    server.fail(NoResponse(), path="/logs")
    with host.start_report() as report:
        wait_for(lambda: POST_LOGS in server.calls())
        os.killpg(report.pid, number)
        _, errors = report.communicate(timeout=60)
    assert b"Traceback" not in errors
    assert [path.name[:10] for path in host.list_spooled()] == ["log-bundle"]
    assert host.report().status == 0
    assert len(server.rules.objects) == 1


@ends
@pytest.mark.parametrize("seconds", [0, 1], ids=["", "as a thread starts"])
def test_round_that_is_ended_while_gathering_leaves_nothing(
    host: ReportingHost, tmp_path: Path, number: signal.Signals, seconds: int
) -> None:
    host.fail()
    host.variables = {"PYTHONPATH": f"{STARTING}:{REPOSITORY}", "STARTS_FOR": str(seconds)}
    hanging = tmp_path / "hanging"
    os.mkfifo(hanging)
    host.write("/bin/ip", f'#!/bin/sh\necho $$ >"{hanging}"\nexec sleep 1000\n').chmod(0o755)
    with host.start_report() as report:
        pid = int(hanging.read_text().split()[0])
        os.killpg(report.pid, number)
        _, errors = report.communicate(timeout=60)
    assert b"Traceback" not in errors
    wait_until_gone(pid)
    assert not any(host.places.work_directory.glob("*"))
    assert host.list_spooled() == []


@pytest.mark.slow
def test_next_round_completes_a_round_killed_at_any_step(tmp_path: Path, server: AssistedServer) -> None:
    """Kill the round before each rename: state, bundle and console files are put in place by renaming."""
    kills = 0
    while True:
        kills += 1
        installed = server.rules.add_rebooting_host(TOKEN)
        host = ReportingHost(tmp_path / str(kills), installed, server.url)
        host.fail()
        host.variables = {"PYTHONPATH": f"{DYING}:{REPOSITORY}", "DIES_AT_RENAME": str(kills)}
        killed = host.report()
        host.variables = {}
        assert host.report().status == 0
        events_of_host = [event for event in server.rules.events if event.host_id == installed.id]
        assert len([event for event in events_of_host if event.message.endswith(LOCAL_IGNITION)]) == 1
        assert len([event for event in events_of_host if f"{LOCAL_IGNITION}. failed: " in event.message]) in {
            1,
            2,
        }
        assert len([event for event in events_of_host if event.name == "host_logs_uploaded"]) in {1, 2}
        assert host.list_spooled() == []
        assert not any(host.places.work_directory.glob("*"))
        assert not [name for name in host.files() if name.endswith(".new")]
        if killed.status == 0:
            break
    assert kills > 6


@pytest.mark.parametrize("disk", [FULL_DISK, READ_ONLY_DISK], ids=["full", "read-only"])
def test_host_without_disk_space_reports_and_ships_from_memory(
    host: ReportingHost, server: AssistedServer, tmp_path: Path, disk: str
) -> None:
    host.fail()
    share = tmp_path / "share"
    share.mkdir()
    host.write_settings(server.url, f'ship_to = ["{share}"]')
    host.places.state_directory.mkdir(parents=True)
    before = ("unshare", "--mount", "sh", "-c", disk, "sh", str(host.places.state_directory))
    answer = host.report(before=before)
    if answer.status == 99:
        pytest.skip("this root may mount nothing")
    assert answer.status == 0
    (bundle,) = server.rules.objects.values()
    assert members(bundle)["verdict.txt"]
    assert [path.read_bytes() for path in share.iterdir()] == [bundle]
    assert host.installed.info.startswith(f"{LOCAL_IGNITION}. failed: bootkube ")
    assert host.places.issue.exists()
    calls = server.calls()
    assert host.report(uptime=660, before=before).status == 0
    assert server.calls()[len(calls) :] == [GET_HOSTS], "the state in memory counts"

    assert host.report(uptime=1260).status == 0, "there is space again"
    assert server.calls()[len(calls) :] == [GET_HOSTS, GET_HOSTS]
    assert host.places.state_file.exists()
    assert not host.places.volatile.state_file.exists()


def test_nothing_is_reported_if_the_state_cannot_be_saved(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    host.places.state_directory.mkdir(parents=True)
    host.places.volatile.state_directory.mkdir(parents=True)
    both = f"""
    mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99
    mount --bind "{host.places.volatile.state_directory}" "$1" && mount -o remount,bind,ro "$1" || exit 99
    mount --bind "$1" "{host.places.volatile.state_directory}" || exit 99
    mount -o remount,bind,ro "{host.places.volatile.state_directory}" || exit 99
    shift; exec "$@"
    """
    before = ("unshare", "--mount", "sh", "-c", both, "sh", str(host.places.state_directory))
    answer = host.report(before=before)
    if answer.status == 99:
        pytest.skip("this root may mount nothing")
    assert answer.status == 0
    assert "the state cannot be saved, so nothing is reported or shipped" in answer.err
    assert server.calls() == [GET_HOSTS]


def test_unreadable_state_is_kept_for_the_next_round(host: ReportingHost, server: AssistedServer) -> None:
    if why := find_tracing_obstacle():
        pytest.skip(why)
    host.fail()
    host.report()
    kept, calls = host.places.state_file.read_bytes(), server.calls()
    unreadable = ("strace", "-f", "-o", os.devnull, "-P", str(host.places.state_file))
    answer = host.report(uptime=700, before=(*unreadable, "-e", "inject=openat:error=EIO"))
    assert answer.status == 0
    assert (
        f"{host.places.state_file}: Input/output error; without it nothing is reported or shipped"
        in answer.err
    )
    assert host.places.state_file.read_bytes() == kept
    assert host.report(uptime=700).status == 0
    assert server.calls()[len(calls) :] == [GET_HOSTS, GET_HOSTS]


@pytest.mark.parametrize("status", [301, 400, 503])
def test_unusable_view_is_shown_and_prevents_reports(
    host: ReportingHost, server: AssistedServer, status: int
) -> None:
    server.fail(
        CannedResponse(status, b"<html><h1>no</h1></html>", AT_ONCE | {"Location": "/elsewhere"}),
        path="/hosts",
        times=9,
    )
    answer = host.report()
    assert answer.status == 0
    assert PUT_PROGRESS not in server.calls()
    assert f"Not reported: answered {status}" in host.places.issue.read_text()


@pytest.mark.parametrize(
    "kind", ["file", "pipe", "link to a file", "link to nothing", "link to itself", "link to a directory"]
)
def test_foreign_file_in_place_of_directory_is_reported(
    host: ReportingHost, server: AssistedServer, tmp_path: Path, kind: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir() if kind.endswith("directory") else theirs.write_text("not ours")
    place = host.places.state_directory
    place.parent.mkdir(parents=True)
    match kind:
        case "file":
            place.write_text("a file")
        case "pipe":
            os.mkfifo(place)
        case _:
            place.symlink_to({"link to nothing": Path("nowhere"), "link to itself": place}.get(kind, theirs))
    host.fail()
    answer = host.report()
    assert answer.status == 0
    message = f"{place}: not a directory; moved to {place}.damaged"
    assert (message in answer.err) is not theirs.is_dir()
    assert len(server.rules.objects) == 1
    assert host.places.state_file.is_file()
    assert theirs.is_dir() or theirs.read_text() == "not ours"


@pytest.mark.parametrize("name", ["spool", "work", ".reporter.json.new"])
def test_directory_of_another_owner_is_not_used(
    host: ReportingHost, server: AssistedServer, name: str
) -> None:
    """The owner of a directory can read and replace the files in it."""
    place = host.places.state_directory / name
    place.parent.mkdir(parents=True)
    if name.endswith("new"):
        place.write_text("theirs")
    else:
        place.mkdir()
        (place / "log-bundle-1.tar.gz").write_text("theirs")
    os.chown(place, 65534, 65534)
    host.fail()
    server.fail(CannedResponse(503, headers=AT_ONCE), path="/logs", times=99)
    assert host.report().status == 0
    assert host.places.state_file.stat().st_uid == 0
    (bundle,) = host.list_spooled()
    assert (bundle.parent.stat().st_uid, bundle.stat().st_uid) == (0, 0)
    aside = place.with_name(f"{name}.damaged")
    assert (aside.read_text() if aside.is_file() else (aside / "log-bundle-1.tar.gz").read_text()) == "theirs"


@pytest.mark.parametrize("name", ["reporter.stopped", "reporter.lock"])
def test_round_succeeds_whatever_is_in_place_of_its_files(host: ReportingHost, name: str) -> None:
    (host.places.state_directory / name).mkdir(parents=True)
    for arguments in ((), ("--due",), ("--dry-run",)):
        answer = host.report(*arguments)
        assert answer.status == 0, answer.err
        assert "Traceback" not in answer.err


@pytest.mark.parametrize("content", ["{", None], ids=["damaged", "a directory"])
def test_dry_run_moves_nothing(host: ReportingHost, content: str | None) -> None:
    host.places.state_directory.mkdir(parents=True)
    if content is None:
        host.places.state_file.mkdir()
    else:
        host.places.state_file.write_text(content)
    before = sorted(host.places.state_directory.iterdir())
    assert host.report("--dry-run").status == 0
    assert sorted(host.places.state_directory.iterdir()) == before


def test_service_without_its_database_costs_no_budget(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    server.rules.is_database_down = True
    for uptime in (60, 660):
        assert "it refuses our token: 401 infraEnv" in host.report(uptime=uptime).err
    assert not server.rules.objects
    server.rules.is_database_down = False
    assert host.report(uptime=1260).status == 0
    assert len(server.rules.objects) == 1
    assert host.installed.info.startswith(f"{LOCAL_IGNITION}. failed: bootkube ")
    state = load(host.places.state_file)
    assert (state.denial, state.usage_at("assisted-service").uploads) == (None, 1)


def test_outage_of_fifteen_minutes_costs_no_budget(host: ReportingHost, server: AssistedServer) -> None:
    host.write_settings(server.url, 'frequency = "5m"')
    host.fail()
    server.rules.knows_host_boot = True
    server.fail(EarlyResponse(503, headers=AT_ONCE), path="/logs", times=8)
    assert host.report(uptime=60).status == 0
    server.fail(CannedResponse(503, headers=AT_ONCE), path="/logs", times=99)
    for uptime in (360, 660, 960):
        assert host.report(uptime=uptime).status == 0
    assert load(host.places.state_file).usage_at("assisted-service").uploads == 0
    server.clear_faults()
    assert host.report(uptime=1260).status == 0
    assert load(host.places.state_file).usage_at("assisted-service").uploads == 1


DENIED = {"code": "404", "href": "", "id": 404, "kind": "Error", "reason": "cluster was not found"}
PAGE = b"<html><title>Log in to this network</title></html>"
STOPS_IN_ONE, STOPS_IN_FOUR, GOES_ON = "one round", "three rounds over 30 minutes", "always"
LIFETIME, TIME_LIMIT = "until `lifetime`", "until `time_limit`"


def _prepare_answer(server: AssistedServer, host: ReportingHost, answer: str) -> None:  # noqa: C901, PLR0912
    """Prepare server and host for the answer in a row of the table."""
    match answer:
        case "the host is installed":
            host.installed.status = "installed"
        case "the host is installed, and an earlier bundle is undelivered":
            server.fail(CannedResponse(503, headers=AT_ONCE), path="/logs", times=99)
            assert host.report(uptime=30).status == 0
            (host.places.records / "bootkube.json").unlink()
            host.installed.status = "installed"
        case "401 in the service's form" | "401 in the service's form, and nothing is wrong":
            server.rules.tokens.clear()
        case "403 in the service's form":
            server.fail(CannedResponse(403, b'{"code": 403, "message": "no"}'), path="/hosts", times=99)
        case "404 in the service's form":
            server.fail(CannedResponse(404, json.dumps(DENIED).encode()), path="/hosts", times=99)
        case "a list without this host":
            server.rules.delete_cluster(host.installed.cluster_id or "")
        case "401, 403 or 404 in another form":
            for status in (401, 403, 404, 401):
                server.fail(CannedResponse(status, PAGE), path="/hosts")
        case "a page of a portal":
            server.fail(CannedResponse(200, PAGE), path="/hosts", times=99)
        case "503":
            server.fail(CannedResponse(503, headers={"Retry-After": "60"}), path="/hosts", times=99)
        case "the host failed or was cancelled":
            host.installed.status = "error"
        case "no answer":
            host.write_settings(get_refused_url(), 'lifetime = "1m"')
        case "any, in the first boot":
            host.write_settings(server.url, 'time_limit = "1m"')
            server.fail(CannedResponse(503, headers=AT_ONCE), times=99)
        case "503, in the last expected boot" | "any, in the last boot, and the bundle is delivered":
            host.write(f"{POINTER}.bak")
            host.places.at(POINTER).unlink()
            host.write("/var/lib/kubelet/cpu_manager_state")
            host.write_settings(server.url, 'time_limit = "1m"')
            if answer.startswith("503"):
                server.fail(CannedResponse(503, headers=AT_ONCE), times=99)
        case "any, and the bundle is delivered":
            host.write_settings(server.url, 'lifetime = "1m"')
        case "any, and the service has the agent's logs":
            host.installed.logs_info = "completed"
            host.write_settings(server.url, 'lifetime = "1m"')


STOPS = {
    "the host is installed": (STOPS_IN_ONE, "stops", "nothing"),
    "the host is installed, and an earlier bundle is undelivered": (
        STOPS_IN_ONE,
        "stops",
        "an undelivered bundle, the console",
    ),
    "401 in the service's form, and nothing is wrong": (STOPS_IN_FOUR, "stops", "nothing"),
    "401 in the service's form": (STOPS_IN_FOUR, "waits for the next boot", "everything"),
    "403 in the service's form": (STOPS_IN_FOUR, "waits for the next boot", "everything"),
    "404 in the service's form": (STOPS_IN_FOUR, "waits for the next boot", "everything"),
    "a list without this host": (STOPS_IN_FOUR, "waits for the next boot", "everything"),
    "401, 403 or 404 in another form": (GOES_ON, "continues", "everything"),
    "a page of a portal": (GOES_ON, "continues", "everything"),
    "503": (GOES_ON, "continues", "everything"),
    "the host failed or was cancelled": (GOES_ON, "continues, and ships", "everything"),
    "any, in the first boot": (TIME_LIMIT, "waits for the next boot", "everything"),
    "503, in the last expected boot": (TIME_LIMIT, "waits for the service", "everything"),
    "any, in the last boot, and the bundle is delivered": (TIME_LIMIT, "stops", "nothing"),
    "no answer": (LIFETIME, "stops", "an undelivered bundle, the console"),
    "any, and the bundle is delivered": (LIFETIME, "stops", "nothing"),
    "any, and the service has the agent's logs": (LIFETIME, "stops", "an undelivered bundle, the console"),
}


@pytest.mark.parametrize("answer", STOPS)
def test_reporter_stops_as_documented(host: ReportingHost, server: AssistedServer, answer: str) -> None:
    how_long, what, is_kept = STOPS[answer]
    if answer not in {"the host is installed", "401 in the service's form, and nothing is wrong"}:
        host.fail()
    _prepare_answer(server, host, answer)
    rounds = [60, 660, 1260, 1900] if how_long in {STOPS_IN_FOUR, GOES_ON} else [60]
    for uptime in rounds:
        assert not host.places.tombstone.exists()
        assert host.report(uptime=uptime).status == 0
    assert host.places.tombstone.exists() is (what == "stops")
    assert host.places.credential_file.exists() is (what != "stops")
    assert host.places.state_file.exists() is (what != "stops")
    assert len(host.list_spooled()) == (0 if is_kept == "nothing" or "ships" in what else 1)
    assert host.places.issue.exists() is (is_kept != "nothing")
    calls = server.calls()
    assert host.report(uptime=rounds[-1]).status == 0
    assert what != "stops" or server.calls() == calls


def test_stop_table_is_documented() -> None:
    text = (REPOSITORY / "docs/boot-reporter-rules.md").read_text()
    rows = text.partition("| answer | how long | what happens | what is kept |\n|---|---|---|---|\n")[2]
    expected = "".join(f"| {answer} | {' | '.join(row)} |\n" for answer, row in STOPS.items())
    assert rows.startswith(f"{expected}\n")


def test_manual_stop_keeps_tombstone_and_records(host: ReportingHost) -> None:
    host.fail()
    host.report()
    answer = host.report("--stop")
    assert answer.status == 0
    assert answer.err == f"stopped permanently: {host.places.tombstone} stays, and the records\n"
    left = {name for name in host.files() if name != "etc/ignition-machine-config-encapsulated.json"}
    assert left == {"var/lib/service-record/reporter.stopped", "var/log/openshift/bootkube.json"}
    again = host.report("--dry-run")
    assert again.out.startswith("stopped permanently: by hand (report --stop)")


def test_undelivered_bundle_is_kept_and_reported_until_purged(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    host.write_settings(server.url, 'lifetime = "1m"')
    server.rules.tokens.clear()
    errors = host.report().err
    (bundle,) = host.list_spooled()
    assert f"{bundle} stays: not every destination has it; remove it with: " in errors
    assert members(bundle.read_bytes())["verdict.txt"]
    assert PLACE in host.places.issue.read_text()
    assert not host.places.credential_file.exists()
    assert not host.places.settings_file.exists()
    for verb in ("show", "analyze"):
        answer = service_record(verb, "--from", str(host.places.records))
        (note,) = [line for line in answer.err.splitlines() if line.startswith("Note: ")]
        assert str(bundle) in note
        assert note.endswith("remove it: service-record report --stop --purge")
    assert host.report("--stop").status == 0
    assert host.list_spooled() == [bundle]
    assert host.report("--stop", "--purge").status == 0
    left = {name for name in host.files() if "service-record" in name or "reporter" in name}
    assert left == {"var/lib/service-record/reporter.stopped"}
    assert "Note" not in service_record("show", "--from", str(host.places.records)).err


def test_denied_bundle_goes_elsewhere_and_later_to_service(
    host: ReportingHost, server: AssistedServer, tmp_path: Path
) -> None:
    share = tmp_path / "share"
    host.write_settings(server.url, f'ship_to = ["{share}"]')
    tokens = dict(server.rules.tokens)
    server.rules.tokens.clear()
    host.fail()
    for uptime in (60, 660, 1260):
        assert host.report(uptime=uptime).status == 0
    share.mkdir()
    assert host.report(uptime=1900).status == 0
    assert len(list(share.iterdir())) == 1
    server.rules.tokens.update(tokens)
    host.report(uptime=3700)
    assert "failed: bootkube" in host.installed.info


def test_manual_stop_keeps_and_reports_an_undelivered_bundle(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    server.fail(CannedResponse(503, headers=AT_ONCE), times=99)
    host.report()
    (bundle,) = host.list_spooled()
    answer = host.report("--stop")
    assert answer.status == 0
    assert f"{bundle} stays: not every destination has it" in answer.err
    assert host.list_spooled() == [bundle]
    assert host.places.issue.exists()
    assert host.report("--stop", "--purge").status == 0
    assert host.list_spooled() == []
    assert not host.places.issue.exists()


@pytest.mark.parametrize("disk", [FULL_DISK, READ_ONLY_DISK], ids=["full", "read-only"])
def test_manual_stop_keeps_an_undelivered_bundle_in_memory(
    host: ReportingHost, server: AssistedServer, disk: str
) -> None:
    host.fail()
    host.places.state_directory.mkdir(parents=True)
    server.fail(CannedResponse(503, headers=AT_ONCE), times=99)
    before = ("unshare", "--mount", "sh", "-c", disk, "sh", str(host.places.state_directory))
    if host.report(before=before).status == 99:
        pytest.skip("this root may mount nothing")
    memory = host.places.volatile
    (bundle,) = memory.spool_directory.iterdir()
    answer = host.report("--stop", before=before)
    assert f"{bundle} stays until this host reboots: not every destination has it" in answer.err
    assert f"{host.places.tombstone}: " in answer.err, "the tombstone cannot be written"
    assert bundle.exists()
    answer = host.report("--stop")
    assert answer.status == 0, "there is space again"
    assert f"{bundle} stays until this host reboots: " in answer.err
    assert bundle.exists()
    note = service_record("show", "--from", str(host.places.records)).err
    assert str(bundle) in note
    assert host.report("--stop", "--purge").status == 0
    assert not memory.state_directory.exists()


def test_automatic_stop_logs_an_undelivered_bundle_in_memory(
    host: ReportingHost, server: AssistedServer
) -> None:
    host.fail()
    host.write_settings(server.url, 'lifetime = "1m"')
    host.places.state_directory.mkdir(parents=True)
    server.rules.tokens.clear()
    before = ("unshare", "--mount", "sh", "-c", FULL_DISK, "sh", str(host.places.state_directory))
    answer = host.report(before=before)
    if answer.status == 99:
        pytest.skip("this root may mount nothing")
    (bundle,) = host.places.volatile.spool_directory.iterdir()
    assert f"{bundle} stays until this host reboots: not every destination has it" in answer.err
    assert VOLATILE_PLACE in host.places.issue.read_text()


def test_manual_stop_with_purge_keeps_nothing(host: ReportingHost, server: AssistedServer) -> None:
    host.fail()
    host.write_settings(server.url, 'keep_after = ["spool"]')
    server.fail(CannedResponse(503, headers=AT_ONCE), times=99)
    host.report()
    assert host.report("--stop", "--purge").status == 0
    assert (host.list_spooled(), host.places.issue.exists()) == ([], False)


def test_ca_bundle_beside_the_settings_is_removed_with_them(
    host: ReportingHost, server: AssistedServer
) -> None:
    ours = host.write("/etc/service-record/ca.pem")
    row = 'ca_bundle = "/etc/service-record/ca.pem"'
    host.write_settings(server.url)
    host.places.settings_file.write_text(f"{host.places.settings_file.read_text()}\n{row}\n")
    assert host.report("--stop").status == 0
    assert not ours.parent.exists()


def test_manual_stop_reports_failed_removals(host: ReportingHost) -> None:
    pinned = host.write("/var/lib/service-record/spool/bundle.tar.gz")
    if subprocess.run(["chattr", "+i", pinned], check=False, capture_output=True).returncode != 0:
        pytest.skip("immutable files cannot be had here")
    try:
        answer = host.report("--stop", "--purge")
    finally:
        subprocess.run(["chattr", "-i", pinned], check=True)
    assert answer.status == 75
    assert f"{host.places.spool_directory}: Operation not permitted; remove it by hand\n" in answer.err


@pytest.mark.parametrize("missing", ["httpx2", "stamina"])
def test_missing_library_is_reported_in_one_line(tmp_path: Path, missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from service_record.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "report", "--root", tmp_path],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    advice = f"{sys.executable} -m pip install 'service-record[reporter]'"
    line = f"Error: the extra 'reporter' is needed, and {missing} is not installed: {advice}\n"
    assert (done.returncode, done.stderr) == (2, line)

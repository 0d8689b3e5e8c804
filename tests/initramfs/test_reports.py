"""Reports of the initramfs to each kind of server, by each shell and client, without a boot."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service_record.deploy.delivered import source
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.programs import skip_without

CLUSTER, HOST_ID = "11111111-2222-4333-8444-555555555555", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
STARTING, NOT_STARTED = "7d4958e842da4a758f6c1cdc7b36dcc5", "be02cf6855d2428ba40df7e9d022f03d"
EXITED, ENDED_BADLY = "98e322203f7a4ed290d09fe03c09fe15", "d9b373ed55a64feb8242e02dbe79a49c"
STARTED = "39f53479d3a045ac8e11786248231fbf"
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}
LOGGED = 'GET "https://user:s3cr3t@h/?token=abc": \\ no such host'


def event(seconds: int, kind: str, unit: str, **fields: str) -> str:
    """Return a message of systemd as `journalctl --output=export` prints it."""
    lines = {
        "__REALTIME_TIMESTAMP": str(1_795_900_000_000_000 + seconds * 1_000_000),
        "__MONOTONIC_TIMESTAMP": str(seconds * 1_000_000),
        "MESSAGE_ID": kind,
        "UNIT": unit,
        "INVOCATION_ID": f"{len(unit):032x}",
    }
    return "".join(f"{name}={value}\n" for name, value in {**lines, **fields}.items()) + "\n"


EVENTS = (
    event(1, STARTING, "systemd-fsck@dev-disk\\x2dby.service"),
    event(2, STARTED, "systemd-fsck@dev-disk\\x2dby.service", JOB_RESULT="done"),
    event(3, STARTING, "ignition-fetch.service"),
    event(4, EXITED, "ignition-fetch.service", EXIT_CODE="exited", EXIT_STATUS="1"),
    event(5, ENDED_BADLY, "ignition-fetch.service", UNIT_RESULT="exit-code"),
    event(5, NOT_STARTED, "ignition-fetch.service", JOB_RESULT="failed"),
    event(6, NOT_STARTED, "sysroot.mount", JOB_RESULT="dependency"),
)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with run_collector(make_collector_settings(tmp_path / "collector")) as running:
        yield running


class Initramfs:
    """The script with its directories below one of the test's, and a journal of its own."""

    def __init__(self, root: Path, shell: str, client: str) -> None:
        for program in (SHELLS[shell][0], client):
            skip_without(program)
        self.root = root
        self.command = [*SHELLS[shell], str(root / "script.sh")]
        programs = root / "bin"
        for directory in ("bin", "run/systemd/system", "etc"):
            (root / directory).mkdir(parents=True)
        text = source("shell/initramfs/service-record-initramfs.sh").decode()
        for path in ("/etc/service-record/initramfs", "/run/service-record", "/run/systemd", "/dev/console"):
            text = text.replace(path, f"{root}{path}")
        (root / "script.sh").write_text(text)
        (root / "dev").mkdir()
        (root / "events").write_text("".join(EVENTS))
        (root / "logged").write_text(f"{LOGGED}\n")
        (programs / "journalctl").write_text(
            f"#!/bin/sh\ncase $* in\n*output=export*) cat {root}/events ;;\n*) cat {root}/logged ;;\nesac\n"
        )
        (programs / "journalctl").chmod(0o755)
        for name in ("cat", "ln", "mkdir", "rm", "sed", "sleep", "sh", "bash", client):
            (programs / name).unlink(missing_ok=True)
            (programs / name).symlink_to(shutil.which(name) or "")

    def fail(self, **settings: str) -> str:
        """Run the script as before the emergency shell; return what it prints on the console."""
        self.configure(**settings)
        self.run("failure")
        return (self.root / "dev/console").read_text()

    def configure(self, **settings: str) -> None:
        directory = self.root / "etc/service-record/initramfs"
        directory.mkdir(parents=True)
        for name, value in settings.items():
            (directory / name).write_text(f"{value}\n")

    def run(self, what: str) -> None:
        program = shutil.which(self.command[0]) or ""
        subprocess.run(
            [program, *self.command[1:], what],
            check=True,
            env={
                "PATH": str(self.root / "bin"),
                "SERVICE_RECORDS_DIR": str(self.root / "var"),
            },
            timeout=60,
        )

    def messages(self) -> set[str]:
        """Return the messages in the record."""
        record = (self.root / "run/service-record/initramfs.json").read_bytes().decode()
        return {e["errorMessage"] for e in map(json.loads, record.splitlines()) if "errorMessage" in e}


@pytest.mark.parametrize("client", ["curl", "bash"])
@pytest.mark.parametrize("shell", SHELLS)
def test_failed_unit_is_recorded_and_reported(
    tmp_path: Path, collector: RunningCollector, shell: str, client: str
) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", shell, client)
    reader = collector.client()
    console = initramfs.fail(url=collector.url, host="node1", token=reader.token)

    assert f"reported to {collector.url}" in console
    ((step,),) = (group["latest"] for group in reader.get("/api/v1/hosts/node1").json["steps"])
    assert (step["label"], step["status"]) == ("initramfs", "failed")
    last = step["logs"].splitlines()[-1]
    assert last.startswith("ignition-fetch.service (exit-code): GET ")
    assert last.endswith("\\ no such host")
    assert not [word for word in ("s3cr3t", "abc", reader.token) if word in step["logs"]]

    lines = (initramfs.root / "run/service-record/initramfs.json").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    ended = {e["stage"]: e for e in entries if e["phase"] == "stage end"}
    assert ended["systemd-fsck@dev-disk\\x2dby"]["result"] == "success"
    failed = ended["ignition-fetch"]
    assert (failed["result"], failed["exitCode"], failed["serviceResult"]) == ("failure", 1, "exit-code")
    assert (failed["timestamp"], failed["uptime"]) == ("2026-11-28T21:06:45.000Z", 5.0)
    assert "sysroot.mount" not in ended
    assert (entries[0]["phase"], entries[-1]["phase"]) == ("service start", "service end")
    assert entries[-1]["result"] == "failure"


@pytest.mark.parametrize("client", ["curl", "bash"])
def test_assisted_service_gets_the_log(tmp_path: Path, collector: RunningCollector, client: str) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", "dash", client)
    admin = collector.client()
    console = initramfs.fail(
        url=f"{collector.url}/api/assisted-install", token=admin.token, cluster=CLUSTER, host_id=HOST_ID
    )

    assert f"reported to {collector.url}" in console


def test_update_call_gets_the_reason(tmp_path: Path, collector: RunningCollector) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", "dash", "curl")
    admin = collector.client()
    initramfs.fail(url=f"{collector.url}/api/update", host="node1", token=admin.token)

    ((step,),) = (group["latest"] for group in admin.get("/api/v1/hosts/node1").json["steps"])
    assert step["status"] == "failed"
    assert step["name"].startswith("initramfs failed: ignition-fetch.service")


def test_update_call_escapes_the_name_of_the_unit(tmp_path: Path, collector: RunningCollector) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", "dash", "curl")
    unit = "systemd-fsck@dev-disk\\x2dby.service"
    (initramfs.root / "events").write_text(
        event(1, STARTING, unit) + event(2, ENDED_BADLY, unit, UNIT_RESULT="exit-code")
    )
    admin = collector.client()
    initramfs.fail(url=f"{collector.url}/api/update", host="node1", token=admin.token)

    ((step,),) = (group["latest"] for group in admin.get("/api/v1/hosts/node1").json["steps"])
    assert step["name"].startswith(f"initramfs failed: {unit}")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("token", ["ab+cd.ef==", "+/x"])
def test_token_characters_are_literal_in_mask(tmp_path: Path, shell: str, token: str) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", shell, "bash")
    (initramfs.root / "logged").write_text(f"cannot use {token} here, abxcdxef==\n")
    initramfs.fail(url="http://127.0.0.1:9", token=token)

    assert initramfs.messages() == {"cannot use *** here, abxcdxef=="}


@pytest.mark.parametrize("shell", SHELLS)
def test_quoted_secrets_and_passwords_with_at_signs_are_masked(tmp_path: Path, shell: str) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", shell, "bash")
    (initramfs.root / "logged").write_text(
        'password="hunter2" {"token": "hunter2","secret":"hunter2"} key=\'hunter2\'\n'
        r'"{\"password\":\"hunter2\"}" http://user:hun@ter2@host/'
        "\n"
    )
    initramfs.fail(url="http://127.0.0.1:9")

    (message,) = initramfs.messages()
    assert "ter2" not in message
    assert "http://user:***@host/" in message


@pytest.mark.parametrize("shell", SHELLS)
def test_record_in_the_real_root_masks_the_token(tmp_path: Path, shell: str) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", shell, "bash")
    (initramfs.root / "logged").write_text("cannot use my+token here\n")
    (initramfs.root / "events").write_text("".join(EVENTS) + event(7, STARTING, "initrd-switch-root.service"))
    initramfs.configure(url="http://127.0.0.1:9", token="my+token")
    initramfs.run("handover")
    shutil.rmtree(initramfs.root / "etc")
    initramfs.run("record")

    entries = [
        json.loads(line) for line in (initramfs.root / "var/initramfs.json").read_text().splitlines() if line
    ]
    assert {e["errorMessage"] for e in entries if "errorMessage" in e} == {"cannot use *** here"}
    assert not (initramfs.root / "run/service-record-initramfs").exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("ascii_bytes", [498, 499, 500, 998, 999, 1000])
def test_long_line_is_cut_between_characters(tmp_path: Path, shell: str, ascii_bytes: int) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", shell, "bash")
    line = "x" * ascii_bytes + "é" * 9
    (initramfs.root / "logged").write_text(f"{line}\n")
    initramfs.fail(url="http://127.0.0.1:9")

    (message,) = initramfs.messages()
    assert message in {line.encode()[:size].decode(errors="ignore") for size in (500, 499)}
    json.loads((initramfs.root / "run/service-record-initramfs/report").read_bytes().decode())


@pytest.mark.parametrize("shell", SHELLS)
def test_longest_names_and_messages_fit_into_an_entry(tmp_path: Path, shell: str) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", shell, "bash")
    mount, service = "\\x2d" * 62 + "m.mount", "\\x2d" * 61 + "s.service"
    (initramfs.root / "events").write_text(
        event(1, STARTING, mount)
        + event(2, EXITED, mount, EXIT_CODE="exited", EXIT_STATUS="32")
        + event(2, ENDED_BADLY, mount, UNIT_RESULT="exit-code")
        + event(3, STARTING, service)
        + event(4, NOT_STARTED, service, JOB_RESULT="timeout")
    )
    (initramfs.root / "logged").write_text(3 * (2000 * '"' + "\n"))
    initramfs.fail(url="http://127.0.0.1:9")

    lines = (initramfs.root / "run/service-record/initramfs.json").read_bytes().splitlines(keepends=True)
    entries = [json.loads(line) for line in lines]
    statuses = {e["stage"]: e.get("exitCode") for e in entries if e["phase"] == "stage end"}
    assert statuses == {mount: 32, service.removesuffix(".service"): None}
    assert max(map(len, lines)) <= 4096


@pytest.mark.parametrize("client", ["curl", "bash"])
def test_address_may_be_that_of_ipv6(tmp_path: Path, client: str) -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6")
    server.settimeout(30)

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            # Closing a connection with unread data resets it, and the client may lose the answer.
            while connection.recv(65536):
                pass

    initramfs = Initramfs(tmp_path / "initramfs", "dash", client)
    url = f"http://[::1]:{server.getsockname()[1]}"
    with server, ThreadPoolExecutor(1) as pool:
        pool.submit(answer)
        console = initramfs.fail(url=url, host="node1")
    assert f"service-record: reported to {url}\n" in console


def test_refused_report_is_said_on_the_console(tmp_path: Path, collector: RunningCollector) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", "dash", "curl")
    console = initramfs.fail(url=collector.url, host="node1", token="srt_9_wrong")

    assert f"not reported to {collector.url}: refused with 401" in console


def test_nothing_happens_without_settings(tmp_path: Path) -> None:
    initramfs = Initramfs(tmp_path / "initramfs", "dash", "bash")
    before = sorted(initramfs.root.rglob("*"))
    program = shutil.which("dash") or ""
    for what in ("failure", "retry", "handover", "record"):
        subprocess.run([program, *initramfs.command[1:], what], check=True, env={"PATH": ""})
    assert sorted(initramfs.root.rglob("*")) == before

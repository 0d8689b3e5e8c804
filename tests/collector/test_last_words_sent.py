"""`run --to` and `ship --follow` send the last lines of an open stage, and never delay a service."""

import base64
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from service_record.cli.last_lines import find_open_stage
from service_record.record import systemd
from service_record.record.entry import Entry
from tests.builders import entry, write_lines
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.programs import environment
from tests.waiting import wait_for

MAIN = [sys.executable, "-c", "from service_record.cli import main; main()"]
INVOCATION = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own host."""
    with run_collector(make_collector_settings(tmp_path_factory.mktemp("collector"))) as running:
        yield running


def kept(server: RunningCollector, host: str) -> list[tuple[str, str, str]]:
    reply = server.client("reader").get(f"/api/v1/hosts/{host}")
    words = reply.json["last_words"] if reply.status == 200 else []
    return [(each["service"], each["stage"], each["text"]) for each in words]


def options(server: RunningCollector, host: str, directory: Path) -> list[str]:
    """Return the options that name the collector."""
    token = directory / "token"
    token.write_text(server.client("host", host).token)
    return ["--to", f"collector+{server.url}/{host}", "--token-file", str(token)]


@contextmanager
def started(directory: Path, *arguments: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a new process group, which is killed at the end."""
    process = subprocess.Popen(  # type: ignore[call-overload]
        [*MAIN, *arguments], env=environment(directory), start_new_session=True, **options
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("is_file", [False, True], ids=["pipe", "file"])
def test_last_lines_stay_after_the_host_died(
    server: RunningCollector, host: str, tmp_path: Path, is_file: bool
) -> None:
    script = "for n in $(seq 30); do echo line $n; done; echo password=sw0rdfish99 >&2; sleep 600"
    stage = ["--service", "image", "--stage", "pull", "--", "sh", "-c", script]
    with (tmp_path / "output").open("wb") as file:
        output = {"stdout": file if is_file else subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with started(tmp_path, "run", *options(server, host, tmp_path), *stage, **output):
            wait_for(lambda: kept(server, host))

    ((service, name, text),) = kept(server, host)
    assert (service, name) == ("image", "pull")
    *lines, secret = text.split("\n")
    assert lines == [f"line {number}" for number in range(12, 31)]
    assert secret.startswith("password=")
    assert "sw0rdfish99" not in text


def test_key_that_begins_above_the_sent_lines_is_masked(
    server: RunningCollector, host: str, tmp_path: Path
) -> None:
    body = [base64.b64encode(bytes([number]) * 48).decode() for number in range(40)]
    (tmp_path / "key").write_text("\n".join(["-----BEGIN RSA PRIVATE KEY-----", *body, ""]))
    run = ["run", *options(server, host, tmp_path), "--service", "job", "--", "sh", "-c"]
    with started(tmp_path, *run, f"cat {tmp_path}/key; exit 1", stdout=subprocess.DEVNULL):
        wait_for(lambda: kept(server, host))

    ((_, _, text),) = kept(server, host)
    assert len(text.split("\n")) == 20
    assert not any(line in text for line in body)


def test_failed_command_leaves_lines_and_success_deletes_them(
    server: RunningCollector, host: str, tmp_path: Path
) -> None:
    run = ["run", *options(server, host, tmp_path), "--service", "job", "--", "sh", "-c"]
    with started(tmp_path, *run, "echo no space left >&2; exit 7", stderr=subprocess.DEVNULL) as process:
        assert process.wait(30) == 7
        wait_for(lambda: kept(server, host) == [("job", "", "no space left")])
    with started(tmp_path, *run, "echo fine", stdout=subprocess.DEVNULL) as process:
        assert process.wait(30) == 0
        wait_for(lambda: not kept(server, host))


def test_silent_collector_does_not_delay_the_command(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("srt_1_c2VjcmV0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}"
        run = ["run", "--to", place, "--token-file", str(tmp_path / "token"), "--", "sh", "-c"]
        with started(
            tmp_path, *run, "echo out; exit 3", stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            silent.accept()  # the sending process has sent its request, and waits for the answer
            out, err = process.communicate(timeout=4)

    assert (process.returncode, out, err) == (3, b"out\n", b"")


def test_missing_token_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    run = ["run", "--to", "http://127.0.0.1:9", "--token-file", str(tmp_path / "none"), "--", "sh", "-c"]
    script = f"echo out; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; exit 3"
    with started(tmp_path, *run, script, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        warning = process.stderr.readline()
        (tmp_path / "go").touch()
        _, err = process.communicate(timeout=30)

    assert warning.startswith(b"service-record run: Warning: last lines are not sent: ")
    assert err == b""
    assert process.returncode == 3


def test_ship_sends_the_journal_lines_of_the_open_stage(
    server: RunningCollector, host: str, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    journalctl = programs / "journalctl"
    journalctl.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nprintf "pulling\\nlayer 7\\n"\n')
    journalctl.chmod(0o755)
    (tmp_path / "records").mkdir()
    own = {"invocation_id": INVOCATION, "boot_id": systemd.boot_id()}
    begun = [entry("service start", 0, **own), entry("stage start", 5, stage="pull", **own)]
    record = write_lines(tmp_path / "records" / "image.json", *begun)
    write_lines(tmp_path / "records" / "earlier.json", entry(invocation_id=INVOCATION, boot_id="f" * 32))

    ship = ["ship", *options(server, host, tmp_path), "--follow", "--from", str(tmp_path / "records")]
    path = f"{programs}:{os.environ['PATH']}"
    command = ["env", f"PATH={path}", *MAIN, *ship]
    with subprocess.Popen(command, env=environment(tmp_path)) as process:
        wait_for(lambda: kept(server, host) == [("image", "pull", "pulling\nlayer 7")])
        with record.open("ab") as stream:
            stream.write(entry("stage end", 9, stage="pull", result="success", **own).to_line())
            stream.write(entry("service end", 9, result="success", **own).to_line())
        wait_for(lambda: not kept(server, host))
        process.terminate()

    since = begun[1].time
    assert since is not None
    asked = (tmp_path / "asked").read_text()
    assert f"--since=@{since.timestamp():.6f}" in asked
    assert f"_SYSTEMD_INVOCATION_ID={INVOCATION}" in asked


def stages(*phases: tuple[str, str | None]) -> list[Entry]:
    own = {"invocation_id": INVOCATION, "boot_id": systemd.boot_id()}
    return [
        entry(phase, at, **(own | ({"stage": stage} if stage else {})))
        for at, (phase, stage) in enumerate(phases)
    ]


@pytest.mark.parametrize(
    ("phases", "stage"),
    [
        ([("service start", None)], ""),
        ([("service start", None), ("stage start", "a"), ("stage start", "b")], "b"),
        ([("service start", None), ("stage start", "a"), ("stage start", "b"), ("stage end", "b")], "a"),
        ([("service start", None), ("stage start", "a"), ("stage end", "a")], ""),
        ([("stage start", "a")], "a"),
        ([("service start", None), ("stage start", "a"), ("service end", None)], None),
        ([("pre-command start", None), ("pre-command end", None)], None),
        ([], None),
    ],
)
def test_innermost_open_stage_is_found(phases: list[tuple[str, str | None]], stage: str | None) -> None:
    opened = find_open_stage(stages(*phases))

    assert (opened and opened.stage) == stage

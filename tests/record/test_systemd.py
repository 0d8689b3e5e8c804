"""What systemd and the kernel tell of a process, as far as that needs no systemd; tests/system has one."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service_record.record import systemd
from tests.builders import require


@pytest.mark.parametrize(
    ("lines", "unit"),
    [
        pytest.param("0::/system.slice/bootkube.service\n", "bootkube.service", id="version-2"),
        pytest.param(
            "12:pids:/system.slice/x.service\n1:name=systemd:/system.slice/kubelet.service\n0::/\n",
            "kubelet.service",
            id="version-1",
        ),
        pytest.param("0::/system.slice/job.service/worker\n", "job.service", id="below-the-service"),
        pytest.param("0::/user.slice/user@1000.service/app.slice/a.service", "a.service", id="user-service"),
        pytest.param("0::/user.slice/user-0.slice/session-3.scope\n", None, id="login"),
        pytest.param("0::/machine.slice/a.service/libpod-1f.scope/container\n", None, id="container"),
        pytest.param("0::/user.slice/user@1000.service/init.scope\n", None, id="user-manager"),
        pytest.param("0::/system.slice/a:b.service\n", "a:b.service", id="colon-in-the-name"),
        pytest.param("3:cpu:/system.slice/x.service\n", None, id="only-other-controllers"),
        pytest.param("0::/\n", None, id="root"),
        pytest.param("", None, id="nothing"),
        pytest.param("nonsense\n::\n", None, id="nonsense"),
    ],
)
def test_the_innermost_unit_of_a_cgroup_decides(lines: str, unit: str | None) -> None:
    assert systemd.unit_of_cgroup(lines) == unit


@pytest.mark.parametrize(
    ("value", "known"),
    [("1f" * 16, "1f" * 16), ("", None), ("1F" * 16, None), ("1f" * 15, None), ("x" * 32, None)],
)
def test_only_an_invocation_id_of_systemds_form_counts(
    monkeypatch: pytest.MonkeyPatch, value: str, known: str | None
) -> None:
    monkeypatch.setenv("INVOCATION_ID", value)
    assert systemd.invocation_id() == known


def test_the_boot_id_is_the_kernels_without_dashes() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # its length is what counts
    assert systemd.boot_id()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208  # as above
    assert systemd.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")


def test_the_uptime_is_the_kernels_and_goes_on() -> None:
    before = float(Path("/proc/uptime").read_text().split()[0])
    time.sleep(0.02)
    uptime = require(systemd.uptime())
    assert before < uptime < before + 10
    assert uptime == round(uptime, 2)


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journalctl, first on PATH, that does what `behave` says and leaves its arguments beside itself."""
    program = tmp_path / "journalctl"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def behave(program: Path, script: str) -> None:
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"$0.arguments"\n{script}\n')


def test_journal_tail_is_of_invocation_and_process(journalctl: Path) -> None:
    behave(journalctl, "printf 'one\\n\\ntwo \\377\\n'")
    assert systemd.journal_tail("1f" * 16, timeout=60) == "one\n\ntwo \ufffd"
    arguments = Path(f"{journalctl}.arguments").read_text().splitlines()
    boot = f"_BOOT_ID={systemd.boot_id()}"
    assert arguments[-4:] == [f"_SYSTEMD_INVOCATION_ID={'1f' * 16}", "+", boot, f"_PID={os.getpid()}"]
    assert {"--output=cat", "--lines=3"} <= set(arguments)


@pytest.mark.parametrize(
    "script", ["exit 1", "echo broken; exit 1", "exit 0", "echo", "kill -9 $$", "sleep 60"], ids=str
)
def test_empty_journal_returns_none_soon(journalctl: Path, script: str) -> None:
    behave(journalctl, script)
    started = time.monotonic()
    assert systemd.journal_tail("1f" * 16, timeout=0.5) is None
    assert time.monotonic() - started < 30


def test_journal_is_synced_before_it_is_read(journalctl: Path) -> None:
    behave(journalctl, 'case $1 in --sync) : >"$0.synced" ;; *) test -e "$0.synced" && echo last ;; esac')
    assert systemd.journal_tail("1f" * 16, timeout=60) == "last"


@pytest.mark.parametrize("fate", ["exit 1", "sleep 60"], ids=["refused", "without an answer"])
def test_journal_is_read_after_a_failed_sync(journalctl: Path, fate: str) -> None:
    behave(journalctl, f"case $1 in --sync) {fate} ;; *) echo earlier ;; esac")
    started = time.monotonic()
    assert systemd.journal_tail("1f" * 16, timeout=4) == "earlier"
    assert time.monotonic() - started < 30


def test_no_journal_tail_without_invocation_or_journalctl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert systemd.journal_tail(None) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert systemd.journal_tail("1f" * 16) is None


@pytest.fixture
def systemctl(journalctl: Path) -> Path:
    """A systemctl beside the journalctl."""
    program = journalctl.with_name("systemctl")
    program.touch(mode=0o755)
    return program


def test_the_failed_units_are_what_systemd_lists(systemctl: Path) -> None:
    behave(systemctl, r"printf 'a.service loaded failed failed A b\n\n  b.mount not-found failed failed\n'")
    assert systemd.failed_units() == ("a.service", "b.mount")
    arguments = Path(f"{systemctl}.arguments").read_text().splitlines()
    assert arguments[:2] == ["list-units", "--state=failed"]
    assert {"--plain", "--no-legend", "--full"} <= set(arguments)
    behave(systemctl, "echo a.service; exit 1")
    assert systemd.failed_units() == ()


def test_properties_are_asked_for_of_units_only(systemctl: Path) -> None:
    behave(systemctl, "echo Id=a.service")
    assert (
        systemd.unit_properties(["a.service", "b@c-d.x.service", "no unit", "-x.mount", ""], ["Id", "Result"])
        == "Id=a.service\n"
    )
    arguments = Path(f"{systemctl}.arguments").read_text().splitlines()
    assert arguments[arguments.index("--") :] == ["--", "a.service", "b@c-d.x.service", "-x.mount", "*"]
    assert {"show", "--state=failed", "--property=Id,Result"} <= set(arguments)


def unit(name: str, **properties: str) -> str:
    """Return what systemd says of a service that has our drop-in and runs, unless told otherwise."""
    known = {
        "InvocationID": "1f" * 16,
        "ActiveState": "active",
        "MainPID": "7",
        "ControlPID": "0",
        "ExecMainStartTimestampMonotonic": "5126000",
        "InactiveExitTimestampMonotonic": "4000000",
        "DropInPaths": "/a/b.conf /etc/systemd/system/service.d/10-service-record.conf",
    }
    return "".join(f"{key}={value}\n" for key, value in ({"Id": name} | known | properties).items())


def test_running_services_have_drop_in_and_process() -> None:
    command = {"MainPID": "0", "ControlPID": "9"}
    output = "\n".join(
        [
            unit("main.service"),
            unit("both.service", ControlPID="9", ActiveState="deactivating"),
            unit("before.service", **command, ActiveState="activating"),
            unit("after.service", **command, ActiveState="deactivating"),
            unit("over.service", MainPID="0", ActiveState="inactive"),
            unit("other.service", DropInPaths="/etc/x.conf"),
            "Id=none.service\n",
        ]
    )
    began = datetime.now(UTC).timestamp() - time.clock_gettime(time.CLOCK_MONOTONIC)
    found = list(systemd._running_in(output))
    assert [(one.unit, one.pid, one.uptime) for one in found] == [
        ("main.service", 7, 5.13),
        ("both.service", 7, 5.13),
        ("before.service", None, 4.0),
    ]
    assert {one.invocation_id for one in found} == {"1f" * 16}
    assert all(abs(one.started.timestamp() - began - one.uptime) < 1 for one in found)


def test_reused_pid_is_not_alive() -> None:
    me = os.getpid()
    uptime = require(systemd.uptime())
    assert systemd.is_alive(me, None)
    assert systemd.is_alive(me, uptime)
    assert systemd.is_alive(me, 0.0) is False  # a later one with its number
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child:
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert systemd.is_alive(child.pid, None) is False  # not waited for yet
    assert systemd.is_alive(child.pid, None) is False


def test_another_process_counts_for_its_own_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, open_file = os.getpid(), os.open
    (tmp_path / "cgroup").write_text("0::/system.slice/job.service\n")
    monkeypatch.setattr(
        os,
        "open",
        lambda path, flags: open_file(tmp_path / "cgroup" if path == f"/proc/{me}/cgroup" else path, flags),
    )
    assert systemd.unit_of_process(me, os.geteuid() + 1) is None
    assert systemd.unit_of_process(me, os.geteuid()) == systemd.unit_of_process(me) == "job.service"
    assert systemd.unit_of_process(2**22 + 1, os.geteuid()) is None
    assert systemd.is_running() == Path("/run/systemd/system").is_dir()

"""Gathering: whatever a collector does, the others are gathered, in time, and nothing stays behind."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from service_record.reporter.gather.gathering import (
    Begin,
    GatherRow,
    GatherStatus,
    Piece,
    Pieces,
    Task,
    gather,
)
from service_record.reporter.gather.sources import ProgramSource, clocks
from tests.faults import Faults
from tests.gathering import DirectoryBundle, DirectoryMember, Host
from tests.programs import REPOSITORY
from tests.waiting import wait_for, wait_until_gone

MUCH = 30.0
"""Seconds: more than anything here takes on a machine that is busy, and less than what hangs."""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def command(*argv: str, seconds: float = MUCH, size: int = 1 << 20, **more: object) -> GatherRow:
    return GatherRow(argv[0], f"{argv[0]}.txt", ProgramSource(argv, **more), seconds, size)  # type: ignore[arg-type]


GIVEN, ABSENT, FAILED = GatherStatus.GIVEN, GatherStatus.ABSENT, GatherStatus.FAILED
NOT_RUNNING = "Error: NetworkManager is not running."
ENDED: dict[str, tuple[str, dict[str, Any], GatherStatus, str | None, bytes | None]] = {
    # what it prints: the program, more of its row, the status, the reason, and how its member begins
    "lines": ("printf 'vda %s\\n' \"$@\"", {}, GIVEN, None, b"vda --all\n"),
    "nothing": ("exit 0", {}, GatherStatus.EMPTY, None, None),
    "half, and an error": (
        "echo half; echo 'connection refused' >&2; exit 7",
        {},
        FAILED,
        "exit status 7: connection refused",
        b"half\n",
    ),
    "lines, and a status that counts as success": (
        "echo failed; exit 3",
        {"success_statuses": (0, 3)},
        GIVEN,
        None,
        b"failed\n",
    ),
    "that the host has no such thing": (
        f"echo '{NOT_RUNNING}' >&2; exit 8",
        {"absent": ("is not running",)},
        ABSENT,
        NOT_RUNNING,
        None,
    ),
    "nothing, killed": ("kill -SEGV $$", {}, FAILED, "killed by signal 11", None),
    "bytes of any kind": (
        r"printf '\0\377\376\033[31m\r\n'; printf '\377broken\n' >&2; exit 1",
        {},
        FAILED,
        "exit status 1: �broken",
        b"\0\xff\xfe\x1b[31m\r\n",
    ),
    "a long error that acts on a terminal": (
        r"printf 'a\033[31mb\t%0999d' 1 >&2; exit 1",
        {},
        FAILED,
        "exit status 1: a�[31mb ".ljust(299, "0") + "…",
        b"",
    ),
}


def test_program_exit_status_is_recorded(host: Host) -> None:
    with Faults() as faults:
        for name, (body, more, status, reason, data) in ENDED.items():
            with faults.case(name):
                host.program("lsblk", body)
                result = host.gather(command("lsblk", "--all", **more))
                assert (result.only.status, result.only.reason) == (status, reason)
                assert result.bundle.paths == ([] if data is None else ["lsblk.txt"])
                assert data is None or result.data("lsblk.txt").startswith(data)


def test_error_output_is_in_the_member(host: Host) -> None:
    host.program("crictl", "echo half; echo 'connection refused' >&2; exit 7")

    assert b"connection refused" in host.gather(command("crictl")).data("crictl.txt")


def test_missing_program_is_absent(host: Host) -> None:
    result = host.gather(command("nmcli"))

    assert (result.only.status, result.only.reason) == (ABSENT, "no program nmcli")
    assert result.bundle.paths == []


@pytest.mark.parametrize("need", ["/run/systemd/system", "dbus-send"])
def test_row_with_missing_needs_is_not_run(host: Host, need: str) -> None:
    host.program("systemctl", f"touch {host.root}/run-anyway")

    result = host.gather(GatherRow("units", "units.txt", ProgramSource(("systemctl",)), needs=(need,)))

    assert result.only.status is GatherStatus.ABSENT
    assert need in str(result.only.reason)
    assert not (host.root / "run-anyway").exists()


def test_row_with_its_needs_is_run(host: Host) -> None:
    host.program("systemctl", "echo running")
    host.file("/run/systemd/system/nothing")

    needs = ("/run/systemd/system", "systemctl")
    result = host.gather(GatherRow("units", "units.txt", ProgramSource(("systemctl",)), needs=needs))

    assert result.only.status is GatherStatus.GIVEN


@pytest.mark.slow
def test_hanging_program_is_killed_and_its_output_kept(host: Host) -> None:
    hang = f"trap '' TERM; echo first; echo slow >&2; echo $$ >{host.root}/pid; while :; do sleep 1000; done"
    host.program("df", hang)

    result = host.gather(command("df", seconds=3))

    assert result.only.status is GatherStatus.TIMED_OUT
    assert result.data("df.txt").startswith(b"first\n")
    assert b"slow" in result.data("df.txt")
    assert result.only.seconds < MUCH
    wait_until_gone(int((host.root / "pid").read_text()))


def test_endless_output_is_stopped_and_its_end_kept(host: Host) -> None:
    host.program("journalctl", "exec yes 'and again'")

    result = host.gather(command("journalctl", size=100_000))

    assert result.only.status is GatherStatus.CUT
    assert result.only.reason is not None
    assert 800_000 < result.only.bytes < 3_000_000
    assert result.data("journalctl.txt").count(b"and again\n") >= 9_900


def test_endless_error_output_is_stopped(host: Host) -> None:
    host.program("journalctl", "exec yes >&2")

    result = host.gather(command("journalctl", size=100_000))

    assert result.only.status is GatherStatus.CUT
    assert len(result.data("journalctl.txt")) < 5000


def test_output_beyond_the_limit_loses_its_beginning(host: Host) -> None:
    host.program("journalctl", "seq 1 10000")

    result = host.gather(command("journalctl", size=20_000))

    whole = b"".join(b"%d\n" % number for number in range(1, 10_001))
    kept = result.data("journalctl.txt").removeprefix(b"(cut)\n")
    assert whole.endswith(b"\n" + kept)
    assert 19_000 < len(kept) <= 20_000
    assert (result.only.status, result.only.reason) == (GatherStatus.CUT, None)
    assert (result.only.bytes, result.only.dropped_bytes) == (len(whole), len(whole) - len(kept))


def test_child_that_keeps_the_pipe_is_killed(host: Host) -> None:
    host.program("podman", f"sleep 1000 & echo $! >{host.root}/pid; echo started")

    result = host.gather(command("podman"))

    assert result.only.status is GatherStatus.GIVEN
    assert result.data("podman.txt") == b"started\n"
    assert result.only.seconds < MUCH
    wait_until_gone(int((host.root / "pid").read_text()))


@pytest.mark.slow
def test_children_of_a_hanging_program_are_killed(host: Host) -> None:
    host.program("podman", f"sleep 1000 & echo $! >{host.root}/pid; wait")

    assert host.gather(command("podman", seconds=3)).only.status is GatherStatus.TIMED_OUT
    wait_until_gone(int((host.root / "pid").read_text()))


@pytest.mark.slow
def test_program_without_output_is_stopped_in_time(host: Host) -> None:
    host.program("podman", "echo done; exec >&- 2>&-; sleep 1000")

    result = host.gather(command("podman", seconds=3))

    assert result.only.status is GatherStatus.TIMED_OUT
    assert result.data("podman.txt") == b"done\n"


def test_program_has_no_input_and_no_secrets(host: Host) -> None:
    host.program("ip", "cat; env")

    environ = {"PULL_SECRET_TOKEN": "secret", "LC_ALL": "de_DE.UTF-8"}
    result = host.gather(command("ip"), environ=environ)

    shown = result.data("ip.txt").decode().splitlines()
    assert "LC_ALL=C.UTF-8" in shown
    assert not [line for line in shown if "secret" in line]


def test_program_has_its_own_session_and_lowest_priority(host: Host) -> None:
    host.program("ps", "set -- $(cat /proc/$$/stat); echo $1 $6 ${19}")
    ours = os.getpriority(os.PRIO_PROCESS, 0)

    process, session, nice = host.gather(command("ps")).data("ps.txt").split()

    assert process == session
    assert int(nice) == 19
    assert os.getpriority(os.PRIO_PROCESS, 0) == ours


@pytest.mark.skipif(shutil.which("ionice") is None, reason="there is no ionice to do it")
def test_program_has_the_lowest_disk_priority(host: Host) -> None:
    host.program("ps", "ionice -p $$")

    assert host.gather(command("ps")).data("ps.txt") == b"best-effort: prio 7\n"


def test_exception_of_a_row_fails_only_that_row(host: Host) -> None:
    def broken(task: Task) -> Pieces:
        yield b"before\n"
        raise KeyError("no such thing")

    host.program("ip", "echo address")
    result = host.gather(GatherRow("broken", "broken.txt", broken), command("ip"))

    assert result.get("broken").status is GatherStatus.FAILED
    assert result.get("broken").reason == "KeyError: 'no such thing'"
    assert result.data("broken.txt") == b"before\n"
    assert result.get("ip").status is GatherStatus.GIVEN


def test_thread_that_cannot_start_fails_only_its_row(host: Host) -> None:
    threading.stack_size(1 << 47)  # more than there are addresses
    try:
        result = host.gather(GatherRow("clocks", "clocks.txt", clocks))
    finally:
        threading.stack_size(0)

    assert (result.only.status, result.bundle.paths) == (GatherStatus.FAILED, [])
    assert result.only.reason == "RuntimeError: can't start new thread"


def test_unreadable_need_fails_only_its_row(host: Host) -> None:
    host.program("ip", "echo address")
    too_long = "/" + "x" * 300
    result = host.gather(GatherRow("clocks", "clocks.txt", clocks, needs=(too_long,)), command("ip"))

    assert result.get("clocks").status is GatherStatus.FAILED
    assert result.get("clocks").reason == f"{too_long}: File name too long"[:299] + "…"
    assert result.get("ip").status is GatherStatus.GIVEN


@pytest.mark.slow
def test_hanging_thread_is_abandoned(host: Host) -> None:
    def hanging(task: Task) -> Pieces:
        yield b"before\n"
        time.sleep(MUCH)

    host.program("ip", "echo address")
    result = host.gather(GatherRow("hanging", "hanging.txt", hanging, seconds=0.2), command("ip"))

    assert result.get("hanging").status is GatherStatus.TIMED_OUT
    assert result.get("hanging").seconds < MUCH
    assert result.data("hanging.txt") == b"before\n"
    assert result.get("ip").status is GatherStatus.GIVEN


@pytest.mark.slow
def test_endless_thread_is_abandoned(host: Host) -> None:
    def endless(task: Task) -> Pieces:
        while True:
            yield b"again\n"

    result = host.gather(GatherRow("endless", "endless.txt", endless, seconds=0.2))

    assert result.only.status is GatherStatus.TIMED_OUT


@pytest.mark.slow
def test_no_row_begins_after_the_time_limit(host: Host) -> None:
    host.program("df", "sleep 1000")
    host.program("ip", "echo address")

    result = host.gather(command("df"), command("ip"), seconds=3)

    assert [each.status for each in result.gathered] == [GatherStatus.TIMED_OUT] * 2
    assert "not begun" in str(result.get("ip").reason)


class Several:
    """Gives two files, and one without content."""

    def __call__(self, task: Task) -> Pieces:
        parts: tuple[Piece, ...] = (
            Begin("logs/a"),
            b"one",
            b"",
            b"two",
            Begin("logs/none"),
            Begin("logs/b", 7),
        )
        yield from parts
        yield b"three"


def test_empty_files_of_a_row_are_left_out(host: Host) -> None:
    result = host.gather(GatherRow("logs", "logs/", Several()))

    assert [(file.path, file.bytes) for file in result.only.files] == [("logs/a", 6), ("logs/b", 5)]
    assert (result.data("logs/a"), result.data("logs/b")) == (b"onetwo", b"three")
    assert result.only.bytes == 11


class FullMember(DirectoryMember):
    def write(self, data: bytes, /) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullBundle(DirectoryBundle):
    """A bundle that can take nothing."""

    @contextmanager
    def member(self, path: str, **how: object) -> Iterator[FullMember]:
        yield FullMember(None)


def test_bundle_error_ends_gathering_and_its_programs(host: Host) -> None:
    host.program("journalctl", f"echo $$ >{host.root}/pid; echo line; sleep 1000")

    with pytest.raises(OSError, match="No space left"):
        gather([command("journalctl")], host.context(), FullBundle(host.bundles))  # type: ignore[arg-type]

    wait_until_gone(int((host.root / "pid").read_text()))


STOPPED = """
import signal
import sys
from pathlib import Path
from tests import gathering
from service_record.reporter.gather.gathering import GatherRow
from service_record.reporter.gather.sources import ProgramSource

class Telling(gathering.DirectoryMember):
    def write(self, data):
        super().write(data)
        (host.root / "written").touch()

gathering.DirectoryMember = Telling
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # as `bundle` and `report` do
host = gathering.Host(Path(sys.argv[1]))
host.program("df", f"trap '' TERM; echo $$ >{host.root}/pid; echo first; while :; do sleep 1000; done")
host.gather(GatherRow("df", "df.txt", ProgramSource(("df",)), seconds=1000))
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_signal_ends_running_programs(tmp_path: Path, number: int, status: int) -> None:
    root = tmp_path / "root"
    with subprocess.Popen([sys.executable, "-c", STOPPED, tmp_path], cwd=REPOSITORY) as process:
        try:
            wait_for((root / "written").exists)
            process.send_signal(number)
            assert process.wait(MUCH) == status
        finally:
            process.kill()

    wait_until_gone(int((root / "pid").read_text()))
    assert (tmp_path / "bundles" / "0" / "df.txt").read_text() == "first\n"

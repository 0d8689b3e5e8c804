"""Outside of systemd, `service-record run` records the last lines of output and does not change it."""

import fcntl
import os
import pty
import random
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from service_record.cli.command_output import CommandOutput
from tests.programs import environment, read_entries
from tests.waiting import wait_for

RUN = [sys.executable, "-c", "from service_record.cli import main; main()", "run", "--"]
FAILS = "echo one; echo two >&2; echo three; exit 100"


def message(directory: Path) -> str | None:
    return read_entries(directory)[-1].error_message


def run(directory: Path, script: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*RUN, "sh", "-c", script], env=environment(directory), check=False, timeout=60, **options
    )


def test_last_lines_of_pipes_are_the_message(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (100, b"one\nthree\n", b"two\n")
    assert sorted((message(tmp_path) or "").split("\n")) == ["one", "three", "two"]


def test_one_pipe_for_both_keeps_the_order(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    assert done.stdout == b"one\ntwo\nthree\n"
    assert message(tmp_path) == "one\ntwo\nthree"


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_regular_files_are_read_and_not_replaced(tmp_path: Path, mode: str) -> None:
    output, errors = tmp_path / "output", tmp_path / "errors"
    output.write_bytes(b"from before\n")
    with output.open(mode) as out, errors.open(mode) as err:
        run(tmp_path, f"[ /proc/self/fd/1 -ef {output} ] && {FAILS}", stdout=out, stderr=err)

    assert output.read_bytes() == (b"from before\n" if mode == "ab" else b"") + b"one\nthree\n"
    assert message(tmp_path) == "one\nthree\ntwo"


def test_text_from_before_is_not_in_the_message(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_bytes(b"from before\n")
    with output.open("ab") as file:
        run(tmp_path, "exit 1", stdout=file, stderr=file)

    assert message(tmp_path) is None


def test_discarded_output_is_the_message(tmp_path: Path) -> None:
    run(tmp_path, FAILS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    assert message(tmp_path) == "one\ntwo\nthree"


def test_local_socket_receives_everything(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            run(tmp_path, FAILS, stdout=theirs, stderr=theirs)
        assert ours.recv(1000) == b"one\ntwo\nthree\n"
    assert message(tmp_path) == "one\ntwo\nthree"


def test_datagram_socket_is_not_replaced(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
    with ours, theirs:
        run(tmp_path, "echo one; echo two; exit 1", stdout=theirs, stderr=theirs)
        assert (ours.recv(1000), ours.recv(1000)) == (b"one\n", b"two\n")
    assert message(tmp_path) is None


def test_closed_streams_stay_closed(tmp_path: Path) -> None:
    script = 'exec "$@" >&- 2>&-'
    command = ["sh", "-c", script, "sh", *RUN, "sh", "-c", "[ ! -e /proc/self/fd/1 ] && exit 4"]
    assert subprocess.run(command, env=environment(tmp_path), check=False).returncode == 4


@pytest.mark.parametrize(
    ("printed", "recorded_as"),
    [
        (r"10\r50\r100\r\n", "100"),
        (r"\033[31;1mError:\033[0m no\n", "Error: no"),
        (r"\n\n  \nlast\n\n \n", "last"),
        (r"without a newline", "without a newline"),
        (r"\377\n", "\N{REPLACEMENT CHARACTER}"),
        ("", None),
    ],
)
def test_message_is_readable_text(tmp_path: Path, printed: str, recorded_as: str | None) -> None:
    run(tmp_path, f"printf '{printed}' >&2; exit 1", stderr=subprocess.PIPE)

    assert message(tmp_path) == recorded_as


def test_binary_output_is_unchanged(tmp_path: Path) -> None:
    """Large and small writes in turn: large ones are moved without being copied."""
    data = random.Random(1).randbytes(20 << 20)
    (tmp_path / "data").write_bytes(data)
    small = "for n in 1 2 3; do echo $n; done"
    script = f"cd {tmp_path}; head -c 5000000 data; {small}; tail -c +5000001 data; exit 1"
    done = run(tmp_path, script, stdout=subprocess.PIPE)

    assert done.stdout == data[:5_000_000] + b"1\n2\n3\n" + data[5_000_000:]


def test_last_line_after_much_output_is_the_message(tmp_path: Path) -> None:
    run(tmp_path, "yes aaaa | head -c 30000000; echo; echo last; exit 1", stdout=subprocess.DEVNULL)

    assert (message(tmp_path) or "").split("\n")[-1] == "last"


def start(directory: Path, script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*RUN, "sh", "-c", script], env=environment(directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_first_write_after_the_reader_left_gets_sigpipe(tmp_path: Path) -> None:
    marker = tmp_path / "survived"
    with start(tmp_path, f"echo ready; read line; sleep 0.3; echo more; touch {marker}") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(30) == -signal.SIGPIPE
    assert not marker.exists()


def test_process_left_behind_can_go_on_writing(tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    left_behind = f"(while [ ! -e {go} ]; do sleep 0.01; done; echo late; touch {done}) &"
    with start(tmp_path, f"{left_behind} echo now; exit 4") as process:
        assert process.stdout is not None
        assert process.wait(30) == 4  # although the pipe is still open
        assert message(tmp_path) == "now"
        go.touch()
        assert process.stdout.read() == b"now\nlate\n"
    assert done.exists()


def test_process_left_behind_that_never_pauses_delays_nothing(tmp_path: Path) -> None:
    with start(tmp_path, "yes & exit 4") as process:
        assert process.stdout is not None
        while process.poll() is None:
            process.stdout.read(1 << 16)
        assert process.returncode == 4


def test_standard_input_is_not_kept_open(tmp_path: Path) -> None:
    with start(tmp_path, "sleep 60 & echo $!; exit 0") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sleep = int(process.stdout.readline())
        assert process.wait(30) == 0
        with pytest.raises(BrokenPipeError):
            os.write(process.stdin.fileno(), b"x")
        os.kill(sleep, signal.SIGKILL)


def test_output_is_delivered_to_a_slow_reader(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    with start(tmp_path, f"yes | head -c 200000; touch {ended}; exit 3") as process:
        assert process.stdout is not None
        wait_for(lambda: ended.exists() or None)  # a signal before the end would end the command
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        assert len(process.stdout.read()) == 200_000
        assert process.wait(30) == 3


def test_signal_ends_the_wait_for_a_slow_reader(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    with start(tmp_path, f"yes | head -c 200000; touch {ended}; exit 3") as process:
        assert process.stdout is not None
        wait_for(lambda: ended.exists() or None)  # a signal before the end would end the command
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.terminate()
        assert process.wait(30) == 3
        assert len(process.stdout.read()) == 200_000


def test_streams_are_untouched_under_systemd(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    inode = os.fstat(writer).st_ino
    command = [*RUN, "sh", "-c", "stat --dereference --format=%i /proc/self/fd/1"]
    under_systemd = environment(tmp_path, INVOCATION_ID="0" * 31 + "1")
    subprocess.run(command, env=under_systemd, stdout=writer, check=True)
    os.close(writer)

    assert int(os.read(reader, 100)) == inode
    os.close(reader)


def test_command_runs_unwatched_without_a_process_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    reader, writer = os.pipe()
    saved = os.dup(1)
    os.dup2(writer, 1)
    try:
        output = CommandOutput()
    finally:
        os.dup2(saved, 1)
    output.command_started()
    output.command_ended()

    assert not [action for action in output.file_actions if action[2] == 1]
    assert output.is_delivered(0)
    for descriptor in (reader, writer, saved):
        os.close(descriptor)


@contextmanager
def terminal(directory: Path, *command: str, rows: int = 33, columns: int = 77) -> Iterator[tuple[int, int]]:
    """Start a command on a terminal of its own; yield its process id and the terminal."""
    process, descriptor = pty.fork()
    if process == 0:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.execvpe(command[0], command, environment(directory))
    try:
        yield process, descriptor
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(process, 0)
        os.close(descriptor)


def read_until(terminal: int, text: bytes) -> bytes:
    printed = b""
    until = time.monotonic() + 30
    while text not in printed:
        assert time.monotonic() < until, printed
        printed += os.read(terminal, 1000)
    return printed


def read_rest(terminal: int) -> bytes:
    printed = b""
    with suppress(OSError):
        while part := os.read(terminal, 1000):
            printed += part
    return printed


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_terminal_output_is_the_message(tmp_path: Path) -> None:
    script = "test -t 0 -a -t 1 -a -t 2 && stty size <&1 && printf 'no\\tway\\n' >&2; exit 100"
    with terminal(tmp_path, *RUN, "sh", "-c", script) as (process, screen):
        assert read_rest(screen) == b"33 77\r\nno\tway\r\n"
        assert ended(process) == 100
    assert message(tmp_path) == "33 77\nno\tway"


def test_new_window_size_reaches_the_command(tmp_path: Path) -> None:
    script = "trap 'stty size <&1; exit' WINCH; echo ready; while :; do sleep 0.01; done"
    with terminal(tmp_path, *RUN, "sh", "-c", script) as (process, screen):
        read_until(screen, b"ready")
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 88, 0, 0))
        assert b"44 88" in read_rest(screen)
        assert ended(process) == 0


LATE = """
import time
from service_record.cli import command_output, main
run = command_output._Relay.run
command_output._Relay.run = lambda relay: (time.sleep(0.5), run(relay))
main()
"""
"""The command, with a relay that begins late, as on a busy machine."""


@pytest.mark.parametrize("program", [RUN, [sys.executable, "-c", LATE, "run", "--"]], ids=["at once", "late"])
def test_modes_of_output_apply_to_the_keys(tmp_path: Path, program: list[str]) -> None:
    """ncurses turns off echo and line buffering on the terminal that it writes to."""
    script = (
        "exec 3>&1; saved=$(stty -g <&3); stty -echo -icanon <&1; echo ready; dd bs=1 count=1 2>/dev/null; "
        "stty $saved <&1; echo; echo restored; read line; echo $line"
    )
    with terminal(tmp_path, *program, "sh", "-c", script) as (process, screen):
        before = termios.tcgetattr(screen)
        read_until(screen, b"ready")
        time.sleep(0.2)
        os.write(screen, b"x")  # without a newline
        assert read_until(screen, b"restored").count(b"x") == 1  # printed by dd and not echoed
        time.sleep(0.2)
        assert termios.tcgetattr(screen) == before
        os.write(screen, b"typed\n")
        assert read_rest(screen).count(b"typed") == 2  # echoed and printed
        assert ended(process) == 0


def test_stopped_job_continues(tmp_path: Path) -> None:
    """^Z stops every process of the job; `fg` continues them."""
    job = " ".join([*map(repr, RUN), "sh", "-c", "'echo before; kill -TSTP 0; echo after; exit 9'"])
    script = f"set -m; {job}; echo stopped $?; fg; echo ended $?"
    with terminal(tmp_path, "bash", "-c", script) as (_, screen):
        printed = read_rest(screen)
    assert b"before\r\n" in printed
    assert b"stopped 148\r\n" in printed
    assert printed.endswith(b"after\r\nended 9\r\n")
    assert message(tmp_path) == "before\nafter"


def test_command_ends_with_its_terminal(tmp_path: Path) -> None:
    process, screen = pty.fork()
    if process == 0:
        loop = "echo ready; while :; do sleep 0.01; done"
        os.execvpe(RUN[0], [*RUN, "sh", "-c", loop], environment(tmp_path))
    read_until(screen, b"ready")
    os.close(screen)

    assert ended(process) == -signal.SIGHUP
    assert read_entries(tmp_path)[-1].signal == "HUP"

"""Programs that are run for their output: no behaviour of theirs hangs the caller or fills its memory."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service_record.record.programs import (
    Deadline,
    ForkedProgram,
    NoProgramError,
    Program,
    ProgramError,
    ProgramTimeoutError,
    TooMuchOutputError,
    reading,
    run,
    run_confined,
)
from tests.waiting import wait_for

LIMIT = 1 << 20


def shell(script: str) -> tuple[str, ...]:
    return ("bash", "-c", script)


def is_gone(pid: str) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_status_output_and_errors_are_returned() -> None:
    done = run(shell("echo out; echo error >&2; exit 3"), os.environ, Deadline(20), LIMIT)
    assert done == (3, b"out\n", b"error\n")


def test_end_of_flood_fits_bounded_memory() -> None:
    # VmHWM is the peak of this process. ru_maxrss would also count the parent from before the exec.
    code = """if True:
        import os, re
        from pathlib import Path
        from service_record.record.programs import Deadline, run
        flood = ("bash", "-c", "head -c 300000000 /dev/zero; echo the end")
        output = run(flood, os.environ, Deadline(60), 1000, keeps_end=True)[1]
        peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
        print(len(output), output.endswith(b"the end\\n"), peak[1])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    size, has_end, kibibytes = done.stdout.split()

    assert (size, has_end) == ("1000", "True")
    assert int(kibibytes) < 100_000


def test_missing_program_is_an_error() -> None:
    with pytest.raises(NoProgramError, match="no program no-such-program"):
        run(("no-such-program",), os.environ, Deadline(5), LIMIT)


def test_argument_with_a_null_character_is_an_error() -> None:
    with pytest.raises(ProgramError, match="null"):
        run(("true", "a\0b"), os.environ, Deadline(5), LIMIT)


def test_more_output_than_the_limit_is_an_error() -> None:
    with pytest.raises(TooMuchOutputError):
        run(shell("exec cat /dev/zero"), os.environ, Deadline(20), 1000)


def test_program_and_its_children_end_at_the_deadline(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 600 & echo $! >{pid}.new; mv {pid}.new {pid}; wait"
    with pytest.raises(ProgramTimeoutError):
        run(shell(script), os.environ, Deadline(1), LIMIT)
    wait_for(lambda: is_gone(pid.read_text().strip()))


def test_event_ends_the_program_early() -> None:
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    before = time.monotonic()
    with pytest.raises(ProgramTimeoutError):
        run(("sleep", "600"), os.environ, Deadline(600, stop=stop), LIMIT)
    assert time.monotonic() - before < 60


def test_output_unread_at_the_deadline_is_an_error(tmp_path: Path) -> None:
    """The reader was too slow. What it has read must not pass for the whole output."""
    deadline = Deadline(600)
    go = tmp_path / "go"
    script = f"printf first; until [ -e {go} ]; do sleep 0.01; done; printf second"
    program = Program(shell(script), os.environ)
    chunks = program.chunks(deadline, LIMIT)
    assert next(chunks) == b"first"
    go.touch()
    wait_for(lambda: is_gone(str(program._process.pid)))
    deadline.cut_short()
    with pytest.raises(ProgramTimeoutError):
        list(chunks)


def test_output_is_read_up_to_a_size() -> None:
    with reading(shell("printf abcdefg"), os.environ, Deadline(20), LIMIT) as (program, read):
        pieces = list(iter(lambda: read(3), b""))
    assert (pieces, program.status) == ([b"abc", b"def", b"g"], 0)


def test_program_is_stopped_if_nobody_reads_its_output() -> None:
    with reading(shell("echo $$; exec sleep 600"), os.environ, Deadline(600), LIMIT) as (program, read):
        pid = read(100).decode().strip()
    assert (is_gone(pid), program.status) == (True, None)


def test_second_close_signals_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with reading(("true",), os.environ, Deadline(20), LIMIT) as (program, read):
        read(1)
        signalled: list[int] = []
        monkeypatch.setattr(os, "killpg", lambda pid, _: signalled.append(pid))
    program.close()
    assert not signalled


def test_process_reaped_by_others_is_not_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may belong to another process by then."""
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: signalled.append(pid))
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        output = run(shell("echo out"), os.environ, Deadline(20), LIMIT)[1]
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (output, signalled) == (b"out\n", [])


def test_environment_has_no_secrets_unless_given() -> None:
    environ = {**os.environ, "HOME": "/home/user", "API_TOKEN": "secret"}
    output = run(("env",), environ, Deadline(20), LIMIT, variables={"LANG": "C"})[1].decode()
    assert "API_TOKEN" not in output
    assert {"HOME=/home/user", "LANG=C", "LC_ALL=C.UTF-8"} <= set(output.splitlines())


def test_program_reads_a_given_file() -> None:
    with tempfile.TemporaryFile() as stdin:
        stdin.write(b"input")
        stdin.seek(0)
        assert run(("cat",), os.environ, Deadline(20), LIMIT, stdin=stdin)[1] == b"input"


def test_program_starts_in_given_directory(tmp_path: Path) -> None:
    assert run(("pwd",), os.environ, Deadline(20), LIMIT)[1] == b"/\n"
    inside = run(("pwd",), os.environ, Deadline(20), LIMIT, directory=str(tmp_path))[1]
    assert inside.decode().strip() == str(tmp_path.resolve())


def die() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def sleep_long() -> bytes:
    time.sleep(60)
    return b"late"


def children() -> str:
    """Return the processes that this thread started and did not wait for."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


def test_forked_function_returns_its_output() -> None:
    large = os.urandom(1 << 20)  # more than a pipe holds

    assert run_confined(lambda: ForkedProgram(lambda: large), 5, 2 << 20) == large


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda: bytes([1 // 0]), "ZeroDivisionError: integer division or modulo by zero"),
        (die, "it takes more than 1 s of a processor, or too much memory"),
        (sleep_long, "it takes more than 3 s"),
        (lambda: bytes(2 << 20), "stopped after "),
        (lambda: sys.exit("gone"), "SystemExit: gone"),
    ],
    ids=["exception", "killed", "late", "too much", "exit"],
)
def test_failing_forked_function_has_a_reason(function: Callable[[], bytes], reason: str) -> None:
    before = children()
    with pytest.raises(ProgramError, match=f"^{re.escape(reason)}"):
        run_confined(lambda: ForkedProgram(function), 1, 1 << 20)
    assert children() == before


def test_stopped_program_ends_at_once() -> None:
    stop = threading.Event()
    stop.set()

    with pytest.raises(ProgramTimeoutError):
        run_confined(lambda: ForkedProgram(sleep_long), 60, 1, stop)

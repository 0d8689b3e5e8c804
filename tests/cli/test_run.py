"""`service-record run`: a command with its record, which nobody can tell from the command alone."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import require
from tests.programs import environment, read_entries, summarize_entries

RUN = [sys.executable, "-c", "from service_record.cli import main; main()", "run"]
TRAPS = "trap 'echo {signal}; exit 9' {signal}; echo ready; while :; do sleep 0.01; done"
"""A script that says when it can be signalled, and which signal it got."""


def run(directory: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *arguments],
        env=environment(directory, **more),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command, started and ready: it has printed its first line."""
    process = subprocess.Popen(
        [*RUN, *arguments], env=environment(directory), stdout=subprocess.PIPE, text=True
    )
    assert require(process.stdout).readline() == "ready\n"
    return process


def test_command_is_a_run_of_the_service(tmp_path: Path) -> None:
    done = run(tmp_path, "--", "true")
    entries = read_entries(tmp_path)

    assert done.returncode == 0
    assert summarize_entries(entries) == ["service start", "service end success"]
    assert entries[0].recorder is not None
    assert entries[0].recorder.startswith("run/")


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        (["--stage", "first"], ["stage start first", "stage end first failure"]),
        (
            ["--service", "job", "--stage", "first"],
            ["service start", "stage start first", "stage end first failure", "service end failure"],
        ),
        (["--pre-command", "pull"], ["pre-command start pull", "pre-command end pull failure"]),
        (
            ["--post-command", "tidy", "--stage", "first"],
            [
                "post-command start tidy",
                "stage start tidy first",
                "stage end tidy first failure",
                "post-command end tidy failure",
            ],
        ),
    ],
    ids=["stage", "service-and-stage", "pre-command", "post-command-and-stage"],
)
def test_options_say_what_the_command_is(tmp_path: Path, options: list[str], summary: list[str]) -> None:
    run(tmp_path, *options, "--", "false")

    assert summarize_entries(read_entries(tmp_path)) == summary


def test_command_of_a_pre_command_is_its_stage(tmp_path: Path) -> None:
    run(tmp_path, "--stage", "first", "true", PRE_COMMAND="pull")

    assert summarize_entries(read_entries(tmp_path)) == [
        "stage start pull first",
        "stage end pull first success",
    ]


def test_without_a_service_around_the_program_names_it(tmp_path: Path) -> None:
    run(tmp_path, "/bin/true", SERVICE_NAME="")

    assert summarize_entries(read_entries(tmp_path, "true")) == ["service start", "service end success"]


@pytest.mark.parametrize("status", [0, 1, 2, 126, 127, 255])
def test_exit_status_is_that_of_the_command(tmp_path: Path, status: int) -> None:
    done = run(tmp_path, "--", "sh", "-c", f"exit {status}")
    end = read_entries(tmp_path)[-1]

    assert done.returncode == status
    assert done.stderr == ""
    assert (end.exit_code, end.command) == ((status, f"sh -c 'exit {status}'") if status else (None, None))


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT", "SEGV", "PIPE", "USR1"])
def test_run_ends_by_the_signal_of_its_command(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, "--", "sh", "-c", f"ulimit -c 0; kill -{name} $$")
    end = read_entries(tmp_path)[-1]

    assert done.returncode == -signal.Signals[f"SIG{name}"]
    assert (end.signal, end.exit_code) == (name, None)


@pytest.mark.parametrize(("offset", "name"), [(0, "RTMIN"), (3, "RTMIN+3")])
def test_real_time_signal_is_recorded_by_its_name(tmp_path: Path, offset: int, name: str) -> None:
    number = signal.SIGRTMIN + offset
    done = run(tmp_path, "--", "sh", "-c", f"kill -{number} $$")

    assert done.returncode == -number
    assert read_entries(tmp_path)[-1].signal == name


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "ALRM", "RTMIN"])
def test_signal_is_passed_to_the_command(tmp_path: Path, name: str) -> None:
    process = start(tmp_path, "--", "bash", "-c", TRAPS.format(signal=name))
    process.send_signal(signal.Signals[f"SIG{name}"])
    printed, _ = process.communicate(timeout=30)

    assert (process.returncode, printed) == (9, f"{name}\n")
    assert read_entries(tmp_path)[-1].exit_code == 9


def test_command_that_survives_a_signal_continues(tmp_path: Path) -> None:
    process = start(tmp_path, "--", "bash", "-c", "trap '' TERM; echo ready; read -t 0.3 <> <(:); echo done")
    process.terminate()
    printed, _ = process.communicate(timeout=30)

    assert (process.returncode, printed) == (0, "done\n")


def test_terminal_interrupt_reaches_the_command_once(tmp_path: Path) -> None:
    counts = "trap 'echo caught' INT; echo ready; for i in 1 2 3 4 5; do sleep 0.1; done; exit 4"
    process, terminal = pty.fork()
    if process == 0:
        os.execve(sys.executable, [*RUN, "--", "bash", "-c", counts], environment(tmp_path))
    printed = b""
    while b"ready" not in printed:
        printed += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    printed += os.read(terminal, 1000)
    os.close(terminal)

    assert status == 4
    assert printed.count(b"caught") == 1


def test_command_has_streams_and_process_group_of_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RUN, "--", "bash", "-c", "cat; echo error >&2; ps -o pgid= -p $$ -p $PPID | uniq | wc -l"],
        env=environment(tmp_path),
        check=False,
        input="typed\n",
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("typed\n1\n", "error\n")


def test_command_starts_without_blocked_or_ignored_signals(tmp_path: Path) -> None:
    done = run(tmp_path, "--", "sed", "-n", "s/^Sig\\(Blk\\|Ign\\):.//p", "/proc/self/status")
    standard = [int(mask, 16) & 0x7FFFFFFF for mask in done.stdout.split()]

    assert standard == [0, 0]


@pytest.mark.parametrize(
    ("program", "status", "message"),
    [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("/etc/passwd", 126, "/etc/passwd: Permission denied"),
        ("/", 126, "/: Permission denied"),
    ],
    ids=["not-found", "not-executable", "a-directory"],
)
def test_command_that_cannot_start_is_a_failure(
    tmp_path: Path, program: str, status: int, message: str
) -> None:
    done = run(tmp_path, "--stage", "first", "--service", "job", "--", program)
    end = read_entries(tmp_path)[-1]

    assert (done.returncode, done.stderr) == (status, f"service-record run: {message}\n")
    assert (end.phase, end.exit_code, end.error_message) == ("service end", status, message)


@pytest.mark.parametrize("interpreter", ["/no/such/interpreter", "/no/such/interpreter -x"])
def test_missing_interpreter_is_named(tmp_path: Path, interpreter: str) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{interpreter}\n")
    script.chmod(0o755)
    done = run(tmp_path, "--", str(script))
    end = read_entries(tmp_path)[-1]
    message = f"{script}: its interpreter /no/such/interpreter does not exist"

    assert (done.returncode, done.stderr) == (126, f"service-record run: {message}\n")
    assert (end.exit_code, end.error_message) == (126, message)


def test_options_after_the_command_are_the_command_s(tmp_path: Path) -> None:
    done = run(tmp_path, "echo", "--service", "other", "--", "-n")

    assert done.stdout == "--service other -- -n\n"
    assert summarize_entries(read_entries(tmp_path)) == ["service start", "service end success"]


def test_unwritable_record_does_not_stop_the_command(tmp_path: Path) -> None:
    done = run(tmp_path, "--", "sh", "-c", "echo out; exit 3", SERVICE_RECORDS_DIR="/proc/no/such")

    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "")


def test_killed_run_leaves_its_record_open(tmp_path: Path) -> None:
    process = start(tmp_path, "--", "sh", "-c", "echo ready; exec sleep 0.2")
    process.kill()
    process.wait()

    assert summarize_entries(read_entries(tmp_path)) == ["service start"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["--pre-command", "a", "--post-command", "b", "true"], ["--no-such-option", "true"]],
    ids=["no-command", "two-commands", "unknown-option"],
)
def test_misuse_runs_nothing(tmp_path: Path, arguments: list[str]) -> None:
    assert run(tmp_path, *arguments).returncode == 2
    assert not (tmp_path / "records").exists()

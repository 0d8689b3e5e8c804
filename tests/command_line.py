"""Run `service-record` in a process, as a user does."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.fork_server import MAX_REQUEST_BYTES, Command, ForkServer

PROGRAM = [sys.executable, "-c", "from service_record.cli import main; main(prog_name='service-record')"]
TIMEOUT_SECONDS: Final = 300
"""A command that takes longer hangs. On a busy machine one may take a minute."""
_TERMINAL_VARIABLES = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "SERVICE_RECORDS_DIR"}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    out: str
    err: str


def environment(**variables: str) -> Mapping[str, str]:
    """Return this process's environment, with New York's time zone, without terminal variables."""
    kept = {name: value for name, value in os.environ.items() if name not in _TERMINAL_VARIABLES}
    return kept | {"TZ": "America/New_York", "TERM": "xterm"} | variables


@cache
def get_fork_server() -> ForkServer:
    """Return the fork server of this test process."""
    return ForkServer()


def service_record(
    *arguments: object, stdin: bytes = b"", cwd: Path | None = None, **variables: str
) -> Answer:
    """Run `service-record` and wait for its end."""
    umask = os.umask(0o022)
    os.umask(umask)
    words = [*map(str, arguments)]
    command = Command(words, environment(**variables), str(cwd or Path.cwd()), umask)
    is_special = any(name.startswith("PYTHON") for name in variables)  # Python reads these when it starts
    if is_special or sum(map(len, words)) > MAX_REQUEST_BYTES / 4:
        return _run_in_new_process(command, stdin)
    return run_command(command, stdin)


def run_command(command: Command, stdin: bytes = b"") -> Answer:
    """Run a command by the fork server and wait for its end."""
    (reads, feeds), (out, outs), (err, errs) = (os.pipe() for _ in range(3))
    with ThreadPoolExecutor(3) as threads:
        try:
            started = get_fork_server().start(command, [reads, outs, errs])
        finally:
            for descriptor in (reads, outs, errs):
                os.close(descriptor)
        killing = threading.Timer(TIMEOUT_SECONDS, os.kill, [started.pid, signal.SIGKILL])
        killing.start()
        threads.submit(_write_all, feeds, stdin)
        outputs = [threads.submit(_read_all, descriptor) for descriptor in (out, err)]
        status = started.wait()
        killing.cancel()
        return Answer(status, *(text.result().decode() for text in outputs))


def _write_all(descriptor: int, content: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as stream:
        stream.write(content)


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


def _run_in_new_process(command: Command, stdin: bytes) -> Answer:
    done = subprocess.run(
        [*PROGRAM, *command.arguments],
        input=stdin,
        capture_output=True,
        env=command.environment,
        cwd=command.directory,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

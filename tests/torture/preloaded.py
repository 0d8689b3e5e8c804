"""A `service-record` process that has loaded its modules and forks for each run.

Faults in such a run never hit files of Python or of the program itself. The process reads one JSON object per
line from standard input: the run to start. It prints `process PID` and waits for a line; when the run is
over, it prints `ended STATUS`. Each run has its own time namespace.
"""

import atexit
import importlib
import json
import os
import pkgutil
import resource
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from select import select
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, Final

from tests.programs import REPOSITORY
from tests.shell.scripts import kill_group
from tests.time_namespace import set_uptime

PACKAGES: Final = (
    "service_record.cli.report",
    "service_record.reporter",
    "service_record.bundle",
    "service_record.redaction",
)
ERROR_MODULES: Final = ("traceback", "encodings.idna")
"""Modules that Python loads only when an error occurs."""

_TIMEOUT_SECONDS: Final = 100
_MAX_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """Arguments and environment of a run."""

    arguments: Sequence[str]
    variables: Mapping[str, str]
    uptime: int
    """Uptime of the host in seconds."""
    file_size: int | None = None
    """Limit of file size in bytes."""
    loads_modules: bool = False
    """True to load the modules that this run loads into the parent, for the later runs."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Exit status (negative: a signal) and output of a run."""

    status: int
    output: str
    """Standard output and standard error."""


class PreloadedProgram:
    """The waiting program. It runs one command at a time."""

    def __init__(self, program: "Popen[bytes]") -> None:
        self._program = program
        self.is_usable = True

    def run(
        self, run: Run, attach: Callable[[int], AbstractContextManager[object]] = nullcontext
    ) -> RunResult:
        """Run a command. `attach` is entered with its process id before it begins and left after it has
        ended.

        Raises TimeoutExpired when it hangs. After any error the program is not usable any more.
        """
        with _create_pipe() as (path, output):
            order = {
                "arguments": [*run.arguments],
                "variables": {**run.variables},
                "uptime": run.uptime,
                "file_size": run.file_size,
                "loaded": f"{path}.loaded" if run.loads_modules else None,
                "output": path,
            }
            with self._kill_after_error():
                self._send(json.dumps(order))
                process = self._receive("process")
                try:
                    with attach(process), _kill_at_end(process):
                        self._send("")
                        status = self._receive("ended")
                finally:
                    kill_group(process)
            return RunResult(status, _read_output(output).decode(errors="replace"))

    def _send(self, line: str) -> None:
        assert self._program.stdin
        self._program.stdin.write(line.encode() + b"\n")
        self._program.stdin.flush()

    def _receive(self, expected: str) -> int:
        assert self._program.stdout
        if not select([self._program.stdout], [], [], _TIMEOUT_SECONDS)[0]:
            raise TimeoutExpired("service-record", _TIMEOUT_SECONDS)
        word, _, number = self._program.stdout.readline().decode().partition(" ")
        assert word == expected, word
        return int(number)

    @contextmanager
    def _kill_after_error(self) -> Iterator[None]:
        """Kill the program after an error, so that its late output is not taken for that of the next run."""
        try:
            yield
        except BaseException:
            self.is_usable = False
            self._program.kill()
            raise


@contextmanager
def start_preloaded() -> Iterator[PreloadedProgram]:
    """Start the program and kill it at the end of the block."""
    variables = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(REPOSITORY)}
    with Popen(
        [sys.executable, "-m", __name__], bufsize=0, stdin=PIPE, stdout=PIPE, env=variables
    ) as program:
        try:
            yield PreloadedProgram(program)
        finally:
            program.kill()


@contextmanager
def _kill_at_end(process: int) -> Iterator[None]:
    """Kill the process and its children at the end of the block."""
    try:
        yield
    finally:
        kill_group(process)


@contextmanager
def _create_pipe() -> Iterator[tuple[str, int]]:
    """Create a named pipe; return its path and a descriptor of its reading end."""
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/output"
        os.mkfifo(path)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        try:
            yield path, descriptor
        finally:
            os.close(descriptor)


def _read_output(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _MAX_READ_BYTES)
    except BlockingIOError:  # no output
        return b""


def _load_packages() -> None:
    for name in PACKAGES:
        importlib.import_module(name)
        for module in pkgutil.walk_packages(getattr(sys.modules[name], "__path__", ()), f"{name}."):
            importlib.import_module(module.name)
    for name in ERROR_MODULES:
        importlib.import_module(name)


def _load_modules(loaded: Path) -> None:
    for name in loaded.read_text().split():
        if name not in sys.modules:
            importlib.import_module(name)


def _wait_for_run() -> None:
    """Wait for the next run and return in its process; exit when there is none."""
    while line := _read_line():
        order = json.loads(line)
        assert threading.active_count() == 1
        process = os.fork()
        if process == 0:
            _prepare_process(order)
            return
        _, status = os.waitpid(process, 0)
        if order["loaded"]:
            _load_modules(Path(order["loaded"]))
        os.write(1, b"ended %d\n" % os.waitstatus_to_exitcode(status))
    raise SystemExit(0)


def _read_line() -> bytes:
    read = bytearray()
    while not read.endswith(b"\n"):
        piece = os.read(0, _MAX_READ_BYTES)
        if not piece:
            return b""
        read += piece
    return bytes(read)


def _prepare_process(order: Mapping[str, Any]) -> None:
    os.setsid()
    set_uptime(order["uptime"])
    os.environ.clear()
    os.environ.update(order["variables"])
    sys.argv = ["service-record", *order["arguments"]]
    output = os.open(order["output"], os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    if order["file_size"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_size"], resource.RLIM_INFINITY))
    if order["loaded"]:
        atexit.register(lambda: Path(order["loaded"]).write_text("\n".join(sys.modules)))
    os.write(1, b"process %d\n" % os.getpid())
    os.read(0, 1)
    for here, there in (nothing, 0), (output, 1), (output, 2):
        os.dup2(here, there)


if __name__ == "__main__":
    _load_packages()
    from service_record.cli import main

    _wait_for_run()
    main(prog_name="service-record")

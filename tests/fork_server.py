"""Run `service-record` commands by forks of a process that has already imported it.

Each command is a separate process with its own arguments, environment, directory and streams. Forking saves
the imports, which take longer than most commands. Each command reports the modules that it imported itself,
and the server imports them before the next fork.
"""

import atexit
import importlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from service_record.cli import main
from tests.time_namespace import set_uptime

REPOSITORY: Final = Path(__file__).resolve().parents[1]
MAX_REQUEST_BYTES: Final = 1 << 17
_MAX_NAMES_BYTES: Final = 1 << 17
_NUMBER: Final = struct.Struct("i")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run, without its program name."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    umask: int
    uptime: int | None = None
    """Seconds since boot that the command shall see, in a new time namespace. Needs root rights."""


class ForkServer:
    """The server process, used by one test process. It ends with the test run."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=REPOSITORY,
                pass_fds=[theirs.fileno()],
                # Pipes, like those of each command: Python checks only once whether a stream can seek.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )

    def start(self, command: Command, streams: Sequence[int]) -> "ForkedCommand":
        """Start a command with these file descriptors as standard input, output and error."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._requests, [msgspec.json.encode(command)], [theirs.fileno(), *streams])
        return ForkedCommand(ours)


class ForkedCommand:
    """A started command."""

    def __init__(self, results: socket.socket) -> None:
        self._results = results
        self.pid = self._read_number()

    def wait(self) -> int:
        """Wait for the end, and return the exit status, or the negative number of a signal."""
        with self._results:
            return os.waitstatus_to_exitcode(self._read_number())

    def _read_number(self) -> int:
        (number,) = _NUMBER.unpack(self._results.recv(_NUMBER.size))
        return int(number)


def fork_commands(requests: socket.socket) -> None:
    """Fork for each request until the client closes its socket. Returns only in the forked processes."""
    # This kind of socket keeps the messages of several processes apart.
    module_names, report_modules = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (module_names, report_modules):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 4)
        if not request:
            sys.exit()
        _import_reported_modules(module_names)
        if os.fork() == 0:
            requests.close()
            module_names.close()
            _run_and_report(msgspec.json.decode(request, type=Command), descriptors, report_modules)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _import_reported_modules(module_names: socket.socket) -> None:
    """Import the modules that earlier commands imported."""
    with suppress(BlockingIOError):
        while True:
            for name in module_names.recv(_MAX_NAMES_BYTES).decode().split():
                with suppress(ImportError):
                    importlib.import_module(name)


def _run_and_report(command: Command, descriptors: Sequence[int], report_modules: socket.socket) -> None:
    """Fork again and report the PID and exit status. Returns only in the process that runs the command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    results, *streams = descriptors
    if command.uptime is not None:
        set_uptime(command.uptime)
    pid = os.fork()
    if pid:
        for descriptor in streams:
            os.close(descriptor)
        os.write(results, _NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        os.write(results, _NUMBER.pack(status))
        os._exit(0)
    os.close(results)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(command.environment)
    time.tzset()
    os.umask(command.umask)
    os.chdir(command.directory)
    sys.argv = ["-c", *command.arguments]
    sys.path[0] = ""
    atexit.register(report_imported_modules, report_modules, frozenset(sys.modules))


def report_imported_modules(report_modules: socket.socket, before: frozenset[str]) -> None:
    """Send the names of the imported modules to the fork server.

    Private modules are left out, because their public modules import them in the right order: in Python 3.11,
    `_asyncio` is initialized twice if it is imported before `asyncio`, and then no loop has a current task.
    """
    names = [name for name in sys.modules if name not in before and not name.startswith("_")]
    with suppress(BlockingIOError):  # the buffer is full: many commands ended at the same time
        report_modules.send(" ".join(names).encode())


if __name__ == "__main__":
    fork_commands(socket.socket(fileno=int(sys.argv[1])))
    main(prog_name="service-record")

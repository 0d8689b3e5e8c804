"""A process that has the command line imported, and forks for each start of it.

Each start is still a process of its own, with its own arguments, environment, directory and streams. It saves
the imports, which take longer than most of what tests ask for. What a start imports besides is learned from
it, and imported for those that come later.
"""

import atexit
import ctypes
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

REPOSITORY: Final = Path(__file__).resolve().parents[1]
MAX_REQUEST_BYTES: Final = 1 << 17
_NAMES_BYTES: Final = 1 << 17
_NUMBER: Final = struct.Struct("i")
_NEW_TIME: Final = 0x80
"""CLONE_NEWTIME of unshare(2); Python has it from 3.12 on."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the command line."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    umask: int
    uptime: int | None = None
    """Seconds since boot as it shall see them, in a time namespace of its own (as root)."""


class Prepared:
    """The process, as a test sees it; it ends with the test run."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.prepared", str(theirs.fileno())],
                cwd=REPOSITORY,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # pipes, as those of each start: Python asks once whether it may seek
                stdout=subprocess.PIPE,
            )

    def start(self, start: Start, streams: Sequence[int]) -> "Started":
        """Start the command line with these three streams."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._requests, [msgspec.json.encode(start)], [theirs.fileno(), *streams])
        return Started(ours)


class Started:
    """One start, until it ends."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = self._number()

    def wait(self) -> int:
        """Return its exit status, negative for a signal."""
        with self._told:
            return os.waitstatus_to_exitcode(self._number())

    def _number(self) -> int:
        (number,) = _NUMBER.unpack(self._told.recv(_NUMBER.size))
        return int(number)


def serve(requests: socket.socket) -> None:
    """Fork for each request until nobody is left to ask; return in the process that is to run one."""
    learned, learn = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # its messages are whole
    for end in (learned, learn):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 4)
        if not request:
            sys.exit()
        _import_learned(learned)
        if os.fork() == 0:
            requests.close()
            learned.close()
            _run_and_tell(msgspec.json.decode(request, type=Start), descriptors, learn)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _import_learned(learned: socket.socket) -> None:
    """Import the modules that earlier starts imported."""
    with suppress(BlockingIOError):
        while True:
            for name in learned.recv(_NAMES_BYTES).decode().split():
                with suppress(ImportError):
                    importlib.import_module(name)


def _run_and_tell(start: Start, descriptors: Sequence[int], learn: socket.socket) -> None:
    """Fork once more and tell how that one ended; return in the process that is to run the command line."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, *streams = descriptors
    if start.uptime is not None:
        _set_uptime(start.uptime)
    pid = os.fork()
    if pid:
        for descriptor in streams:
            os.close(descriptor)
        os.write(told, _NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        os.write(told, _NUMBER.pack(status))
        os._exit(0)
    os.close(told)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(start.environment)
    time.tzset()
    os.umask(start.umask)
    os.chdir(start.directory)
    sys.argv = ["-c", *start.arguments]
    sys.path[0] = ""
    atexit.register(report_imports, learn, frozenset(sys.modules))


def _set_uptime(seconds: int) -> None:
    """Have the next process of this one live in a time namespace, so many seconds after its boot."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_TIME) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a time namespace")
    clocks = {"boottime": time.clock_gettime(time.CLOCK_BOOTTIME), "monotonic": time.monotonic()}
    offsets = "".join(f"{name} {seconds - int(now)} 0\n" for name, now in clocks.items())
    Path("/proc/self/timens_offsets").write_text(offsets)


def report_imports(learn: socket.socket, before: frozenset[str]) -> None:
    """Send the names of the imported modules, without private ones: they come with the modules they are of.

    In Python 3.11, `_asyncio` imported before `asyncio` is set up twice, and no loop has a current task then.
    """
    names = [name for name in sys.modules if name not in before and not name.startswith("_")]
    with suppress(BlockingIOError):  # many starts have ended at the same time
        learn.send(" ".join(names).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    main(prog_name="service-record")

"""`service-record` with all of its modules loaded, each run of it a fork: nothing that fails then is a file
of Python's or of the program itself.

It is told on standard input, in a line of JSON each, what to run. A run says `process` and its id, and goes
on when it gets a line; when it is over, `ended` and its exit status are said. Each is in a time namespace of
its own.
"""

import atexit
import ctypes
import importlib
import json
import os
import pkgutil
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from select import select
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, Final

from tests.programs import REPOSITORY
from tests.shell.scripts import kill_group

OWN: Final = (
    "service_record.cli.report",
    "service_record.reporter",
    "service_record.bundle",
    "service_record.redaction",
)
LATER: Final = ("traceback", "encodings.idna")
"""Modules that Python loads when something fails."""

_SECONDS: Final = 100
_MOST: Final = 1 << 20
_NEW_TIME: Final = 0x80
"""CLONE_NEWTIME, see unshare(2)."""


@dataclass(frozen=True, slots=True)
class Run:
    """Program to run, and its surroundings."""

    arguments: Sequence[str]
    variables: Mapping[str, str]
    uptime: int
    """Seconds that the host is up."""
    file_size: int | None = None
    """Beyond which no file can be written to."""
    is_first: bool = False
    """True when all modules that it loads are to be there in the runs behind it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """End of a run; a negative status is a signal's."""

    status: int
    said: str
    """On both outputs."""


class Preloaded:
    """The program, waiting; one run at a time."""

    def __init__(self, program: "Popen[bytes]") -> None:
        self._program = program
        self.is_usable = True

    def run(self, run: Run, before: Callable[[int], AbstractContextManager[object]] = nullcontext) -> Ran:
        """Have something run; `before` it begins, its process can be attached to, until it is over.

        Raises TimeoutExpired when it hangs. After that, or anything else that went wrong, there is no other.
        """
        with _pipe() as (path, said):
            order = {
                "arguments": [*run.arguments],
                "variables": {**run.variables},
                "uptime": run.uptime,
                "file_size": run.file_size,
                "loaded": f"{path}.loaded" if run.is_first else None,
                "output": path,
            }
            with self._or_never_again():
                self._tell(json.dumps(order))
                process = self._answer("process")
                try:
                    with before(process), _killed(process):
                        self._tell("")
                        status = self._answer("ended")
                finally:
                    kill_group(process)
            return Ran(status, _read(said).decode(errors="replace"))

    def _tell(self, line: str) -> None:
        assert self._program.stdin
        self._program.stdin.write(line.encode() + b"\n")
        self._program.stdin.flush()

    def _answer(self, about: str) -> int:
        assert self._program.stdout
        if not select([self._program.stdout], [], [], _SECONDS)[0]:
            raise TimeoutExpired("service-record", _SECONDS)
        said, _, number = self._program.stdout.readline().decode().partition(" ")
        assert said == about, said
        return int(number)

    @contextmanager
    def _or_never_again(self) -> Iterator[None]:
        """Discard the late output of a program whose run went wrong: it is not about the next."""
        try:
            yield
        except BaseException:
            self.is_usable = False
            self._program.kill()
            raise


@contextmanager
def preloaded() -> Iterator[Preloaded]:
    """The program, until it is not needed any more."""
    variables = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(REPOSITORY)}
    with Popen(
        [sys.executable, "-m", __name__], bufsize=0, stdin=PIPE, stdout=PIPE, env=variables
    ) as program:
        try:
            yield Preloaded(program)
        finally:
            program.kill()


@contextmanager
def _killed(process: int) -> Iterator[None]:
    """At the end of it the process is not there any more, nor what it has left behind."""
    try:
        yield
    finally:
        kill_group(process)


@contextmanager
def _pipe() -> Iterator[tuple[str, int]]:
    """The name of a pipe, and our end of it."""
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/output"
        os.mkfifo(path)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        try:
            yield path, descriptor
        finally:
            os.close(descriptor)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _MOST)
    except BlockingIOError:  # nothing
        return b""


def _load() -> None:
    for name in OWN:
        importlib.import_module(name)
        for module in pkgutil.walk_packages(getattr(sys.modules[name], "__path__", ()), f"{name}."):
            importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)


def _load_what_it_had(loaded: Path) -> None:
    for name in loaded.read_text().split():
        if name not in sys.modules:
            importlib.import_module(name)


def _next_run() -> None:
    """Returns in the process of the next run; ends the program when there is none."""
    while line := _line():
        order = json.loads(line)
        assert threading.active_count() == 1
        process = os.fork()
        if process == 0:
            _begin(order)
            return
        _, status = os.waitpid(process, 0)
        if order["loaded"]:
            _load_what_it_had(Path(order["loaded"]))
        os.write(1, b"ended %d\n" % os.waitstatus_to_exitcode(status))
    raise SystemExit(0)


def _line() -> bytes:
    read = bytearray()
    while not read.endswith(b"\n"):
        piece = os.read(0, _MOST)
        if not piece:
            return b""
        read += piece
    return bytes(read)


def _begin(order: Mapping[str, Any]) -> None:
    os.setsid()
    _set_uptime(order["uptime"])
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


def _set_uptime(seconds: int) -> None:
    """As unshare(1) does it, without a program."""
    system = ctypes.CDLL(None, use_errno=True)
    up, awake = int(time.clock_gettime(time.CLOCK_BOOTTIME)), int(time.monotonic())
    if system.unshare(_NEW_TIME):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/timens_offsets").write_text(
        f"boottime {seconds - up} 0\nmonotonic {seconds - awake} 0\n"
    )
    namespace = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    if system.setns(namespace, _NEW_TIME):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)


if __name__ == "__main__":
    _load()
    from service_record.cli import main

    _next_run()
    main(prog_name="service-record")

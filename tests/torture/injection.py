"""Run programs under strace and make their system calls fail.

A program runs once without faults to list the calls that it makes between two marks. A mark is a stat of a
path below /torture: the path never exists, but the call is in the trace. Calls are counted per process, from
the time when the program prints `ready`.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Final

from tests.shell.scripts import kill_group

ERRORS: Final = ("ENOSPC", "EIO", "EINTR", "EROFS")
KILL: Final = "KILL"
MARKS: Final = "/torture/"
BEGIN, END = "begin", "end"

_INTERRUPTIONS: Final = 20
_TIMEOUT_SECONDS: Final = 60
_STRACE: Final = ("strace", "-f", "-s", "8192", "-o")
_CALL: Final = re.compile(r"^(\d+) +([a-z]\w*)\(")
_COPIES_A_DESCRIPTOR: Final = re.compile(r" fcntl\(\d+(<[^>]*>)?, F_(DUPFD|[GS]ETF[DL])\b")
"""fcntl(2) calls that involve no disk. bash duplicates the descriptors of a command with them."""
_CLOSES_A_PIPE: Final = re.compile(r" close\(\d+<pipe:")
_MARK: Final = re.compile(rf'"{MARKS}([^"]+)"')
_MARK_CALLS: Final = ("?newfstatat", "?access", "?faccessat2", "?stat")
_WITHOUT_RETURN: Final = frozenset({"exit", "exit_group", "rt_sigreturn", "execve"})
_ON_FILES: Final = """
access chdir chmod chown connect copy_file_range creat faccessat faccessat2 fallocate fchdir
fchmod fchmodat fchown fchownat fcntl fdatasync flock fstat fstatfs fsync ftruncate getcwd getdents64
getxattr ioctl lgetxattr link linkat listxattr lseek lstat mkdir mkdirat newfstatat open openat openat2
poll pread64 preadv pwrite64 pwritev read readlink readlinkat readv recvfrom recvmsg rename
renameat renameat2 rmdir select sendfile sendmsg sendto setxattr shutdown socket stat statfs statx symlink
symlinkat sync_file_range syncfs truncate umask unlink unlinkat utimensat write writev
"""
ON_FILES: Final = frozenset(_ON_FILES.split())
"""Calls on files and descriptors, which get errors. Other calls do not fail because of a disk, so the program
is only killed there.
"""
CLOSE: Final = "close"
"""Linux releases the descriptor even when close fails; with strace's injected error it stays open. Therefore
close fails only once, and never for a pipe: a reader would wait forever for the end of a pipe that stays
open.
"""
CLOSE_ERRORS: Final = ("ENOSPC", "EIO", "EINTR")
_RETRIED_BY_PYTHON: Final = """
connect fallocate fchdir fchmod fchown fcntl fdatasync flock fstat fstatfs fsync ftruncate newfstatat openat
poll pread64 preadv pwrite64 pwritev pwritev2 read readv recvfrom recvmsg select sendfile sendmsg sendto write
writev
"""
RETRIED: Final = {"shell": frozenset({"openat", "read"}), "python": frozenset(_RETRIED_BY_PYTHON.split())}
"""Calls that bash and Python (PEP 475) repeat when they are interrupted."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """A fault of the n-th call with a name in each process, or of that call and all later ones."""

    call: str
    number: int
    effect: str
    """Name of an error, or KILL."""
    persistent: bool = False
    is_retried: bool = False
    """True when an interrupted caller tries again. Such a call is interrupted only a limited number of times,
    or it would never end.
    """

    def __str__(self) -> str:
        return f"{self.effect} at {self.call} {self.number}{'+' if self.persistent else ''}"

    @property
    def _last_call(self) -> str:
        if not self.persistent:
            return ""
        return f"..{self.number + _INTERRUPTIONS}" if self.effect == "EINTR" and self.is_retried else "+"

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of strace that inject the fault and trace the marks and the failing calls."""
        failure = "signal=KILL" if self.effect == KILL else f"error={self.effect}"
        calls = ",".join(sorted({self.call, *_MARK_CALLS}))
        return (
            "-e",
            f"trace={calls}",
            "-e",
            f"inject={self.call}:{failure}:when={self.number}{self._last_call}",
        )


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Exit status and output of a traced program."""

    status: int
    output: bytes
    """Standard output and standard error."""


def run_traced(
    command: Sequence[str | Path],
    directory: Path,
    variables: Mapping[str, str],
    trace: Path,
    options: Sequence[str] = (),
    *,
    when_ready: Callable[[int], object] = lambda _process: None,
) -> ProgramResult:
    """Run a program and trace it with these strace options from the time when it is ready.

    The program prints `ready` and then waits for a line; before that line, `when_ready` is called with its
    process id. Raises TimeoutExpired when it hangs.
    """
    with Popen(
        command,
        cwd=directory,
        env=dict(variables),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    ) as program:
        assert program.stdout
        assert program.stdout.readline() == b"ready\n"
        when_ready(program.pid)
        with attach(trace, options, program.pid):
            try:
                output = b"".join(program.communicate(b"\n", timeout=_TIMEOUT_SECONDS))
            finally:
                kill_group(program.pid)
    return ProgramResult(program.returncode, output)


@contextmanager
def attach(trace: Path, options: Sequence[str], process: int) -> Iterator[None]:
    """Trace a process with strace during the block. The process must have ended by the end of the block."""
    strace = [*_STRACE, str(trace), "-e", "signal=none", *options, "-p", str(process)]
    with Popen(strace, stdin=DEVNULL, stderr=PIPE) as tracer:
        assert tracer.stderr
        output = tracer.stderr.readline()
        assert b"attached" in output, output
        yield


@cache
def find_tracing_obstacle() -> str | None:
    """Return why strace cannot make calls fail here; None where it can."""
    if shutil.which("strace") is None:
        return "no strace"
    with Popen(["sleep", "60"]) as sleeper:
        strace = ["strace", "-o", os.devnull, "-p", str(sleeper.pid)]
        with Popen(strace, stderr=PIPE) as tracer:
            assert tracer.stderr
            output = tracer.stderr.readline()
            sleeper.kill()
    return None if b"attached" in output else "ptrace(2) is not permitted here"


def list_marks(trace: Path) -> list[str]:
    """Return the names of a program's marks in order."""
    return [match[1] for line in trace.read_text().splitlines() if (match := _MARK.search(line))]


def was_injected(trace: Path, fault: Fault) -> bool:
    """Return whether the fault occurred."""
    pattern = (
        rf"{fault.call}\(.*= \?|<... {fault.call} resumed>.*= \?" if fault.effect == KILL else r"\(INJECTED\)"
    )
    return re.search(pattern, trace.read_text()) is not None


def list_faults_between_marks(trace: Path, retried: frozenset[str]) -> list[Fault]:
    """List every fault of each call between the marks, including the calls of child processes.

    The trace needs strace's option `-y`, which names pipes: see CLOSE.
    """
    calls = [*_parse_calls(trace)]
    closed_pipes = {(call.name, call.number) for call in calls if _CLOSES_A_PIPE.search(call.line)}
    copied = {(call.name, call.number) for call in calls if _COPIES_A_DESCRIPTOR.search(call.line)}
    candidates = {(call.name, call.number) for call in _select_between_marks(calls)} - closed_pipes
    return [
        fault
        for name, number in sorted(candidates)
        for fault in list_call_faults(name, number, retried)
        if fault.effect == KILL or (name, number) not in copied
    ]


def list_call_faults(call: str, number: int, retried: frozenset[str]) -> Iterator[Fault]:
    """Yield every fault of a call. `retried` names the calls that the program repeats when interrupted."""
    for effect in ERRORS if call in ON_FILES else ():
        yield Fault(call, number, effect)
        yield Fault(call, number, effect, persistent=True, is_retried=call in retried)
    for effect in CLOSE_ERRORS if call == CLOSE else ():
        yield Fault(call, number, effect)
    yield Fault(call, number, KILL)


@dataclass(frozen=True, slots=True)
class _Call:
    """The n-th call with its name in its process."""

    name: str
    number: int
    line: str


def _parse_calls(trace: Path) -> Iterator[_Call]:
    counted: Counter[tuple[str, str]] = Counter()
    for line in trace.read_text().splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        process, call = match.groups()
        counted[process, call] += 1
        yield _Call(call, counted[process, call], line)


def _select_between_marks(calls: Iterable[_Call]) -> Iterator[_Call]:
    """Yield the calls between the marks that can fail."""
    within = False
    for call in calls:
        mark = _MARK.search(call.line)
        if mark is not None:
            within = mark[1] != END and (within or mark[1] == BEGIN)
        elif within and call.name not in _WITHOUT_RETURN:
            yield call

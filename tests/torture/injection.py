"""Programs whose system calls are made to fail, one after the other, by strace.

A program is run once to see which calls it makes between two marks. A mark is a look at a path below
/torture: it stands in the trace, whatever becomes of the look. Calls are counted from the moment on in which
a program says that it is ready, in each process of its own.
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
_SECONDS: Final = 60
_STRACE: Final = ("strace", "-f", "-s", "8192", "-o")
_CALL: Final = re.compile(r"^(\d+) +([a-z]\w*)\(")
_COPIES_A_DESCRIPTOR: Final = re.compile(r" fcntl\(\d+(<[^>]*>)?, F_(DUPFD|[GS]ETF[DL])\b")
"""The calls of fcntl(2) that no disk has a part in. bash keeps the descriptors of a command with them."""
_CLOSES_A_PIPE: Final = re.compile(r" close\(\d+<pipe:")
_MARK: Final = re.compile(rf'"{MARKS}([^"]+)"')
_SEEN: Final = ("?newfstatat", "?access", "?faccessat2", "?stat")
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
"""Calls on files and descriptors. Others do not fail for what a disk does; to kill at them is tried all the
same.
"""
CLOSE: Final = "close"
"""Linux gives the descriptor back where it fails, too; where strace has it fail, it stays open. So it fails
once at a time, and never for a pipe, because who waits for the end of one that nobody closes waits for ever.
"""
CLOSE_ERRORS: Final = ("ENOSPC", "EIO", "EINTR")
_BY_PYTHON: Final = """
connect fallocate fchdir fchmod fchown fcntl fdatasync flock fstat fstatfs fsync ftruncate newfstatat openat
poll pread64 preadv pwrite64 pwritev pwritev2 read readv recvfrom recvmsg select sendfile sendmsg sendto write
writev
"""
RETRIED: Final = {"shell": frozenset({"openat", "read"}), "python": frozenset(_BY_PYTHON.split())}
"""Calls which bash and Python (PEP 475) themselves make again for as long as they are interrupted."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Fault of the n-th call of a name in each process, or of it and all that follow."""

    call: str
    number: int
    what: str
    """The name of an error, or KILL."""
    persistent: bool = False
    is_retried: bool = False
    """True when an interrupted caller tries again: a fault for ever would not be the caller's."""

    def __str__(self) -> str:
        return f"{self.what} at {self.call} {self.number}{'+' if self.persistent else ''}"

    @property
    def _following(self) -> str:
        if not self.persistent:
            return ""
        return f"..{self.number + _INTERRUPTIONS}" if self.what == "EINTR" and self.is_retried else "+"

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options by which strace makes it, and keeps the marks and the calls that failed."""
        failure = "signal=KILL" if self.what == KILL else f"error={self.what}"
        calls = ",".join(sorted({self.call, *_SEEN}))
        return (
            "-e",
            f"trace={calls}",
            "-e",
            f"inject={self.call}:{failure}:when={self.number}{self._following}",
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a program that had a fault."""

    status: int
    said: bytes
    """On both outputs."""


def run_traced(
    command: Sequence[str | Path],
    directory: Path,
    variables: Mapping[str, str],
    trace: Path,
    options: Sequence[str] = (),
    *,
    when_ready: Callable[[int], object] = lambda _process: None,
) -> Ended:
    """Run a program under strace with these options, from when it is ready on.

    It has to print `ready` then, and to go on when it gets a line; `when_ready` is told its process id before
    that. Raises TimeoutExpired when it hangs.
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
        with attached(trace, options, program.pid):
            try:
                said = b"".join(program.communicate(b"\n", timeout=_SECONDS))
            finally:
                kill_group(program.pid)
    return Ended(program.returncode, said)


@contextmanager
def attached(trace: Path, options: Sequence[str], process: int) -> Iterator[None]:
    """Meanwhile the process is under strace with these options. It has to be over, or killed, then."""
    strace = [*_STRACE, str(trace), "-e", "signal=none", *options, "-p", str(process)]
    with Popen(strace, stdin=DEVNULL, stderr=PIPE) as tracer:
        assert tracer.stderr
        said = tracer.stderr.readline()
        assert b"attached" in said, said
        yield


@cache
def cannot_trace() -> str | None:
    """Return why no call can be made to fail here; None where it can."""
    if shutil.which("strace") is None:
        return "no strace"
    with Popen(["sleep", "60"]) as sleeper:
        strace = ["strace", "-o", os.devnull, "-p", str(sleeper.pid)]
        with Popen(strace, stderr=PIPE) as tracer:
            assert tracer.stderr
            said = tracer.stderr.readline()
            sleeper.kill()
    return None if b"attached" in said else "ptrace(2) cannot be had here"


def marks(trace: Path) -> list[str]:
    """The marks of a program, in their order."""
    return [found[1] for line in trace.read_text().splitlines() if (found := _MARK.search(line))]


def injected(trace: Path, fault: Fault) -> bool:
    """Return whether the fault came about."""
    sign = (
        rf"{fault.call}\(.*= \?|<... {fault.call} resumed>.*= \?" if fault.what == KILL else r"\(INJECTED\)"
    )
    return re.search(sign, trace.read_text()) is not None


def faults_between(trace: Path, retried: frozenset[str]) -> list[Fault]:
    """Every fault of every call between the marks, of the program and of those that it ran meanwhile.

    The trace has to have been made with `-y`: no close of a pipe fails, see CLOSE.
    """
    made = [*_made(trace)]
    of_pipes = {(each.name, each.number) for each in made if each.closes_a_pipe}
    calls = sorted({(each.name, each.number) for each in _between(made)} - of_pipes)
    of_descriptors = {(each.name, each.number) for each in made if _COPIES_A_DESCRIPTOR.search(each.line)}
    return [
        fault
        for call, number in calls
        for fault in faults_of_call(call, number, retried)
        if fault.what == KILL or (call, number) not in of_descriptors
    ]


def faults_of_call(call: str, number: int, retried: frozenset[str]) -> Iterator[Fault]:
    """Every fault of a call; `retried` are those that are made again by who makes them."""
    for what in ERRORS if call in ON_FILES else ():
        yield Fault(call, number, what)
        yield Fault(call, number, what, persistent=True, is_retried=call in retried)
    for what in CLOSE_ERRORS if call == CLOSE else ():
        yield Fault(call, number, what)
    yield Fault(call, number, KILL)


@dataclass(frozen=True, slots=True)
class _Made:
    """A call that was made, the n-th of its name in its process."""

    name: str
    number: int
    line: str
    """Line of strace about it."""

    @property
    def closes_a_pipe(self) -> bool:
        return _CLOSES_A_PIPE.search(self.line) is not None


def _made(trace: Path) -> Iterator[_Made]:
    counted: Counter[tuple[str, str]] = Counter()
    for line in trace.read_text().splitlines():
        found = _CALL.match(line)
        if found is None:
            continue
        process, call = found.groups()
        counted[process, call] += 1
        yield _Made(call, counted[process, call], line)


def _between(made: Iterable[_Made]) -> Iterator[_Made]:
    """Those between the marks that may fail."""
    within = False
    for each in made:
        mark = _MARK.search(each.line)
        if mark is not None:
            within = mark[1] != END and (within or mark[1] == BEGIN)
        elif within and each.name not in _WITHOUT_RETURN:
            yield each

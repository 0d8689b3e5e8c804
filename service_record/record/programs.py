"""Run a program for its output, within a time limit and a size limit.

This is the only module that starts programs for their output. A program runs in a session of its own, so that
all its children can be stopped with it. Unless the caller says otherwise, it starts in `/`, has no input, and
gets an environment without secrets.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager, suppress

from service_record.record import is_foreign

TYPE_CHECKING = False  # as in `service_record.record`
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO, Final

CHUNK_BYTES: Final = 256 << 10
ERROR_BYTES: Final = 4 << 10  # kept of the error output, from its end

_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOOK_SECONDS: Final = 0.1  # between checks whether a program has ended while another process keeps its pipe
_TERM_SECONDS: Final = 0.5  # the wait after SIGTERM
_KILL_SECONDS: Final = 2.0  # the wait after SIGKILL: a program on a dead disk is left behind


class ProgramError(Exception):
    """The program failed to start. Its text is one line."""


class NoProgramError(ProgramError):
    """The program is not installed."""


class ProgramTimeoutError(ProgramError):
    """The program did not end before its deadline, and was stopped."""


class TooMuchOutputError(ProgramError):
    """The program printed more than its limit, and was stopped."""


class Deadline:
    """A time on the monotonic clock. Any thread may move it to now."""

    def __init__(
        self, seconds: float, outer: Deadline | None = None, stop: threading.Event | None = None
    ) -> None:
        """The deadline is in `seconds`, or at `outer`, or when `stop` is set, whichever is earliest."""
        self._until = time.monotonic() + seconds
        self._outer = outer
        self._stop = stop

    def seconds_left(self) -> float:
        """Return the seconds left, 0 from the deadline on."""
        return max(self.moment() - time.monotonic(), 0.0)

    def passed(self) -> float:
        """Return seconds since the deadline, 0 before it."""
        return max(time.monotonic() - self.moment(), 0.0)

    def cut_short(self) -> None:
        """Move the deadline to now, unless it has passed."""
        self._until = min(self._until, time.monotonic())

    def moment(self) -> float:
        """Return the deadline as a value of time.monotonic()."""
        if self._stop is not None and self._stop.is_set():
            self.cut_short()
        return self._until if self._outer is None else min(self._until, self._outer.moment())


def program_path(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program on the PATH of this environment; None if it is not installed."""
    return shutil.which(program, path=environ.get("PATH") or _DEFAULT_PATH)


class Program:
    """A running program and its output. Call `close`, or read `chunks` to the end."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        is_merged: bool = False,
        prefix: Sequence[str] = (),
        stdin: IO[bytes] | None = None,
        variables: Mapping[str, str] | None = None,
        directory: str = "/",
    ) -> None:
        """Start the program. With `is_merged`, its error output is part of its output.

        It gets PATH and HOME of `environ`, and all of `variables`. `prefix` is a program that runs the
        command, such as `systemd-run`. Raises ProgramError.
        """
        self.errors = b""
        """The end of the error output."""
        self.status: int | None = None
        """The exit status as `subprocess` has it; None while it runs, and if it was stopped."""
        self.name = command[0]
        self._is_closed = False
        self._is_reaped = False
        path = program_path(self.name, environ)
        if path is None:
            raise NoProgramError(f"no program {self.name}")
        try:
            self._process: subprocess.Popen[bytes] | _ForkedChild = subprocess.Popen(
                [*prefix, path, *command[1:]],
                cwd=directory,
                env=_environment(environ) | dict(variables or {}),
                stdin=stdin or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if is_merged else subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL character in an argument
            if is_foreign(error):
                raise
            raise ProgramError(f"{path}: {getattr(error, 'strerror', None) or error}") from error

    def chunks(self, deadline: Deadline, most: int) -> Iterator[bytes]:
        """Yield the output until the program ends, even if one of its children keeps the pipe open.

        Raises ProgramTimeoutError at the deadline, and TooMuchOutputError after `most` bytes.
        """
        read = 0
        try:
            for stream, chunk in self._read(deadline):
                read += len(chunk)
                if stream is self._process.stderr:
                    self.errors = (self.errors + chunk)[-ERROR_BYTES:]
                else:
                    yield chunk
                if read > most:
                    raise TooMuchOutputError(f"stopped after {read} bytes: it printed without end")
        finally:
            self.close()

    def _read(self, deadline: Deadline) -> Iterator[tuple[IO[bytes], bytes]]:
        with selectors.DefaultSelector() as open_ones:
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    _widen(stream)
                    open_ones.register(stream, selectors.EVENT_READ)
            while open_ones.get_map():
                has_ended = self._has_ended()
                ready = open_ones.select(0 if has_ended else min(deadline.seconds_left(), _LOOK_SECONDS))
                if has_ended and not ready:
                    return
                # Check after its end as well: otherwise, output in the pipe would be lost without an error.
                self._still_has_time(deadline)
                for key, _ in ready:
                    stream = key.fileobj  # type: ignore[assignment]  # registered above
                    chunk = os.read(key.fd, CHUNK_BYTES)
                    if chunk and stream is not None:
                        yield stream, chunk
                    else:
                        open_ones.unregister(key.fileobj)
            pause = 0.001
            while not self._has_ended():  # it has closed its output, but may keep running
                self._still_has_time(deadline)
                time.sleep(min(deadline.seconds_left(), pause))
                pause = min(2 * pause, _LOOK_SECONDS)

    def _still_has_time(self, deadline: Deadline) -> None:
        if deadline.seconds_left() == 0:
            raise ProgramTimeoutError(f"{self.name} did not end within its time")

    def _has_ended(self) -> bool:
        # WNOWAIT: until the status is collected, no other process can get this pid and be killed by mistake.
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # SIGCHLD is ignored, or a handler of the recorded service waits for all
            self._is_reaped = True
            return True

    def close(self) -> None:
        """Stop the program and all processes of its session. A second call does nothing."""
        if self._is_closed:  # its pid may belong to another process by now
            return
        self._is_closed = True
        if self._has_ended():
            self._signal(signal.SIGKILL)
            self.status = self._process.wait()
        else:
            self._stop()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _stop(self) -> None:
        for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
            self._signal(number)
            grace = Deadline(seconds)
            while not self._has_ended() and grace.seconds_left():
                time.sleep(0.01)
        self._signal(signal.SIGKILL)
        if self._has_ended():
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._is_reaped:  # its pid may belong to another process by now
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class _ForkedChild:
    """A forked process with the attributes of `subprocess.Popen` that `Program` uses."""

    stderr = None

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class ForkedProgram(Program):
    """A function that runs in a forked child, whose output is the result of the function.

    The child shares all that this process has loaded. It stays in its process group, so a signal to the
    group stops it too. Only for processes with a single thread.
    """

    def __init__(self, function: Callable[[], bytes]) -> None:
        """Call the function in a child. If it raises an exception, the output is its text, the status 1."""
        self.errors = b""
        self.status = None
        self.name = "it"
        self._is_closed = self._is_reaped = False
        read_end, write_end = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read_end)
            _answer_and_exit(function, write_end)
        os.close(write_end)
        self._process = _ForkedChild(pid, os.fdopen(read_end, "rb", buffering=0))

    def _signal(self, number: signal.Signals) -> None:
        if not self._is_reaped:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


def _answer_and_exit(function: Callable[[], bytes], write_end: int) -> None:
    status = 1
    try:
        output = function()
        status = 0
    except ProgramError as reason:
        output = str(reason).encode(errors="replace")
    except BaseException as fault:  # noqa: BLE001  # the parent reports it; nothing of the parent may run here
        output = f"{type(fault).__name__}: {fault}".encode(errors="replace")
    try:
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(output)
    finally:
        os._exit(status)


def confine(memory_bytes: int, cpu_seconds: int, *, may_write: bool = False) -> None:
    """Limit this process permanently, before it reads untrusted data.

    Unless it `may_write`, it can write no files and start no processes.
    """
    import resource  # most programs have no limits

    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_CORE: 0,
    }
    if not may_write:
        limits |= {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NPROC: 0}
    for limit, most in limits.items():
        resource.setrlimit(limit, (most, most))


def run_confined(
    program: Callable[[], Program], cpu_seconds: int, max_bytes: int, stop: threading.Event | None = None
) -> bytes:
    """Return the output of a program that confines itself. Raises ProgramError with the reason in one line.

    It may take three times `cpu_seconds`. If `stop` is set, it is stopped: ProgramTimeoutError.
    """
    deadline = Deadline(3.0 * cpu_seconds, stop=stop)
    running = program()
    try:
        output = b"".join(running.chunks(deadline, max_bytes))
    except ProgramTimeoutError:
        raise ProgramTimeoutError(f"it takes more than {3 * cpu_seconds} s") from None
    if running.status is None or running.status < 0:
        raise ProgramError(f"it takes more than {cpu_seconds} s of a processor, or too much memory")
    if running.status > 0:
        lines = (running.errors or output).decode(errors="replace").strip().splitlines()
        raise ProgramError(lines[-1][:500] if lines else "its reader ended without a word")
    return output


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    deadline: Deadline,
    max_bytes: int,
    *,
    keeps_end: bool = False,
    is_merged: bool = False,
    stdin: IO[bytes] | None = None,
    variables: Mapping[str, str] | None = None,
    directory: str = "/",
) -> tuple[int | None, bytes, bytes]:
    """Run a program; return its exit status, its output and the end of its error output.

    With `keeps_end`, only the last `max_bytes` of its output are returned; otherwise more output is an error.
    Raises ProgramError if the program does not start, does not end in time, or prints too much.
    """
    program = Program(
        command, environ, is_merged=is_merged, stdin=stdin, variables=variables, directory=directory
    )
    kept: deque[bytes] = deque()
    size = 0
    for chunk in program.chunks(deadline, sys.maxsize if keeps_end else max_bytes):
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) >= max_bytes:
            size -= len(kept.popleft())
    return program.status, b"".join(kept)[-max_bytes:], program.errors


@contextmanager
def reading(
    command: Sequence[str], environ: Mapping[str, str], deadline: Deadline, max_bytes: int
) -> Iterator[tuple[Program, Callable[[int], bytes]]]:
    """Yield a running program and a function that reads its output. At the end, the program is stopped.

    This and the function raise ProgramError.
    """
    program = Program(command, environ)
    chunks = program.chunks(deadline, max_bytes)
    rest = b""

    def read(size: int) -> bytes:
        nonlocal rest
        rest = rest or next(chunks, b"")
        piece, rest = rest[:size], rest[size:]
        return piece

    try:
        yield program, read
    finally:
        program.close()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without secrets, with colours and pagers turned off."""
    environment = {"PATH": environ.get("PATH") or _DEFAULT_PATH, "HOME": environ.get("HOME") or "/root"}
    environment |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb", "NO_COLOR": "1"}
    return environment | {"SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "cat", "SYSTEMD_URLIFY": "0"}


def _widen(stream: IO[bytes]) -> None:
    """Make the pipe larger if the host permits that; see pipe(7)."""
    try:
        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)
    except OSError as error:
        if is_foreign(error):
            raise

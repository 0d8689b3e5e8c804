"""Programs that are run for what they print, and that can neither hold us nor stay behind.

A program runs in a session of its own, with nothing to read, the locale C.UTF-8, and the lowest priority for
disks where ionice is there to give it; not the idle one, with which it would never end on the host whose disk
never rests. The priority for the processor it inherits from the thread that starts it.
"""

import fcntl
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from service_record.reporter.gather.model import Deadline, GatherError, GatherStatus

CHUNK_BYTES: Final = 256 << 10
ERROR_BYTES: Final = 4 << 10
"""The size kept of its error output, at its end."""

_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOWEST: Final = ("-t", "-c", "2", "-n", "7")  # best-effort, last; -t: never mind where it is not allowed
_PRIVILEGED: Final = frozenset({"podman"})
"""Programs that treat root without CAP_SYS_ADMIN as an ordinary user, and then find nothing."""
_CAP_SYS_ADMIN: Final = 1 << 21
"""capabilities(7)"""
_BY_SYSTEMD: Final = (
    *("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--property=RuntimeMaxSec=60"),
    *("--property=MemoryMax=256M", "--property=Nice=15", "--property=LogLevelMax=notice", "--"),
)
"""Prefix that has systemd run a program outside of the unit's sandbox. The limit ends it if we are gone."""
_LOOK_SECONDS: Final = 0.1
"""The interval of checks whether a program has ended whose pipe somebody else keeps, or whether it may go
on.
"""
_GRACE_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL, and then until it is left to its fate, which is that of a dead disk."""


def program_path(program: str, environ: Mapping[str, str]) -> str | None:
    """Return where a program is on the PATH of this environment; None where it is not."""
    return shutil.which(program, path=environ.get("PATH") or _DEFAULT_PATH)


class Program:
    """One program and what it prints. Must be closed, and is when `chunks` has ended."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, is_merged: bool = False
    ) -> None:
        """Start it; merged, its error output is part of its output.

        Raises GatherError, absent where there is no such program.
        """
        self.errors = b""
        """The last of its error output."""
        self.status: int | None = None
        """The exit status as `subprocess` has it; None until it is known, and when the program was stopped.
        """
        self.name = command[0]
        path = program_path(self.name, environ)
        if path is None:
            raise GatherError(GatherStatus.ABSENT, f"no program {self.name}")
        ionice = shutil.which("ionice")
        lowest = (ionice, *_LOWEST) if ionice else ()
        by_systemd = _BY_SYSTEMD if self.name in _PRIVILEGED and _is_confined() else ()
        try:
            self._process = subprocess.Popen(
                [*lowest, *by_systemd, path, *command[1:]],
                cwd="/",
                env=_environment(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if is_merged else subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise GatherError(GatherStatus.FAILED, f"{path}: {error.strerror}") from error

    def chunks(self, deadline: Deadline, most: int) -> Iterator[bytes]:
        """Yield its output until it ends; a grandchild that keeps the pipe is not waited for.

        Raises GatherError when it has not ended at the deadline, and after `most` bytes.
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
                    raise GatherError(GatherStatus.CUT, f"stopped after {read} bytes: it printed without end")
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
                if has_ended and not (ready and deadline.seconds_left()):
                    return
                self._still_has_time(deadline)
                for key, _ in ready:
                    stream = key.fileobj  # type: ignore[assignment]  # registered above
                    chunk = os.read(key.fd, CHUNK_BYTES)
                    if chunk and stream is not None:
                        yield stream, chunk
                    else:
                        open_ones.unregister(key.fileobj)
            pause = 0.001
            while not self._has_ended():  # it closed its output, and ends, or goes on
                self._still_has_time(deadline)
                time.sleep(min(deadline.seconds_left(), pause))
                pause = min(2 * pause, _LOOK_SECONDS)

    def _still_has_time(self, deadline: Deadline) -> None:
        if deadline.seconds_left() == 0:
            raise GatherError(GatherStatus.TIMED_OUT, f"{self.name} did not end within its time")

    def _has_ended(self) -> bool:
        """Return whether it has, without taking its status: until then nobody else can have its number."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # we inherited that nobody waits for children
            return True

    def close(self) -> None:
        """End it, and all that it has left behind in its group."""
        if self._has_ended():
            self._signal(signal.SIGKILL)
            self.status = self._process.wait()
        else:
            self._stop()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            retry_policy = Deadline(_GRACE_SECONDS)
            while not self._has_ended() and retry_policy.seconds_left():
                time.sleep(0.01)
        self._signal(signal.SIGKILL)
        if self._has_ended():
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _is_confined() -> bool:
    """Return whether we are root without CAP_SYS_ADMIN, and systemd can be asked for what we may not do."""
    if os.geteuid() != 0 or shutil.which(_BY_SYSTEMD[0]) is None:
        return False
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return not int(line.split()[1], 16) & _CAP_SYS_ADMIN
    return False


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a program's environment: nothing that may be secret, and no reason to colour, page or ask."""
    environment = {"PATH": environ.get("PATH") or _DEFAULT_PATH, "HOME": environ.get("HOME") or "/root"}
    environment |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb", "NO_COLOR": "1"}
    return environment | {"SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "cat", "SYSTEMD_URLIFY": "0"}


def _widen(stream: IO[bytes]) -> None:
    """Read in larger pieces, where the host has room for that; see pipe(7)."""
    with suppress(OSError):
        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)

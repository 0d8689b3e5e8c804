"""Start collectors quickly: each is forked from a process that has already imported all modules.

`python -m tests.collector.fork_collectors` is that process. For each line on its standard input it forks a
collector and prints its process id. A line has two paths, separated by a tab: the data folder, and a file for
standard error.

"""

import contextlib
import importlib
import os
import pkgutil
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.collector.serve import serve
from service_record.collector.serving_settings import CollectorSettings, Rates
from service_record.collector.store.migrations import versions
from tests.programs import REPOSITORY
from tests.waiting import wait_for

_UNLIMITED: Final = Rates(per_second=1e6, burst=1_000_000)
_LATE_IMPORTS: Final = ("alembic.command", "alembic.config", "alembic.runtime.migration", "sqlite3.dbapi2")
"""Modules that a collector otherwise imports only when it starts."""
_READY_MESSAGE: Final = "listening on "


@dataclass(frozen=True, slots=True)
class ForkedCollector:
    """A forked collector process."""

    url: str
    pid: int
    log_file: Path
    """The file with its standard error."""
    _pidfd: int
    """A file descriptor that becomes readable when the process ends; see pidfd_open(2)."""

    @property
    def has_ended(self) -> bool:
        return self.ends_within(0)

    @property
    def is_dying(self) -> bool:
        """True if the main thread has ended, even if another thread has not ended yet."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
        except (FileNotFoundError, ProcessLookupError):
            return True

    def ends_within(self, seconds: float) -> bool:
        """Wait at most `seconds` for the process to end. Return True if it has ended."""
        return bool(select.select([self._pidfd], [], [], seconds)[0])

    def kill(self) -> None:
        """Kill the process with SIGKILL, unless it has already ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        assert self.ends_within(60)

    @property
    def tasks(self) -> frozenset[str]:
        """The ids of its threads; empty if the process is gone."""
        with contextlib.suppress(FileNotFoundError):
            return frozenset(task.name for task in Path(f"/proc/{self.pid}/task").iterdir())
        return frozenset()


class Starter:
    """Starts collectors. Several threads may use it at the same time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def collector(self, data: Path) -> Iterator[ForkedCollector]:
        """Start a collector with the data folder `data`, and kill it at the end of the block."""
        log_file = data.parent / f"log_file-{os.urandom(4).hex()}"
        log_file.touch()
        pid = self._fork(data, log_file)
        pidfd = os.pidfd_open(pid)
        running = ForkedCollector("", pid, log_file, pidfd)
        try:
            wait_for(lambda: _READY_MESSAGE in log_file.read_text() or running.has_ended)
            assert not running.has_ended, log_file.read_text()
            url = log_file.read_text().partition(_READY_MESSAGE)[2].partition("\n")[0]
            yield ForkedCollector(url, pid, log_file, pidfd)
        finally:
            running.kill()
            os.close(pidfd)

    def _fork(self, data: Path, log_file: Path) -> int:
        """Ask the forking process for a new collector. Return its process id."""
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            print(data, log_file, sep="\t", file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())


@contextlib.contextmanager
def run_starter() -> Iterator[Starter]:
    """Start the forking process, yield its `Starter`, and stop the process at the end of the block."""
    command = [sys.executable, "-m", "tests.collector.fork_collectors"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield Starter(process)
        finally:
            assert process.stdin
            process.stdin.close()


def _main() -> None:
    migrations = (f"{versions.__name__}.{each.name}" for each in pkgutil.iter_modules(versions.__path__))
    for module in (*_LATE_IMPORTS, *migrations):
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended collectors do not remain as zombies
    print("ready", flush=True)
    for line in sys.stdin:
        data, log_file = line.rstrip("\n").split("\t")
        pid = os.fork()
        if not pid:
            _serve(Path(data), log_file)
        print(pid, flush=True)


def _serve(data: Path, log_file: str) -> None:
    """Run a collector in the forked process, with standard output and error in the file `log_file`."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the collector waits for its own child processes
    for descriptor, path, flags in ((0, os.devnull, os.O_RDONLY), (2, log_file, os.O_WRONLY | os.O_APPEND)):
        os.dup2(os.open(path, flags), descriptor)
    os.dup2(2, 1)
    status = 1
    try:
        serve(CollectorSettings(data=data, port=0, rates=_UNLIMITED, guesses=_UNLIMITED))
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    _main()

"""Collectors in processes of their own that begin at once: forked of one that has loaded all they need.

`python -m tests.collector.at_once` forks one for each line on its standard input: a folder, and a file for
what the collector says on standard error. It answers with the process id.
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

_OFTEN: Final = Rates(per_second=1e6, burst=1_000_000)
_LATER: Final = ("alembic.command", "alembic.config", "alembic.runtime.migration", "sqlite3.dbapi2")
_LISTENING: Final = "listening on "


@dataclass(frozen=True, slots=True)
class Running:
    """A collector that was forked."""

    url: str
    pid: int
    said: Path
    """File with its standard error."""
    _ended: int
    """A descriptor that can be read when it has ended; pidfd_open(2)."""

    @property
    def has_ended(self) -> bool:
        return self.ends_within(0)

    @property
    def is_dying(self) -> bool:
        """Return whether its main thread is gone, whoever may hold up the others."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
        except (FileNotFoundError, ProcessLookupError):
            return True

    def ends_within(self, seconds: float) -> bool:
        """Return whether it has ended, at the latest after that time."""
        return bool(select.select([self._ended], [], [], seconds)[0])

    def kill(self) -> None:
        """End it as a crash would, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ended, signal.SIGKILL)
        assert self.ends_within(60)

    @property
    def tasks(self) -> frozenset[str]:
        """The ids of its threads."""
        with contextlib.suppress(FileNotFoundError):
            return frozenset(task.name for task in Path(f"/proc/{self.pid}/task").iterdir())
        return frozenset()


class Starter:
    """Starts collectors; used from any thread."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._asking = threading.Lock()

    @contextlib.contextmanager
    def collector(self, data: Path) -> Iterator[Running]:
        """A collector on that folder, until the end of the block: then it is killed."""
        said = data.parent / f"said-{os.urandom(4).hex()}"
        said.touch()
        pid = self._forked(data, said)
        ended = os.pidfd_open(pid)
        running = Running("", pid, said, ended)
        try:
            wait_for(lambda: _LISTENING in said.read_text() or running.has_ended)
            assert not running.has_ended, said.read_text()
            url = said.read_text().partition(_LISTENING)[2].partition("\n")[0]
            yield Running(url, pid, said, ended)
        finally:
            running.kill()
            os.close(ended)

    def _forked(self, data: Path, said: Path) -> int:
        assert self._process.stdin
        assert self._process.stdout
        with self._asking:
            print(data, said, sep="\t", file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())


@contextlib.contextmanager
def starter() -> Iterator[Starter]:
    """Ready to start collectors, which all end with the block."""
    command = [sys.executable, "-m", "tests.collector.at_once"]
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
    for module in (*_LATER, *migrations):
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    print("ready", flush=True)
    for line in sys.stdin:
        data, said = line.rstrip("\n").split("\t")
        pid = os.fork()
        if not pid:
            _serve(Path(data), said)
        print(pid, flush=True)


def _serve(data: Path, said: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor, path, flags in ((0, os.devnull, os.O_RDONLY), (2, said, os.O_WRONLY | os.O_APPEND)):
        os.dup2(os.open(path, flags), descriptor)
    os.dup2(2, 1)
    status = 1
    try:
        serve(CollectorSettings(data=data, port=0, rates=_OFTEN, guesses=_OFTEN))
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    _main()

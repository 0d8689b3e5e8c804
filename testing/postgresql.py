"""A PostgreSQL of the tests' own, from the programs that are installed: without a port, it ends with them."""

import contextlib
import itertools
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL

from service_record.collector.store.database import Database

_USER: Final = "collector"
_TEMPLATE: Final = "migrated"
QUICK: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
}
"""Settings of a server whose machine will not lose its power before the tests are over."""
_STARTING: Final = 60.0
"""Seconds until it has to answer."""


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, of the newest version; None where there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    candidates = [folder for folder in folders if (folder / "initdb").exists()]
    if candidates:
        return candidates[-1]
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


@dataclass(slots=True)
class Cluster:
    """A server and the folder of its databases."""

    programs: Path
    folder: Path
    settings: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self) -> None:
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            **self.settings,
        }
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        log = self.folder / "log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*_as_owner(), str(self.programs / "postgres"), "-D", str(self.folder / "data"), *arguments],
                stdout=output,
                stderr=output,
                cwd=self.folder,
            )
        until = time.monotonic() + _STARTING
        while not self._answers():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.01)

    def kill(self) -> None:
        """Let it die as by a loss of power: none of its processes can write anything any more."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)  # it starts no new ones meanwhile
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in [*map(int, children), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        # PostgreSQL refuses to start while one of them still has the shared memory, on a busy machine.
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                ended = os.pidfd_open(int(child))
                select.select([ended], [], [], _STARTING)
                os.close(ended)
        self.process = None

    def stop(self) -> None:
        """Have it shut down at once, without a last checkpoint."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
            self.process = None

    def url(self, database: str) -> str:
        """Return the URL of one of its databases."""
        return URL.create(
            "postgresql", _USER, database=database, query={"host": str(self.folder)}
        ).render_as_string()

    @contextlib.contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """Create a database; yield its URL; drop it in the end."""
        name = f"test{next(self.numbers)}"
        self.ask("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)  # half the time
        try:
            yield self.url(name)
        finally:
            if self.process is not None:
                self.ask("DROP DATABASE {} WITH (FORCE)", name)

    def migrated(self) -> contextlib.AbstractContextManager[str]:
        """Create a database with all tables; yield its URL."""
        return self.database(_TEMPLATE)

    def ask(self, statement: str, *names: str) -> None:
        """Have a statement done outside of every transaction, by whoever administers it."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def make_template(self) -> None:
        """Make the database of which `migrated` gives copies."""
        self.ask("CREATE DATABASE {} TEMPLATE template0", _TEMPLATE)
        database = Database(self.url(_TEMPLATE))
        database.migrate()
        database.close()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextlib.contextmanager
def cluster(settings: Mapping[str, str]) -> Iterator[Cluster]:
    """Run a new server with a template of the collector's tables, until the end of the block."""
    folder_of_programs = programs()
    assert folder_of_programs is not None, "PostgreSQL is not installed"
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # the path of a socket has at most 107 bytes
    running = Cluster(folder_of_programs, folder, settings)
    try:
        _make_folder(running)
        running.start()
        running.make_template()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder)


def _make_folder(new: Cluster) -> None:
    if os.geteuid() == 0:
        shutil.chown(new.folder, _owner())
    making = ["initdb", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", f"--username={_USER}"]
    making[0] = str(new.programs / making[0])
    done = subprocess.run(
        [*_as_owner(), *making, "-D", str(new.folder / "data")],
        cwd=new.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _owner() -> str:
    """Whoever runs it in root's place, which it does not let."""
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


def _as_owner() -> list[str]:
    """Return the start of a command that does not run as root, and that ends with the tests."""
    ends = ["setpriv", "--pdeathsig", "INT"]
    if os.geteuid() != 0:
        return ends
    user = pwd.getpwnam(_owner())
    return [*ends, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

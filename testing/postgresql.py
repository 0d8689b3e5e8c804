"""Run a temporary PostgreSQL server for tests, with the installed programs.

The server listens only on a Unix socket in a temporary folder, and stops when the test process ends.
"""

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
"""Name of the template database, which has all tables of the collector."""
QUICK: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
}
"""Settings for speed. The server may lose data in a power failure, which tests do not need to survive."""
_MAX_WAIT_SECONDS: Final = 60.0
"""Maximum time for the server to accept connections, and for its killed processes to end."""


def programs() -> Path | None:
    """Return the folder with the programs of the newest installed PostgreSQL, or None without PostgreSQL."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    candidates = [folder for folder in folders if (folder / "initdb").exists()]
    if candidates:
        return candidates[-1]
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


@dataclass(slots=True)
class Cluster:
    """A PostgreSQL server and the folder with its data, socket and log."""

    programs: Path
    folder: Path
    settings: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
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
                [
                    *_command_prefix(),
                    str(self.programs / "postgres"),
                    "-D",
                    str(self.folder / "data"),
                    *arguments,
                ],
                stdout=output,
                stderr=output,
                cwd=self.folder,
            )
        deadline = time.monotonic() + _MAX_WAIT_SECONDS
        while not self._answers():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill all processes of the server at once, so that none of them can write anything afterwards."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)  # a stopped server starts no new processes
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in [*map(int, children), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        # Wait for them: PostgreSQL does not start again while one of them still uses the shared memory. On a
        # busy machine, a killed process may take a while to end.
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                ended = os.pidfd_open(int(child))
                select.select([ended], [], [], _MAX_WAIT_SECONDS)
                os.close(ended)
        self.process = None

    def stop(self) -> None:
        """Shut down the server immediately, without a checkpoint."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
            self.process = None

    def url(self, database: str) -> str:
        """Return the URL of a database on this server."""
        return URL.create(
            "postgresql", _USER, database=database, query={"host": str(self.folder)}
        ).render_as_string()

    @contextlib.contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """Create a database, yield its URL, and drop the database at the end."""
        name = f"test{next(self.numbers)}"
        # FILE_COPY takes half the time of the default strategy, WAL_LOG.
        self.ask("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)
        try:
            yield self.url(name)
        finally:
            if self.process is not None:
                self.ask("DROP DATABASE {} WITH (FORCE)", name)

    def migrated(self) -> contextlib.AbstractContextManager[str]:
        """Create a database with all tables of the collector. Yields and drops it like `database`."""
        return self.database(_TEMPLATE)

    def ask(self, statement: str, *names: str) -> None:
        """Execute a statement as the superuser, outside of a transaction.

        `names`: identifiers for the placeholders `{}` of the statement.
        """
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def make_template(self) -> None:
        """Create the template database, which `migrated` copies."""
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
    """Start a new server with a template database, and stop it at the end of the block."""
    bin_folder = programs()
    assert bin_folder is not None, "PostgreSQL is not installed"
    # A short path: that of a Unix socket has at most 107 bytes, and pytest's folders are longer.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    running = Cluster(bin_folder, folder, settings)
    try:
        _init_folder(running)
        running.start()
        running.make_template()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder)


def _init_folder(new: Cluster) -> None:
    if os.geteuid() == 0:
        shutil.chown(new.folder, _server_user())
    options = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", f"--username={_USER}"]
    done = subprocess.run(
        [*_command_prefix(), str(new.programs / "initdb"), *options, "-D", str(new.folder / "data")],
        cwd=new.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _server_user() -> str:
    """Return the user that runs the server if the tests run as root: PostgreSQL refuses to run as root."""
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


def _command_prefix() -> list[str]:
    """Return a command prefix: run as another user than root, and end when the test process ends."""
    prefix = ["setpriv", "--pdeathsig", "INT"]  # SIGINT: PostgreSQL's fast shutdown
    if os.geteuid() != 0:
        return prefix
    user = pwd.getpwnam(_server_user())
    return [*prefix, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

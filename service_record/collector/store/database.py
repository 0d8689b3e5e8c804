"""The database: SQLite in a folder of the collector's own, or PostgreSQL with its LISTEN and NOTIFY."""

import contextlib
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import POLLIN
from select import poll as new_poll
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, table, text
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DisconnectionError,
    IntegrityError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from service_record.collector.store.dialects import is_conflict
from service_record.collector.store.schema import COUNTERS, counters, metadata

FILE: Final = "collector.sqlite"
_BUSY: Final = 30_000  # milliseconds that one process waits for another's write
_CACHE: Final = 8 * 1024  # KiB of pages for a connection; the kernel keeps the others
_CONNECTIONS: Final = 16
"""Half of them for commits that PostgreSQL takes at the same time."""
_CLIENT: Final[dict[str, Any]] = {
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}
"""libpq's settings that notice a PostgreSQL which is gone without a word."""
_BOUNDS: Final = "-c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
"""Limits for a process that hangs in the midst of a change: it holds up the others no longer than that."""
_PRIMARY: Final = 0xFF
"""The bits of an SQLite error code that name the primary error, without the details."""


_VERSION: Final = "alembic_version"
_TRIES: Final = 5
_REFUSED: Final = frozenset({"0A000", "42601", "42501", "42883"})
"""Errors of a database without LISTEN, or that refuses it to this user: unsupported, syntax, privilege,
function.
"""


class DatabaseError(Exception):
    """The reason why the database cannot be used, and what to do, in one line."""


class Database:
    """Connections to it. Reading is for many threads at once; changes go through `writer.Writer`.

    Raises DatabaseError where the URL is not one of PostgreSQL or SQLite.
    """

    def __init__(self, url: str | URL) -> None:
        self.url = _url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine: Engine = create_engine(
            self.url if self.is_sqlite else self.url.set(drivername="postgresql+psycopg"),
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_use_lifo=True,  # few are in use: the others have neither caches nor prepared statements
            pool_timeout=30,
            connect_args={} if self.is_sqlite else {"options": _BOUNDS, **_CLIENT, **self.url.query},
        )
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_deferred)
            event.listen(self.engine, "handle_error", _tell_of_the_disk, retval=True)
        else:
            event.listen(self.engine, "checkout", _refuse_closed)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database, and changes nothing."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                yield connection
            else:
                yield connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Yield a transaction, on disk when this ends without an exception: of the writer, and of migrations.

        With PostgreSQL processes change the database side by side. What they change of a host, they change
        while they hold the host's row; those of clusters come after those of hosts.
        """
        with self.engine.connect() as connection:
            if self.is_sqlite:  # a transaction that reads first could not become one that writes later
                connection.info["is_writing"] = True
            try:
                with connection.begin():
                    yield connection
            finally:
                connection.info.pop("is_writing", None)

    def _check_encoding(self, connection: Connection) -> None:
        """Raise DatabaseError if texts would not be kept unchanged."""
        if self.is_sqlite:
            return
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if str(encoding).upper().replace("-", "") != "UTF8":
            advice = "create it with ENCODING 'UTF8' TEMPLATE template0"
            raise DatabaseError(f"{self.url}: the encoding of the database is {encoding}; {advice}")

    def migrate(self) -> None:
        """Make the tables, or bring those of an earlier version up to date. Raises DatabaseError."""
        from alembic import command  # only at the start
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))

        def upgrade(connection: Connection) -> None:
            self._check_encoding(connection)
            config.attributes["connection"] = connection
            if inspect(connection).has_table(_VERSION):  # one process at a time: others find it done
                connection.execute(select(text("*")).select_from(table(_VERSION)).with_for_update())
                command.upgrade(config, "head")
                return
            metadata.create_all(connection, checkfirst=False)  # a table of another program is a fault
            connection.execute(insert(counters), [{"name": name, "latest": 0} for name in COUNTERS])
            command.stamp(config, "head")

        if self.is_sqlite and self.url.database:
            _make_private(Path(self.url.database))
        for tries_left in range(_TRIES, -1, -1):
            try:
                with self.changing() as connection:
                    upgrade(connection)
            except CommandError:
                raise DatabaseError(
                    f"{self.url}: its tables are of a later version of service-record, or of one before 0.2.0"
                ) from None
            except (SQLAlchemyError, OSError) as error:
                # Where there were no tables yet, there was no row to wait for: another process made them.
                if tries_left and (
                    is_conflict(error) or isinstance(error, ProgrammingError | IntegrityError)
                ):
                    time.sleep(_AGAIN)
                    continue
                raise DatabaseError(f"{self.url}: {_first_line(error)}") from error
            return


def _make_private(path: Path) -> None:
    """Let only the owner read a database; SQLite gives its mode to the files beside it."""
    with contextlib.suppress(OSError):  # the database itself says what is wrong
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)


def sqlite_url(data: Path) -> URL:
    """Return the URL of the database in a collector's own folder."""
    return URL.create("sqlite", database=str(data / FILE))


def _url(text: str | URL) -> URL:
    """Return the URL of a supported database.

    Raises DatabaseError, which may not tell a password.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise DatabaseError("invalid database URL: expected postgresql://USER@HOST/NAME") from None
    if url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise DatabaseError(f"{url}: only postgresql://USER@HOST/NAME can be used")
    return url


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", error)).strip().splitlines()[0]


def _prepare_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    """Write-ahead log, on disk with every commit; sqlite.org/pragma.html. Transactions are begun by us."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"busy_timeout={_BUSY}",
        f"cache_size=-{_CACHE}",
        "foreign_keys=ON",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _tell_of_the_disk(context: ExceptionContext) -> BaseException | None:
    """Report faults of the disk as such, whatever SQLite takes them for.

    A page that cannot be read is "malformed" there, as if the caller were wrong; sqlite.org/rescode.html. A
    file that could not be opened for writing just when a connection began is read-only to it for good: such a
    connection is let go.
    """
    fault = context.original_exception
    if not isinstance(fault, sqlite3.Error):
        return None
    code = getattr(fault, "sqlite_errorcode", 0) & _PRIMARY
    if code == sqlite3.SQLITE_READONLY:
        context.is_disconnect = True
    if code not in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return None
    return OperationalError(context.statement, context.parameters, fault)


def _refuse_closed(driver: "psycopg.Connection[Any]", _: ConnectionPoolEntry, __: object) -> None:
    """Have a connection replaced that PostgreSQL has closed since its last use.

    It is seen at the socket: a question that shows it would cost a tenth of a transaction. Raises
    DisconnectionError.
    """
    poll = new_poll()
    poll.register(driver.pgconn.socket, POLLIN)
    try:
        while poll.poll(0):
            driver.pgconn.consume_input()
    except psycopg.Error as fault:
        raise DisconnectionError(str(fault)) from fault


def _begin_deferred(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("is_writing") else "BEGIN")


_CHANNEL: Final = "service_record_collector"
_AGAIN: Final = 1.0
"""Seconds until a lost connection is made anew."""
_NAME: Final = "service-record-listening"
_POLL: Final = 2.0
"""Seconds between two looks where the database does not tell what other processes have changed."""
_POLLS: Final = 30
"""Such looks until it tries again to listen."""
_LEAST: Final = 0.25
"""Seconds between two announcements: what changes within them is told at once."""


class Listening:
    """A thread that announces changes of other processes here, and ours to them. Close it.

    It announces on a connection of its own, not in the transaction that changes something: PostgreSQL lets
    transactions that notify commit one after the other only. Where there is no LISTEN, it polls.
    """

    def __init__(self, database: Database, tell: Callable[[], None]) -> None:
        url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._settings = make_conninfo(url, application_name=_NAME, **_CLIENT)
        self._tell = tell
        self._name = secrets.token_hex(8)
        self._is_closed = threading.Event()
        self._has_news = threading.Event()
        self._hears, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="listening")
        self._thread.start()

    def announce(self) -> None:
        """Announce to the others soon that something is on disk."""
        if not self._has_news.is_set():
            self._has_news.set()
            self._wake()

    def close(self) -> None:
        """Stop listening."""
        self._is_closed.set()
        self._wake()
        self._thread.join()
        os.close(self._wakes)
        os.close(self._hears)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is awake already
            os.write(self._wakes, b".")

    def _run(self) -> None:
        while not self._is_closed.is_set():
            is_refused = False
            try:
                with psycopg.connect(self._settings, autocommit=True) as connection:
                    self._listen(connection)
            except psycopg.Error as error:
                is_refused = error.sqlstate in _REFUSED
            # Something may have changed while nobody listened.
            for seconds in (_POLL,) * _POLLS if is_refused else (_AGAIN,):
                if not self._is_closed.wait(seconds):
                    self._tell()

    def _listen(self, connection: "psycopg.Connection[Any]") -> None:
        """Announce everything that comes, both ways, until this is closed. Raises psycopg.Error."""
        connection.execute(f"LISTEN {_CHANNEL}")
        self._tell()
        while not self._is_closed.is_set():
            if self._has_news.is_set():
                self._has_news.clear()
                connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, self._name))
                self._is_closed.wait(_LEAST)
            if {news.payload for news in connection.notifies(timeout=0)} - {self._name}:
                self._tell()
            if not self._has_news.is_set():
                self._wait_for(connection.fileno())

    def _wait_for(self, descriptor: int) -> None:
        """Wait until the descriptor is readable, or somebody wakes this."""
        poll = new_poll()
        for each in (self._hears, descriptor):
            poll.register(each, POLLIN)
        poll.poll()
        with contextlib.suppress(BlockingIOError):
            os.read(self._hears, 1024)

"""Database connections, migrations, and change notifications between processes (LISTEN and NOTIFY)."""

import contextlib
import math
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
_BUSY_MS: Final = 30_000  # milliseconds that one process waits for another's write
_CACHE_KIB: Final = 8 * 1024  # KiB of pages for a connection; the kernel keeps the others
_CONNECTIONS: Final = 16
"""Up to eight of them are used by concurrent commits of the writer."""
_CLIENT_OPTIONS: Final[dict[str, Any]] = {
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}
"""libpq settings that detect a server which disappeared without closing the connection."""
_SERVER_OPTIONS: Final = "-c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
"""A process that hangs in a transaction blocks the others no longer than this."""
_PRIMARY_CODE_BITS: Final = 0xFF
"""Mask for the primary part of an extended SQLite error code."""


_VERSION_TABLE: Final = "alembic_version"
_MIGRATION_TRIES: Final = 5
_LISTEN_REFUSED: Final = frozenset({"0A000", "42601", "42501", "42883"})
"""SQLSTATEs of a database without LISTEN: feature not supported, syntax error, insufficient privilege, and
undefined function.
"""


class DatabaseError(Exception):
    """The database cannot be used. The message says why and what to do, in one line."""


class Database:
    """A connection pool. Any thread may read; only `row_writer.DatabaseWriter` changes the database.

    Raises DatabaseError if the URL is not one of PostgreSQL or SQLite.
    """

    def __init__(self, url: str | URL) -> None:
        self.url = _parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine: Engine = create_engine(
            self.url if self.is_sqlite else self.url.set(drivername="postgresql+psycopg"),
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_use_lifo=True,  # prefer warm connections: they have prepared statements
            pool_timeout=30,
            connect_args={}
            if self.is_sqlite
            else {
                "options": _SERVER_OPTIONS,
                # psycopg prepares no statements: after each rollback, and reads end with one, it would
                # deallocate those of `pipeline`, too.
                "prepare_threshold": None,
                **_CLIENT_OPTIONS,
                **self.url.query,
            },
        )
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin)
            event.listen(self.engine, "handle_error", _convert_disk_errors, retval=True)
        else:
            event.listen(self.engine, "checkout", _discard_closed)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a read-only connection that sees one snapshot of the database."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                yield connection
            else:
                yield connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Yield a transaction, committed if the block raises no exception. For the writer and migrations.

        With PostgreSQL, several processes write at the same time. A transaction that changes a host must lock
        the host's row first, and lock rows of clusters only after rows of hosts: other orders deadlock.
        """
        with self.engine.connect() as connection:
            if self.is_sqlite:  # BEGIN IMMEDIATE: SQLite may refuse to let a read transaction write later
                connection.info["is_writing"] = True
            try:
                with connection.begin():
                    yield connection
            finally:
                connection.info.pop("is_writing", None)

    def _check_encoding(self, connection: Connection) -> None:
        """Raise DatabaseError if PostgreSQL's encoding cannot store all texts."""
        if self.is_sqlite:
            return
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if str(encoding).upper().replace("-", "") != "UTF8":
            advice = "create it with ENCODING 'UTF8' TEMPLATE template0"
            raise DatabaseError(f"{self.url}: the encoding of the database is {encoding}; {advice}")

    def migrate(self) -> None:
        """Create the tables, or upgrade those of an earlier version. Raises DatabaseError."""
        from alembic import command  # slow to import, and needed only at the start
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))

        def upgrade(connection: Connection) -> None:
            self._check_encoding(connection)
            config.attributes["connection"] = connection
            if inspect(connection).has_table(_VERSION_TABLE):
                # The row lock lets only one process migrate; the others then find nothing to do.
                connection.execute(select(text("*")).select_from(table(_VERSION_TABLE)).with_for_update())
                command.upgrade(config, "head")
                return
            metadata.create_all(connection, checkfirst=False)  # fail if another program has such a table
            connection.execute(insert(counters), [{"name": name, "latest": 0} for name in COUNTERS])
            command.stamp(config, "head")

        if self.is_sqlite and self.url.database:
            _make_private(Path(self.url.database))
        for tries_left in range(_MIGRATION_TRIES, -1, -1):
            try:
                with self.changing() as connection:
                    upgrade(connection)
            except CommandError:
                raise DatabaseError(
                    f"{self.url}: its tables are of a later version of service-record, or of one before 0.2.0"
                ) from None
            except (SQLAlchemyError, OSError) as error:
                # In an empty database there is no row to lock, so two processes may create the tables at the
                # same time. One of them fails, and finds the tables when it tries again.
                if tries_left and (
                    is_conflict(error) or isinstance(error, ProgrammingError | IntegrityError)
                ):
                    time.sleep(_RETRY_SECONDS)
                    continue
                raise DatabaseError(f"{self.url}: {_first_line(error)}") from error
            return


def _make_private(path: Path) -> None:
    """Set mode 0600 on a database file. SQLite creates its WAL files with the same mode."""
    with contextlib.suppress(OSError):  # opening the database will report the error
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)


def sqlite_url(data: Path) -> URL:
    """Return the URL of the SQLite database in the data folder of a collector."""
    return URL.create("sqlite", database=str(data / FILE))


def _parse_url(text: str | URL) -> URL:
    """Parse the URL of a supported database.

    Raises DatabaseError. Its message must not contain the password.
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
    """Configure a new SQLite connection: a write-ahead log, synced to disk with every commit.

    See https://www.sqlite.org/pragma.html.
    """
    connection.isolation_level = None  # the module begins no transactions: see `_begin`
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"busy_timeout={_BUSY_MS}",
        f"cache_size=-{_CACHE_KIB}",
        "foreign_keys=ON",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _convert_disk_errors(context: ExceptionContext) -> BaseException | None:
    """Convert SQLite errors that a disk causes to OperationalError, and drop connections that stay read-only.

    SQLite reports an unreadable page as "malformed", which SQLAlchemy raises as DatabaseError, not as
    OperationalError; see https://www.sqlite.org/rescode.html. If a file could not be opened for writing when
    a connection was made, the connection stays read-only although the disk works again.
    """
    fault = context.original_exception
    if not isinstance(fault, sqlite3.Error):
        return None
    code = getattr(fault, "sqlite_errorcode", 0) & _PRIMARY_CODE_BITS
    if code == sqlite3.SQLITE_READONLY:
        context.is_disconnect = True
    if code not in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return None
    return OperationalError(context.statement, context.parameters, fault)


def _discard_closed(driver: "psycopg.Connection[Any]", _: ConnectionPoolEntry, __: object) -> None:
    """Raise DisconnectionError if PostgreSQL closed the connection, so that the pool replaces it.

    Checks the socket only: a test query before each transaction would take a tenth of the transaction's time.
    """
    poll = new_poll()
    poll.register(driver.pgconn.socket, POLLIN)
    try:
        while poll.poll(0):
            driver.pgconn.consume_input()
    except psycopg.Error as fault:
        raise DisconnectionError(str(fault)) from fault


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("is_writing") else "BEGIN")


_CHANNEL: Final = "service_record_collector"
_RETRY_SECONDS: Final = 1.0
_APPLICATION_NAME: Final = "service-record-listening"
_POLL_SECONDS: Final = 2.0
"""Interval of notifications if the database has no LISTEN."""
_POLLS_BEFORE_LISTEN: Final = 30
"""Number of polls before the next attempt to LISTEN."""
_ANNOUNCE_SECONDS: Final = 0.25
"""Minimum time between two announcements. Changes in between are announced together."""
_BUSY_SECONDS: Final = 1.0
"""A process is busy if it announced changes twice within this time. An idle process announces its beats."""


class Listening:
    """A thread that announces our changes to other processes, and calls `notify` after their changes.

    It sends NOTIFY on its own connection, not in the transaction of a change, because PostgreSQL serializes
    the commits of transactions that notify. If the database has no LISTEN, `notify` is called regularly.
    """

    def __init__(self, database: Database, notify: Callable[[], None]) -> None:
        url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._settings = make_conninfo(url, application_name=_APPLICATION_NAME, **_CLIENT_OPTIONS)
        self._notify = notify
        self._name = secrets.token_hex(8)
        self._announced: dict[str, tuple[float, float]] = {}
        """Name of another process -> the monotonic times of its last two announcements, newest first."""
        self._is_closed = threading.Event()
        self._has_news = threading.Event()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="listening")
        self._thread.start()

    def announce(self) -> None:
        """Notify other processes soon that a change was committed."""
        if not self._has_news.is_set():
            self._has_news.set()
            self._wake()

    def count_busy(self) -> int:
        """Return the number of processes that store reports at the moment, at least 1 for this one."""
        since = time.monotonic() - _BUSY_SECONDS
        return 1 + sum(before >= since for _, before in list(self._announced.values()))

    def close(self) -> None:
        """Stop the thread."""
        self._is_closed.set()
        self._wake()
        self._thread.join()
        os.close(self._wake_writer)
        os.close(self._wake_reader)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full: the thread will wake up
            os.write(self._wake_writer, b".")

    def _run(self) -> None:
        while not self._is_closed.is_set():
            is_refused = False
            try:
                with psycopg.connect(self._settings, autocommit=True) as connection:
                    self._listen(connection)
            except psycopg.Error as error:
                is_refused = error.sqlstate in _LISTEN_REFUSED
            # Notifications were missed while there was no connection, so assume that something changed.
            for seconds in (_POLL_SECONDS,) * _POLLS_BEFORE_LISTEN if is_refused else (_RETRY_SECONDS,):
                if not self._is_closed.wait(seconds):
                    self._notify()

    def _listen(self, connection: "psycopg.Connection[Any]") -> None:
        """Send and receive notifications until `close` is called. Raises psycopg.Error."""
        connection.execute(f"LISTEN {_CHANNEL}")
        self._notify()
        while not self._is_closed.is_set():
            if self._has_news.is_set():
                self._has_news.clear()
                connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, self._name))
                self._is_closed.wait(_ANNOUNCE_SECONDS)
            others = {news.payload for news in connection.notifies(timeout=0)} - {self._name}
            if others:
                self._note_announcements(others)
                self._notify()
            if not self._has_news.is_set():
                self._wait_for(connection.fileno())

    def _note_announcements(self, others: set[str]) -> None:
        now = time.monotonic()
        for name, (last, _) in list(self._announced.items()):
            if last < now - _BUSY_SECONDS:
                del self._announced[name]
        for name in others:
            last, _ = self._announced.get(name, (-math.inf, -math.inf))
            self._announced[name] = now, last

    def _wait_for(self, descriptor: int) -> None:
        """Wait until the descriptor is readable or `_wake` is called."""
        poll = new_poll()
        for each in (self._wake_reader, descriptor):
            poll.register(each, POLLIN)
        poll.poll()
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 1024)

"""The database: SQLite in a folder of the collector's own, or PostgreSQL with its LISTEN and NOTIFY."""

import contextlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import POLLIN
from select import poll as new_poll
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy import select as selected
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

FILE: Final = "collector.sqlite"
_BUSY: Final = 30_000  # milliseconds that one process waits for another's write
_CACHE: Final = 8 * 1024  # KiB of pages for a connection; the kernel keeps the others
_CONNECTIONS: Final = 8
_ANSWERS: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}
"""So that a PostgreSQL that is gone without a word is noticed; libpq's settings."""
_BOUNDS: Final = "-c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
"""So that a process that hangs in the midst of a change holds up the others no longer than that."""
_PRIMARY: Final = 0xFF
"""Of a code of SQLite, what it is about without the details."""
_WRITING: Final = 0x5352_4543
"""The advisory lock of PostgreSQL that whoever changes the database holds."""


class DatabaseError(Exception):
    """Why the database cannot be used, and what to do, in one line."""


class Database:
    """Connections to it. Reading is for many threads at once; changes go through `writer.Writer`.

    Raises DatabaseError where the URL is none of PostgreSQL or SQLite.
    """

    def __init__(self, url: str | URL) -> None:
        self.url = _url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine: Engine = create_engine(
            self.url if self.is_sqlite else self.url.set(drivername="postgresql+psycopg"),
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_timeout=30,
            pool_pre_ping=not self.is_sqlite,
            connect_args={} if self.is_sqlite else {"options": _BOUNDS, **_ANSWERS, **self.url.query},
        )
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_deferred)
            event.listen(self.engine, "handle_error", _tell_of_the_disk, retval=True)

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database, and changes nothing."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                yield connection
            else:
                yield connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """A transaction, on disk when this ends without an exception: of the writer, and of migrations.

        There is one at a time, whatever the number of processes: none of them waits for what another one
        holds while it holds what that one waits for, and steps are numbered in the order of their commits.
        """
        with self.engine.connect() as connection:
            if self.is_sqlite:  # a transaction that reads first could not become one that writes later
                connection.info["is_writing"] = True
            try:
                with connection.begin():
                    if not self.is_sqlite:
                        connection.execute(select(func.pg_advisory_xact_lock(_WRITING)))
                    yield connection
            finally:
                connection.info.pop("is_writing", None)

    def migrate(self, revision: str = "head") -> None:
        """Make the tables, or bring those of an earlier version up to date. Raises DatabaseError."""
        from alembic import command  # noqa: PLC0415  # only at the start
        from alembic.config import Config  # noqa: PLC0415
        from alembic.util import CommandError  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        try:
            with self.changing() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, revision)
        except CommandError:
            raise DatabaseError(f"{self.url}: a later version of service-record has been here") from None
        except (SQLAlchemyError, OSError) as error:
            raise DatabaseError(f"{self.url}: {_first_line(error)}") from error


def sqlite_url(data: Path) -> URL:
    """The database in a folder of the collector's own."""
    return URL.create("sqlite", database=str(data / FILE))


def _url(text: str | URL) -> URL:
    """The URL of a database that is one of ours. Raises DatabaseError, which may not tell a password."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise DatabaseError("the database's URL is none: postgresql://USER@HOST/NAME") from None
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
    """Faults of the disk as what they are, whatever SQLite takes them for.

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


def _begin_deferred(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("is_writing") else "BEGIN")


_CHANNEL: Final = "service_record_collector"
_AGAIN: Final = 1.0
"""Seconds until a lost connection is made anew."""
_ALIVE: Final = "connect_timeout=5 keepalives_idle=30 keepalives_interval=10 keepalives_count=3"
"""So that a server that is gone without a word is noticed; libpq's settings."""


class Listening:
    """A thread that tells what other processes have changed. Close it."""

    def __init__(self, database: Database, tell: Callable[[], None]) -> None:
        url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._settings = make_conninfo(url, **conninfo_to_dict(_ALIVE))
        self._tell = tell
        self._name = secrets.token_hex(8)
        self._wake, self._close = os.pipe()
        self._thread = threading.Thread(target=self._run, name="listening")
        self._thread.start()

    def announce(self, connection: Connection) -> None:
        """Have the others told when this transaction is on disk."""
        connection.execute(selected(func.pg_notify(_CHANNEL, self._name)))

    def close(self) -> None:
        """Listen no more."""
        os.close(self._close)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        while True:
            with contextlib.suppress(psycopg.Error):
                if self._listen():
                    return
            if self._is_closed(_AGAIN):
                return

    def _listen(self) -> bool:
        """Tell all that comes; whether it is over because this was closed. Raises psycopg.Error."""
        with psycopg.connect(self._settings, autocommit=True) as connection:
            connection.execute(f"LISTEN {_CHANNEL}")
            self._tell()  # something may have changed while nobody listened
            while not self._is_closed(None, connection.fileno()):
                if {news.payload for news in connection.notifies(timeout=0)} - {self._name}:
                    self._tell()
        return True

    def _is_closed(self, seconds: float | None, *also: int) -> bool:
        """Wait so long, or until one of these can be read; whether this was closed meanwhile."""
        poll = new_poll()
        for descriptor in (self._wake, *also):
            poll.register(descriptor, POLLIN)
        found = poll.poll(None if seconds is None else seconds * 1000)
        return any(descriptor == self._wake for descriptor, _ in found)

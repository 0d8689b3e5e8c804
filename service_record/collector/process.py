"""A collector process: the database, its writer, the background threads, and notifications of changes."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.domain.definitions import Definition, Definitions, parse
from service_record.collector.domain.destinations import (
    WEBHOOK,
    DestinationError,
    DestinationFilter,
    Destinations,
    parse_destinations,
)
from service_record.collector.ingest.baselines import FleetCounts, LearnedBaselines
from service_record.collector.ingest.housekeeping import Housekeeper, KeepLimits
from service_record.collector.ingest.incoming import UploadFolder
from service_record.collector.ingest.notifying import NewsSender, Notifier
from service_record.collector.ingest.refusals import Refusals
from service_record.collector.ingest.rounds import Indexer, Judge, Sweeper
from service_record.collector.ingest.senders import WebhookSender, make_senders, read_secret
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import bundle_rows
from service_record.collector.store.database import Database, Listening, sqlite_url
from service_record.collector.store.objects import objects
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from service_record.record.config_file import ConfigError


class News:
    """Notifies waiting tasks of changes, on any event loop. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._listeners: list[Callable[[], None]] = []
        self._is_over = threading.Event()

    @property
    def is_over(self) -> bool:
        """True at shutdown: endless loops should stop."""
        return self._is_over.is_set()

    def end(self) -> None:
        """Announce the shutdown of the process."""
        self._is_over.set()
        self.announce()

    def announce(self) -> None:
        """Notify all listeners that something changed."""
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a function to call after each change, in the thread of the change. It must be fast."""
        self._listeners.append(listener)

    def subscribe(self) -> asyncio.Event:
        """Return an event that the next change sets."""
        event = asyncio.Event()
        if self.is_over:
            event.set()
        with self._lock:
            self._waiting.add((asyncio.get_running_loop(), event))
        return event


T = TypeVar("T")


class StepsError(Exception):
    """An error in a file of steps, with its place, in one line."""


class NoticesError(Exception):
    """An error in the file of destinations, in one line."""


class Collector:
    """Everything that one collector process needs. Close it, or use it as a context manager.

    Raises StepsError, NoticesError, DatabaseError, ObjectError or OSError if it cannot start.
    """

    def __init__(self, settings: CollectorSettings, now: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.now = now
        self.definitions = _definitions(settings.steps)
        destinations = read_destinations(settings.notices) if settings.notices else Destinations()
        sending = _senders(settings, destinations, now)
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.database = Database(settings.database or sqlite_url(settings.data))
        self.database.migrate()
        self.objects = objects(settings)
        self.news = News()
        self.incoming = UploadFolder(settings.data)
        self._listening = None if self.database.is_sqlite else Listening(self.database, self.news.announce)
        count_busy = (lambda: 1) if self._listening is None else self._listening.count_busy
        self.writer = DatabaseWriter(self.database, self._tell, count_busy)
        if self.database.is_sqlite:
            self.writer.change(bundle_rows.release)
        self.indexer = Indexer(self.database, self.writer, self.objects, self.incoming, now)
        self.judge = Judge(self.database, self.writer, now)
        self.baselines = LearnedBaselines(self.database, settings.budget, self.definitions.budgets)
        self.counts = FleetCounts()
        self.refusals = Refusals()
        self.sweeper = Sweeper(
            self.database,
            self.writer,
            self.baselines,
            now,
            loop_after=settings.loop_after,
            count_busy=count_busy,
        )
        self.news.listen(self.sweeper.wake)
        self._notifiers = _notifiers(self.database, self.writer, destinations, sending, now)
        for notifier in self._notifiers:
            self.news.listen(notifier.wake)
        limits = KeepLimits(days=settings.keep_days, size=settings.keep_bytes)
        self.housekeeper = Housekeeper(self.database, self._changed, self.objects, limits, now)

    @property
    def destinations(self) -> Sequence[str]:
        """Return the names of the destinations of notices."""
        return [notifier.name for notifier in self._notifiers]

    def start(self) -> None:
        """Start the background work: read bundles, judge hosts, send news, and delete old data."""
        self.sweeper.start()
        self.indexer.start()
        self.judge.start()
        self.housekeeper.start()
        for notifier in self._notifiers:
            notifier.start()

    def reload_definitions(self) -> None:
        """Read the files of steps again. Raises StepsError and changes nothing if one is invalid."""
        self.definitions = _definitions(self.settings.steps)
        self.baselines.set_given(self.definitions.budgets)

    def reload_webhook_secret(self) -> None:
        """Read the webhook's secret again.

        Raises OSError or ValueError and keeps the old one if that fails.
        """
        if self.settings.webhook_secret_file is None:
            return
        secret = read_secret(self.settings.webhook_secret_file)
        for notifier in self._notifiers:
            if isinstance(notifier.sender, WebhookSender):
                notifier.sender.set_secret(secret)

    def _tell(self) -> None:
        """Notify this process and the others of a committed change."""
        self.news.announce()
        if self._listening is not None:
            self._listening.announce()

    def _changed(self, do: Callable[[Connection], T], /) -> T:
        """Run a change and return its result once it is on disk."""
        return self.writer.change(do).result()

    def close(self) -> None:
        """Write all accepted changes, and close everything."""
        for notifier in self._notifiers:
            notifier.end()  # end all before closing them: each may be in a slow delivery
        self.housekeeper.close()
        self.sweeper.close()
        with suppress(Unavailable, SQLAlchemyError):
            self.sweeper.beat()
        self.judge.close()
        for notifier in self._notifiers:
            notifier.close()
        self.indexer.close()
        self.writer.close()
        if self._listening is not None:
            self._listening.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_destinations(file: Path) -> Destinations:
    """Read the file of destinations. Raises NoticesError, whose message contains no URL."""
    try:
        return parse_destinations(file.read_text(encoding="utf-8"), str(file))
    except ConfigError as error:
        raise NoticesError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise NoticesError(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None


def _senders(
    settings: CollectorSettings, destinations: Destinations, now: Callable[[], float]
) -> Mapping[str, NewsSender]:
    """Return the sender for each destination. Raises NoticesError."""
    try:
        by_name = dict(make_senders(destinations))
    except DestinationError as error:
        raise NoticesError(f"{settings.notices}: {error}") from None
    if settings.webhook:
        by_name[WEBHOOK] = WebhookSender(settings.webhook, settings.webhook_secret, now)
    return by_name


def _notifiers(
    database: Database,
    writer: DatabaseWriter,
    destinations: Destinations,
    sending: Mapping[str, NewsSender],
    now: Callable[[], float],
) -> list[Notifier]:
    filters = {name: DestinationFilter() for name in sending} | {one.name: one for one in destinations.all}
    return [
        Notifier(database, writer, name, sender, filters=filters, now=now) for name, sender in sending.items()
    ]


def _definitions(paths: Iterable[Path]) -> Definitions:
    """Read the steps that are defined in all of these files. Raises StepsError."""
    by_label: dict[str, Definition] = {}
    files: dict[str, Path] = {}
    for path in paths:
        for label, definition in _definitions_in(path).by_label.items():
            if label in by_label:
                raise StepsError(f"{path}: {label} is defined in {files[label]} already; remove one of them")
            by_label[label], files[label] = definition, path
    return Definitions(by_label)


def _definitions_in(path: Path) -> Definitions:
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except ConfigError as error:
        raise StepsError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StepsError(f"{path}: {getattr(error, 'strerror', None) or error}") from None

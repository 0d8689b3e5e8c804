"""The one thread of a process that changes the database: whatever waits is written in one transaction.

A change is acknowledged when that transaction is on disk. With many at once, the price of a commit is shared.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from service_record.collector.store.database import Database
from service_record.collector.store.dialects import is_conflict, is_duplicate

T = TypeVar("T")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
_LOG: Final = logging.getLogger(__name__)
_LOST: Final = (OperationalError, InterfaceError)
"""Exceptions when the database fails, not a change."""
_MOST: Final = 512
"""Changes in one transaction: beyond that the first of them would wait too long."""
_TRIES: Final = 20
"""The number of tries of a transaction that lost against another one."""
_REST: Final = 0.01
"""Seconds before it is, at most, and so many more each time."""
_WAITING: Final = 20_000
"""Changes that may wait; more are refused, for they would be acknowledged long after anybody listens."""


class Unavailable(Exception):  # noqa: N818  # it is what is told, not a fault of ours
    """The database cannot be changed at the moment; nothing was acknowledged."""


class Batched(Protocol[Item_contra, Result_co]):
    """A change of many rows at once, cheaper than one by one; each has a result or a refusal."""

    def __call__(
        self, connection: Connection, items: Sequence[Item_contra], /
    ) -> Sequence[Result_co | Exception]: ...


@dataclass(slots=True)
class _Change(Generic[T]):
    """A change, and the future of its caller."""

    do: Callable[[Connection], T]
    done: "Future[T]" = field(default_factory=Future)
    batch: "Batched[Any, T] | None" = None
    item: object = None


class DatabaseWriter:
    """Takes changes from any thread. Close it: accepted changes are still written.

    `after` is called after each transaction.
    """

    def __init__(self, database: Database, after: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._after = after
        self._waiting: queue.Queue[_Change[Any] | None] = queue.Queue(_WAITING)
        self._is_closed = threading.Event()
        self._closing = threading.Lock()
        self.commits = 0
        """Transactions that are on disk, and so on: counted by its thread, read by any."""
        self.changes = 0
        self.conflicts = 0
        """Transactions that lost against those of another process, and were done again."""
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def change(self, do: Callable[[Connection], T]) -> "Future[T]":
        """Queue a change for a transaction. The future ends when it is on disk, or with its exception."""
        return self._take(_Change(do))

    def add(self, batch: "Batched[Any, T]", item: object) -> "Future[T]":
        """Queue for batching; retry alone if the batch fails."""

        def alone(connection: Connection) -> T:
            (result,) = batch(connection, [item])
            if isinstance(result, Exception):
                raise result
            return result

        return self._take(_Change(alone, batch=batch, item=item))

    def waiting(self) -> int:
        """Return the number of changes that wait to be written."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Write the accepted changes, and accept no more."""
        with self._closing:
            was_open = not self._is_closed.is_set()
            self._is_closed.set()
        if was_open:
            self._waiting.put(None)
        self._thread.join()

    def _take(self, change: _Change[T]) -> "Future[T]":
        change.done.set_running_or_notify_cancel()  # whoever goes away meanwhile cannot cancel it
        with self._closing:  # nothing comes after the end
            if self._is_closed.is_set():
                raise Unavailable("the collector is shutting down")
            try:
                self._waiting.put_nowait(change)
            except queue.Full:
                raise Unavailable("too many changes wait for the database") from None
        return change.done

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            began = time.perf_counter()
            if self._write(batch):
                self.commits += 1
                self.changes += len(batch)
                self.seconds += time.perf_counter() - began
            self._after()

    def _next(self) -> list[_Change[Any]] | None:
        """Return all waiting changes, at least one; None when nothing comes any more."""
        first = self._waiting.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < _MOST:
            try:
                change = self._waiting.get_nowait()
            except queue.Empty:
                break
            if change is None:  # the end: it comes again after these
                self._waiting.put(None)
                break
            batch.append(change)
        return batch

    def _write(self, changes: Sequence[_Change[Any]]) -> bool:
        """Write all changes in one transaction, and announce them after the commit; return whether it is on
        disk.

        What lost against another process is done again: nothing of it is on disk. So is what cannot be done
        at once because of one change that is at fault, with savepoints then.
        """
        is_together = True
        for tries_left in range(_TRIES, -1, -1):
            try:
                results = self._results(changes, is_together=is_together)
            except _NotTogether:
                is_together = False
                continue
            except Exception as fault:  # noqa: BLE001  # everybody is told: nothing of it is on disk
                if is_conflict(fault) and tries_left:
                    self.conflicts += 1
                    time.sleep(random.uniform(0, _REST * (_TRIES - tries_left + 1)))  # noqa: S311
                    continue
                public = _public_fault(fault)
                for change in changes:
                    change.done.set_exception(public)
                return False
            break
        for change, result in zip(changes, results, strict=True):
            if isinstance(result, Exception):
                change.done.set_exception(result)
            else:
                change.done.set_result(result)
        return True

    def _results(self, changes: Sequence[_Change[Any]], *, is_together: bool) -> list[Any]:
        """Return the result of each change, all of them on disk. Raises _NotTogether."""
        with self._database.changing() as connection:
            if is_together:
                return _at_once(connection, changes)
            results = _together(connection, changes)
            return [
                results[number] if number in results else _alone(connection, change)
                for number, change in enumerate(changes)
            ]


class _NotTogether(Exception):  # noqa: N818  # no fault, a detour
    """One of the changes that were written at once is at fault."""


def _at_once(connection: Connection, changes: Sequence[_Change[Any]]) -> list[Any]:
    """Make all changes without a savepoint, those of a kind at once: a fault undoes all.

    Raises _NotTogether.
    """
    try:
        results = dict(
            result
            for batch, numbers in _alike(changes).items()
            for result in zip(
                numbers, batch(connection, [changes[number].item for number in numbers]), strict=True
            )
        )
        return [
            results[number] if change.batch is not None else change.do(connection)
            for number, change in enumerate(changes)
        ]
    except _LOST:
        raise
    except Exception as fault:
        raise _NotTogether from fault


def _alike(changes: Sequence[_Change[Any]]) -> dict[Batched[Any, Any], list[int]]:
    """Return the numbers of the changes that can be made at once, by their kind."""
    alike: dict[Batched[Any, Any], list[int]] = {}
    for number, change in enumerate(changes):
        if change.batch is not None:
            alike.setdefault(change.batch, []).append(number)
    return alike


def _public_fault(fault: Exception) -> Exception:
    """Return the error for those whose changes are not on disk; the database's own words are for the log."""
    if not isinstance(fault, SQLAlchemyError):
        return fault
    _LOG.error("the database cannot be changed: %s", str(getattr(fault, "orig", fault)).partition("\n")[0])
    return Unavailable("the database cannot be changed at the moment")


def _together(connection: Connection, changes: Sequence[_Change[Any]]) -> dict[int, Any]:
    """Make at once the changes that can be; return the result of each, by its number."""
    results: dict[int, Any] = {}
    for batch, numbers in _alike(changes).items():
        try:
            with connection.begin_nested():
                outcomes = batch(connection, [changes[number].item for number in numbers])
        except _LOST:
            raise
        except Exception:  # noqa: BLE001, S112  # one of them is at fault: each by itself, then
            continue
        results.update(zip(numbers, outcomes, strict=True))
    return results


def _alone(connection: Connection, change: _Change[Any]) -> Any:
    """Return the result of a change, or the exception that undid only this one."""
    for tries_left in range(_TRIES, -1, -1):
        try:
            with connection.begin_nested():
                return change.do(connection)
        except _LOST:
            raise
        except Exception as fault:  # noqa: BLE001  # whoever asked for it is told
            if not (is_duplicate(fault) and tries_left):
                return fault
    raise AssertionError("it was tried at least once")

"""Writes to the database: all changes that wait go into one transaction.

A change is acknowledged when its transaction is on disk. Many changes share the price of one commit. On
PostgreSQL, the next transaction begins while the commit of the one before is still on its way to the disk.
"""

import asyncio
import contextlib
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

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
_COMMITS_AT_ONCE: Final = 8
"""Transactions that PostgreSQL may commit at the same time. SQLite has one writer."""
_GATHER_SECONDS: Final = 0.002
"""The time for which changes are gathered while another commit is on its way. Where commits are quicker than
that, a transaction has all that came during the commit before, which costs the least processor time.
"""
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
class _Change:
    """A change, and the futures of its caller: of a thread (`done`) or of an event loop (`answer`)."""

    do: Callable[[Connection], Any] = lambda _: None
    done: "Future[Any] | None" = None
    answer: "asyncio.Future[Any] | None" = None
    batch: "Batched[Any, Any] | None" = None
    items: Sequence[Any] = ()


_Outcomes = list[tuple["asyncio.Future[Any]", Any]]


class DatabaseWriter:
    """Takes changes from any thread. Close it: accepted changes are still written.

    `after` is called after each transaction.
    """

    def __init__(self, database: Database, after: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._after = after
        self._waiting: queue.Queue[_Change | None] = queue.Queue(_WAITING)
        self._is_closed = threading.Event()
        self._closing = threading.Lock()
        # Threads take changes and execute their statements in turn, and only commit side by side. So reports
        # of a host are written in the order in which they came. Only who takes changes holds both locks, in
        # this order; a transaction that is repeated needs its turn although another thread waits for changes.
        self._taking = threading.Lock()
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._committing = 0
        self._is_no_commit = threading.Event()
        self._is_no_commit.set()
        self.commits = 0
        """Transactions that are on disk, and so on: counted by its threads, read by any."""
        self.changes = 0
        self.conflicts = 0
        """Transactions that lost against those of another process, and were done again."""
        self.seconds = 0.0
        self._threads = [
            threading.Thread(target=self._run, name=f"writer {number}")
            for number in range(1 if database.is_sqlite else _COMMITS_AT_ONCE)
        ]
        for thread in self._threads:
            thread.start()

    def change(self, do: Callable[[Connection], T]) -> "Future[T]":
        """Queue a change for a transaction. The future ends when it is on disk, or with its exception."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # whoever goes away meanwhile cannot cancel it
        self._take(_Change(do, done=done))
        return done

    async def add(self, batch: "Batched[Any, T]", items: Sequence[Any]) -> Sequence[T | Exception]:
        """Write items together with those of other callers. Return the result or the refusal of each.

        Raises Unavailable if none of them is on disk.
        """
        answer: asyncio.Future[Sequence[T | Exception]] = asyncio.get_running_loop().create_future()
        self._take(_Change(answer=answer, batch=batch, items=items))
        return await answer

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
        for thread in self._threads:
            thread.join()

    def _take(self, change: _Change) -> None:
        with self._closing:  # nothing comes after the end
            if self._is_closed.is_set():
                raise Unavailable("the collector is shutting down")
            try:
                self._waiting.put_nowait(change)
            except queue.Full:
                raise Unavailable("too many changes wait for the database") from None

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            began = time.perf_counter()
            if self._write(batch):
                with self._counting:
                    self.commits += 1
                    self.changes += sum(len(change.items) or 1 for change in batch)
                    self.seconds += time.perf_counter() - began
            self._after()

    def _next(self) -> list[_Change] | None:
        """Return all waiting changes, at least one, and take the turn. None when nothing comes any more."""
        with self._taking:  # until the last is taken: another thread must not take one between them
            first = self._waiting.get()
            if first is None:
                self._waiting.put(None)  # for the next thread
                return None
            self._turn.acquire()
            self._is_no_commit.wait(_GATHER_SECONDS)
            batch, size = [first], len(first.items)
            while len(batch) + size < _MOST:
                try:
                    change = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if change is None:  # the end: it comes again after these
                    self._waiting.put(None)
                    break
                batch.append(change)
                size += len(change.items)
            return batch

    def _write(self, changes: Sequence[_Change]) -> bool:
        """Write all changes in one transaction, and announce them after the commit; return whether it is on
        disk. The caller has the turn, which is over when this returns.

        A transaction that lost against another process is repeated: nothing of it is on disk. So is one with
        a change that is at fault, with savepoints then.
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
                self._turn.release()
                public = _public_fault(fault)
                _answer(changes, [public] * len(changes))
                return False
            break
        _answer(changes, results)
        return True

    def _results(self, changes: Sequence[_Change], *, is_together: bool) -> list[Any]:
        """Return the result of each change, all of them on disk. Raises _NotTogether.

        The turn is over when this returns; after an exception, the caller has it again.
        """
        is_committing = False
        try:
            with self._database.changing() as connection:
                if is_together:
                    results = _at_once(connection, changes)
                else:
                    by_number = _together(connection, changes)
                    results = [
                        by_number[number] if number in by_number else _alone(connection, change)
                        for number, change in enumerate(changes)
                    ]
                is_committing = True
                self._count_commit(1)
                self._turn.release()
        except BaseException:
            if is_committing:
                self._count_commit(-1)
                self._turn.acquire()
            raise
        self._count_commit(-1)
        return results

    def _count_commit(self, number: int) -> None:
        with self._counting:
            self._committing += number
            (self._is_no_commit.clear if self._committing else self._is_no_commit.set)()


def _answer(changes: Sequence[_Change], results: Sequence[Any]) -> None:
    """Give each caller its result; wake each event loop once, which costs as much as a whole report."""
    by_loop: dict[asyncio.AbstractEventLoop, _Outcomes] = {}
    for change, result in zip(changes, results, strict=True):
        if change.answer is not None:
            by_loop.setdefault(change.answer.get_loop(), []).append((change.answer, result))
        elif change.done is not None:
            if isinstance(result, Exception):
                change.done.set_exception(result)
            else:
                change.done.set_result(result)
    for loop, outcomes in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: its callers are gone
            loop.call_soon_threadsafe(_set_results, outcomes)


def _set_results(outcomes: _Outcomes) -> None:
    for answer, result in outcomes:
        if answer.done():  # its client went away
            continue
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)


class _NotTogether(Exception):  # noqa: N818  # no fault, a detour
    """One of the changes that were written at once is at fault."""


def _at_once(connection: Connection, changes: Sequence[_Change]) -> list[Any]:
    """Make all changes without a savepoint, those of a kind at once: a fault undoes all.

    Raises _NotTogether.
    """
    try:
        results: dict[int, Any] = {}
        for batch, numbers in _alike(changes).items():
            results |= _batched(connection, batch, changes, numbers)
        return [
            results[number] if change.batch is not None else change.do(connection)
            for number, change in enumerate(changes)
        ]
    except _LOST:
        raise
    except Exception as fault:
        raise _NotTogether from fault


def _alike(changes: Sequence[_Change]) -> dict[Batched[Any, Any], list[int]]:
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


def _together(connection: Connection, changes: Sequence[_Change]) -> dict[int, Any]:
    """Make at once the changes that can be; return the result of each, by its number."""
    results: dict[int, Any] = {}
    for batch, numbers in _alike(changes).items():
        try:
            with connection.begin_nested():
                outcomes = _batched(connection, batch, changes, numbers)
        except _LOST:
            raise
        except Exception:  # noqa: BLE001, S112  # one of them is at fault: each by itself, then
            continue
        results |= outcomes
    return results


def _batched(
    connection: Connection, batch: Batched[Any, Any], changes: Sequence[_Change], numbers: Sequence[int]
) -> dict[int, Any]:
    """Write the items of these changes at once; return the results of each change, by its number."""
    results = batch(connection, [item for number in numbers for item in changes[number].items])
    by_number: dict[int, Any] = {}
    at = 0
    for number in numbers:
        end = at + len(changes[number].items)
        by_number[number] = results[at:end]
        at = end
    return by_number


def _alone(connection: Connection, change: _Change) -> Any:
    """Return the result of a change, or the exception that undid only this one; of a batch, of each item."""
    batch = change.batch
    if batch is None:
        return _with_savepoint(connection, change.do)
    results = [_with_savepoint(connection, _of_one(batch, item)) for item in change.items]
    return [result if isinstance(result, Exception) else result[0] for result in results]


def _of_one(batch: Batched[Any, Any], item: Any) -> Callable[[Connection], Any]:
    return lambda connection: batch(connection, [item])


def _with_savepoint(connection: Connection, do: Callable[[Connection], Any]) -> Any:
    for tries_left in range(_TRIES, -1, -1):
        try:
            with connection.begin_nested():
                return do(connection)
        except _LOST:
            raise
        except Exception as fault:  # noqa: BLE001  # whoever asked for it is told
            if not (is_duplicate(fault) and tries_left):
                return fault
    raise AssertionError("it was tried at least once")

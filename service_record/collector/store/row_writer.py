"""Write changes to the database, with many changes in one transaction.

A change is acknowledged when its transaction is on disk. Group commit: all waiting changes share one
transaction. With PostgreSQL, the next transaction begins while previous commits are still in progress.
"""

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from service_record.collector.store.database import Database
from service_record.collector.store.dialects import is_conflict, is_duplicate

T = TypeVar("T")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
_LOG: Final = logging.getLogger(__name__)
_DATABASE_ERRORS: Final = (OperationalError, InterfaceError)
"""Exceptions that mean that the database failed, rather than a change."""
_MAX_CHANGES: Final = 512
"""Maximum number of changes in one transaction, so that the first ones do not wait too long."""
_COMMITS_AT_ONCE: Final = 8
"""Maximum number of concurrent commits with PostgreSQL. SQLite has only one writer."""
_GATHER_SECONDS: Final = 0.002
"""How long a transaction waits for more changes while another commit is in progress. If commits are faster
than this, each transaction contains the changes that arrived during the previous commit, which is most
efficient.
"""
_SLOW_COMMIT_SECONDS: Final = 0.012
"""On a busy machine, commits to a fast disk take half of this."""
_MAX_FIRST_CHANGES: Final = 16
"""Maximum number of changes in a transaction that begins while no commit is in progress, if commits are slow
and can overlap. Its commit starts early, and all other changes are written meanwhile. Where PostgreSQL waits
for a replica or for `commit_delay`, this is 5% faster; where it waits for its disk, it makes no difference.
Do not lower it: a transaction costs as much processor time as 12 changes. With a limit of 8, four processes
with 12 clients each needed a third more.
"""
RETRY_SECONDS: Final = 20.0
"""How long a transaction is repeated after conflicts with other ones: as long as other transactions wait
for a lock (`lock_timeout`). A maximum number of retries would depend on the speed of the machine.
"""
_RETRY_PAUSE_SECONDS: Final = 0.01
"""Maximum delay before the first retry; it grows by this much with each retry."""
_MAX_RETRY_PAUSE_SECONDS: Final = 0.2
_MAX_DUPLICATES: Final = 20
"""Maximum number of retries after another process inserted the same key. The first one finds its row."""
_MAX_WAITING: Final = 20_000
"""Maximum number of waiting changes. More are refused: their clients would time out anyway."""


class Unavailable(Exception):  # noqa: N818  # an answer, not a bug
    """The database cannot be changed at the moment. Nothing was acknowledged."""


class Batched(Protocol[Item_contra, Result_co]):
    """A function that writes many items at once. It returns a result or an exception for each."""

    def __call__(
        self, connection: Connection, items: Sequence[Item_contra], /
    ) -> Sequence[Result_co | Exception]: ...


Deliver = Callable[[Any], None]
"""Called with the result of a change, or with an exception as the result. It must not raise."""


@dataclass(slots=True)
class _Change:
    """A waiting change, and how its caller gets the result.

    It is either a function, `do`, or items that one call of `batch` writes together with others.
    """

    deliver: Deliver
    loop: asyncio.AbstractEventLoop | None = None
    """The event loop that calls `deliver`; without one, the writer's thread does."""
    do: Callable[[Connection], Any] = lambda _: None
    batch: "Batched[Any, Any] | None" = None
    items: Sequence[Any] = ()


class DatabaseWriter:
    """Accepts changes from any thread. `close` writes the accepted changes.

    `after` is called after each transaction. `count_busy` returns the number of busy processes that share the
    database, including this one.
    """

    def __init__(
        self,
        database: Database,
        after: Callable[[], None] = lambda: None,
        count_busy: Callable[[], int] = lambda: 1,
    ) -> None:
        self._database = database
        self._after = after
        self._count_busy = count_busy
        self._waiting: deque[_Change] = deque()
        self._has_changes = threading.Event()
        """Set while changes wait, and always after `close`."""
        self._is_closed = threading.Event()
        self._closing = threading.Lock()
        # One thread at a time takes changes and executes their statements; only the commits overlap. So the
        # reports of a host are written in the order of their arrival. There are two locks, because a thread
        # that repeats a transaction needs `_turn` while another one holds `_taking` and waits for changes. A
        # thread that needs both acquires `_taking` first.
        self._taking = threading.Lock()
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._committing = 0
        self._commit_seconds = 0.0
        """Duration of the latest commit."""
        self._is_no_commit = threading.Event()
        self._is_no_commit.set()
        self.commits = 0
        """Number of committed transactions. Written by the writer's threads, read by any thread."""
        self.changes = 0
        self.conflicts = 0
        """Number of transactions that were repeated after a conflict with another process."""
        self.seconds = 0.0
        self._threads = [
            threading.Thread(target=self._run, name=f"writer {number}")
            for number in range(1 if database.is_sqlite else _COMMITS_AT_ONCE)
        ]
        for thread in self._threads:
            thread.start()

    def change(self, do: Callable[[Connection], T]) -> "Future[T]":
        """Queue a change. The future gets the result once it is on disk, or the exception."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # a caller that gives up cannot cancel it any more
        self._enqueue(_Change(partial(_settle, done), do=do))
        return done

    async def add(self, batch: "Batched[Any, T]", items: Sequence[Any]) -> Sequence[T | Exception]:
        """Write items together with those of other callers. Return a result or an exception for each.

        Raises Unavailable if none of them is on disk.
        """
        answer: asyncio.Future[Sequence[T | Exception]] = asyncio.get_running_loop().create_future()
        self.submit(batch, items, answer.get_loop(), partial(_settle, answer))
        return await answer

    def submit(
        self,
        batch: "Batched[Any, Any]",
        items: Sequence[Any],
        loop: asyncio.AbstractEventLoop,
        deliver: Deliver,
    ) -> None:
        """Write items like `add`, but call `deliver` in the event loop with the result.

        This costs neither a future nor a task. Raises Unavailable if the items are not accepted.
        """
        self._enqueue(_Change(deliver, loop, batch=batch, items=items))

    def waiting(self) -> int:
        """Return the number of waiting changes."""
        return len(self._waiting)

    def close(self) -> None:
        """Accept no more changes, and write the accepted ones."""
        with self._closing:
            self._is_closed.set()
            self._has_changes.set()
        for thread in self._threads:
            thread.join()

    def _enqueue(self, change: _Change) -> None:
        with self._closing:  # after `close`, no change is accepted
            if self._is_closed.is_set():
                raise Unavailable("the collector is shutting down")
            if len(self._waiting) >= _MAX_WAITING:
                raise Unavailable("too many changes wait for the database")
            self._waiting.append(change)
        if not self._has_changes.is_set():  # waking a thread is expensive: wake it once for many changes
            self._has_changes.set()

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            began = time.perf_counter()
            if self._write(batch):
                with self._counting:
                    self.commits += 1
                    self.changes += sum(len(change.items) or 1 for change in batch)
                    self.seconds += time.perf_counter() - began
            self._after()

    def _next_batch(self) -> list[_Change] | None:
        """Wait for changes and return them, up to the maximum, with the lock for statements held.

        Returns None after `close`.
        """
        with self._taking:  # held until the whole batch is taken: another thread must not take a part of it
            while not self._waiting:
                if self._is_closed.is_set():
                    return None
                self._has_changes.wait()
                with self._closing:  # `_enqueue` cannot add a change between the check and `clear`
                    if not self._waiting and not self._is_closed.is_set():
                        self._has_changes.clear()
            self._turn.acquire()
            self._is_no_commit.wait(_GATHER_SECONDS)
            others = self._count_busy() - 1
            if others > 0 and self._commit_seconds <= _SLOW_COMMIT_SECONDS:
                # Each process has only a part of the reports, and a transaction costs the same.
                time.sleep(_GATHER_SECONDS * others)
            is_early = len(self._threads) > 1 and not self._committing
            most = (
                _MAX_FIRST_CHANGES
                if is_early and self._commit_seconds > _SLOW_COMMIT_SECONDS
                else _MAX_CHANGES
            )
            batch: list[_Change] = []
            size = 0
            while self._waiting and size < most:
                change = self._waiting.popleft()
                batch.append(change)
                size += len(change.items) or 1
            return batch

    def _write(self, changes: Sequence[_Change]) -> bool:
        """Write all changes in one transaction and announce them. Return True if they are on disk.

        The caller holds the lock for statements; it is released when this returns. The transaction is
        repeated after a conflict with another process. If one of the changes fails, the transaction is
        repeated with a savepoint for each change.
        """
        is_together = True
        retries = 0
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                results = self._execute_and_commit(changes, is_together=is_together)
            except _ChangeFailed:
                is_together = False  # happens at most once, and does not count as a retry
                continue
            except Exception as fault:  # noqa: BLE001  # every caller gets the exception: nothing is on disk
                if is_conflict(fault) and time.monotonic() < deadline:
                    self.conflicts += 1
                    retries += 1
                    longest = min(_RETRY_PAUSE_SECONDS * retries, _MAX_RETRY_PAUSE_SECONDS)
                    time.sleep(random.uniform(0, longest))  # noqa: S311
                    continue
                self._turn.release()
                public = _public_fault(fault)
                _answer(changes, [public] * len(changes))
                return False
            break
        _answer(changes, results)
        return True

    def _execute_and_commit(self, changes: Sequence[_Change], *, is_together: bool) -> list[Any]:
        """Execute and commit all changes. Return their results. Raises _ChangeFailed.

        The lock for statements is released when this returns, and held again after an exception.
        """
        is_committing = False
        try:
            with self._database.changing() as connection:
                if is_together:
                    results = _apply_together(connection, changes)
                else:
                    by_number = _apply_batches(connection, changes)
                    results = [
                        by_number[number] if number in by_number else _apply_alone(connection, change)
                        for number, change in enumerate(changes)
                    ]
                is_committing = True
                self._count_commit(1)
                began = time.perf_counter()
                self._turn.release()
        except BaseException:
            if is_committing:
                self._count_commit(-1)
                self._turn.acquire()
            raise
        self._commit_seconds = time.perf_counter() - began
        self._count_commit(-1)
        return results

    def _count_commit(self, number: int) -> None:
        with self._counting:
            self._committing += number
            (self._is_no_commit.clear if self._committing else self._is_no_commit.set)()


def _answer(changes: Sequence[_Change], results: Sequence[Any]) -> None:
    """Give each caller its result.

    Wakes each event loop only once: waking is as expensive as a whole report.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Deliver, Any]]] = {}
    for change, result in zip(changes, results, strict=True):
        if change.loop is not None:
            by_loop.setdefault(change.loop, []).append((change.deliver, result))
        else:
            change.deliver(result)
    for loop, results_of_loop in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the event loop was closed, so its callers are gone
            loop.call_soon_threadsafe(_deliver, results_of_loop)


def _deliver(results: Sequence[tuple[Deliver, Any]]) -> None:
    for deliver, result in results:
        deliver(result)


def _settle(future: "asyncio.Future[Any] | Future[Any]", result: Any) -> None:
    if future.done():  # its client disconnected
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


class _ChangeFailed(Exception):  # noqa: N818  # used for control flow
    """One of the changes in a transaction without savepoints failed."""


def _apply_together(connection: Connection, changes: Sequence[_Change]) -> list[Any]:
    """Apply all changes without savepoints. The items of each batch function are written with one call.

    Raises _ChangeFailed if a change fails. The caller then rolls back the transaction.
    """
    try:
        results: dict[int, Any] = {}
        for batch, numbers in _group_by_batch(changes).items():
            results |= _apply_batch(connection, batch, changes, numbers)
        return [
            results[number] if change.batch is not None else change.do(connection)
            for number, change in enumerate(changes)
        ]
    except _DATABASE_ERRORS:
        raise
    except Exception as fault:
        raise _ChangeFailed from fault


def _group_by_batch(changes: Sequence[_Change]) -> dict[Batched[Any, Any], list[int]]:
    """Return {batch function: indexes of its changes}. These changes can be written with one call."""
    alike: dict[Batched[Any, Any], list[int]] = {}
    for number, change in enumerate(changes):
        if change.batch is not None:
            alike.setdefault(change.batch, []).append(number)
    return alike


def _public_fault(fault: Exception) -> Exception:
    """Return the exception for callers. The message of the database is only logged."""
    if not isinstance(fault, SQLAlchemyError):
        return fault
    _LOG.error("the database cannot be changed: %s", str(getattr(fault, "orig", fault)).partition("\n")[0])
    return Unavailable("the database cannot be changed at the moment")


def _apply_batches(connection: Connection, changes: Sequence[_Change]) -> dict[int, Any]:
    """Apply the changes that can be combined, with a savepoint for each batch function.

    Returns {index: result}. The changes of a batch function that failed are missing from it.
    """
    results: dict[int, Any] = {}
    for batch, numbers in _group_by_batch(changes).items():
        try:
            with connection.begin_nested():
                outcomes = _apply_batch(connection, batch, changes, numbers)
        except _DATABASE_ERRORS:
            raise
        except Exception:  # noqa: BLE001, S112  # the caller repeats these changes one by one
            continue
        results |= outcomes
    return results


def _apply_batch(
    connection: Connection, batch: Batched[Any, Any], changes: Sequence[_Change], numbers: Sequence[int]
) -> dict[int, Any]:
    """Write the items of the changes with these indexes with one call. Return {index: results}."""
    results = batch(connection, [item for number in numbers for item in changes[number].items])
    by_number: dict[int, Any] = {}
    at = 0
    for number in numbers:
        end = at + len(changes[number].items)
        by_number[number] = results[at:end]
        at = end
    return by_number


def _apply_alone(connection: Connection, change: _Change) -> Any:
    """Apply a change in a savepoint. Return its result or exception.

    If the change has items, each gets a savepoint, and a list of results and exceptions is returned.
    """
    batch = change.batch
    if batch is None:
        return _with_savepoint(connection, change.do)
    results = [_with_savepoint(connection, _bind_item(batch, item)) for item in change.items]
    return [result if isinstance(result, Exception) else result[0] for result in results]


def _bind_item(batch: Batched[Any, Any], item: Any) -> Callable[[Connection], Any]:
    return lambda connection: batch(connection, [item])


def _with_savepoint(connection: Connection, do: Callable[[Connection], Any]) -> Any:
    """Call `do` in a savepoint. Return its result or exception.

    It is repeated if another process inserted the same key first. Raises the errors in `_DATABASE_ERRORS`.
    """
    for tries_left in range(_MAX_DUPLICATES, -1, -1):
        try:
            with connection.begin_nested():
                return do(connection)
        except _DATABASE_ERRORS:
            raise
        except Exception as fault:  # noqa: BLE001  # the caller gets it as the result
            if not (is_duplicate(fault) and tries_left):
                return fault
    raise AssertionError("it was tried at least once")

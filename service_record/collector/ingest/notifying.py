"""Tells destinations of changes of verdicts: a thread for each, in each process; all share the work."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.domain.destinations import DestinationFilter
from service_record.collector.ingest.rounds import Background
from service_record.collector.logs import fault_of, log
from service_record.collector.store import notices
from service_record.collector.store.database import Database
from service_record.collector.store.notices import Delivery
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from service_record.redaction import LeakError, Rules, outgoing_text

T = TypeVar("T")
MAX_TRIES: Final = 24
"""The number of tries after which news are given up: more than half a day after the first."""
_FIRST_WAIT_SECONDS: Final = 5.0
_MAX_WAIT_SECONDS: Final = 3600.0
SEND_SECONDS: Final = 30.0
"""The time limit of one delivery, whatever it hangs in: a service that is stopped has time for it."""
LEASE_SECONDS: Final = SEND_SECONDS + 15.0
"""The time for which a delivery belongs to one process; after that process was killed, the delivery waits
as long.
"""
_MAX_IN_DIGEST: Final = 500
_MAX_SLEEP_SECONDS: Final = 30.0
"""Another process may have left news."""
_MIN_SLEEP_SECONDS: Final = 0.1
"""The wait while an older delivery of the same host is on its way."""
_AGAIN_SECONDS: Final = 5.0
"""The wait before the next try to note what was delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """A destination's answer to a delivery."""

    is_taken: bool
    is_final: bool = False
    """True if a refusal is final."""
    pause: float = 0.0
    """Seconds for which it asks to wait."""
    status: int = 0
    """The status of its answer; 0 if there is none or it is unknown."""


class NewsSender(Protocol):
    """Sends news to one destination."""

    at_once: int
    """Deliveries that may be on their way at once."""

    def send(self, delivery: Delivery) -> SendResult:
        """Send it, once; any exception is a refusal."""

    def close(self) -> None:
        """Close the connections."""


def wait_after(tries: int, chance: float, requested: float = 0.0) -> float | None:
    """Return the seconds until it is sent again, after so many tries; None if it is given up.

    `chance` is from 0 to 1; `requested` are the seconds that the receiver asks for.
    """
    if tries >= MAX_TRIES:
        return None
    doubled = min(_FIRST_WAIT_SECONDS * 2.0 ** (tries - 1), _MAX_WAIT_SECONDS)
    return max(doubled * (0.5 + chance / 2), min(requested, _MAX_WAIT_SECONDS))


def public_reason(reason: str) -> str:
    """Return a reason without anything like a secret: hosts may have sent records with their secrets in
    them.
    """
    try:
        return outgoing_text(reason, Rules())
    except LeakError:
        return "left out: it holds a secret"


class Notifier(Background):
    """Delivers news to one destination; what it accepted is never sent again.

    Only of what is on its way when a process is killed is it unknown whether it came: it is sent again.
    """

    def __init__(
        self,
        database: Database,
        writer: DatabaseWriter,
        name: str,
        sender: NewsSender,
        *,
        filters: Mapping[str, DestinationFilter],
        now: Callable[[], float] = time.time,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        """Make one for the destination `name`; `filters` has the filters of all destinations."""
        super().__init__(f"notices-{name}", "notifications are sent later")
        self.name = name
        self.sender = sender
        self._database = database
        self._writer = writer
        self._filters = filters
        self._now = now
        self._send_seconds = send_seconds

    def round(self) -> float:
        """Deliver what is due; return the seconds until something will be again."""
        self.deliver_due()
        now = self._now()
        with self._database.reading() as connection:
            next_at = notices.next_due(connection, self.name, now)
        if next_at is None:
            return _MAX_SLEEP_SECONDS
        return min(max(next_at - now, _MIN_SLEEP_SECONDS), _MAX_SLEEP_SECONDS)

    def close(self) -> None:
        """Stop after the current deliveries."""
        super().close()
        self.sender.close()

    def deliver_due(self) -> None:
        """Deliver all that is due now. Raises Unavailable, SQLAlchemyError when the database fails."""
        now = self._now()
        while self._writer.change(
            lambda connection: notices.address(connection, self._filters, now)
        ).result():
            pass
        with ThreadPoolExecutor(self.sender.at_once, thread_name_prefix=self.name) as pool:
            while not self._is_closed.is_set():
                claimed = self._writer.change(self._claim).result()
                if not claimed:
                    return
                list(pool.map(self._deliver, claimed))

    def _claim(self, connection: Connection) -> Sequence[Delivery]:
        now = self._now()
        return notices.claim_due(
            connection, self.name, now, now + LEASE_SECONDS, most=_MAX_IN_DIGEST, at_once=self.sender.at_once
        )

    def _deliver(self, delivery: Delivery) -> None:
        if self._is_closed.is_set():
            self._put_off(delivery, self._now())
            return
        try:
            result = _within(self._send_seconds, lambda: self.sender.send(delivery))
        except Exception as fault:  # noqa: BLE001  # whatever a library raises, its text may hold the URL
            log().warning("cannot notify a destination", destination=self.name, **fault_of(fault))
            result = SendResult(is_taken=False)
        now, tries = self._now(), delivery.tries + 1
        if result.is_taken:
            self._mark_delivered(delivery, now)
            return
        wait = None if result.is_final else wait_after(tries, random.random(), result.pause)  # noqa: S311
        log().warning(
            "news were not taken" if wait is not None else "news are given up",
            destination=self.name,
            notice=delivery.ids[0],
            news=len(delivery.ids),
            status=result.status,
            tries=tries,
        )
        self._put_off(delivery, None if wait is None else now + wait)

    def _put_off(self, delivery: Delivery, next_at: float | None) -> None:
        self._writer.change(
            lambda connection: notices.put_off(connection, self.name, delivery.ids, next_at)
        ).result()

    def _mark_delivered(self, delivery: Delivery, now: float) -> None:
        """Record the delivery, however long the database takes: otherwise it would be sent again."""
        while True:
            try:
                self._writer.change(
                    lambda connection: notices.delivered(connection, self.name, delivery.ids, now)
                ).result()
            except (Unavailable, SQLAlchemyError):
                if self._is_closed.wait(_AGAIN_SECONDS):
                    return
            else:
                return


def _within(seconds: float, do: Callable[[], T]) -> T:
    """Return the result of a call. Raises TimeoutError when it takes longer; the call is then abandoned."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(do())
        except BaseException as fault:  # noqa: BLE001  # it is raised where it is waited for
            result.set_exception(fault)

    threading.Thread(target=run, name="delivery", daemon=True).start()
    try:
        return result.result(seconds)
    except Late:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None

"""Send notices to destinations. Each process has a thread for each destination; processes share the work."""

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
from service_record.collector.logs import describe_fault, log
from service_record.collector.store import notices
from service_record.collector.store.database import Database
from service_record.collector.store.notices import Delivery
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from service_record.redaction import LeakError, Rules, outgoing_text

T = TypeVar("T")
MAX_TRIES: Final = 24
"""A notice is dropped after this many attempts, more than half a day after the first."""
_FIRST_WAIT_SECONDS: Final = 5.0
_MAX_WAIT_SECONDS: Final = 3600.0
SEND_SECONDS: Final = 30.0
"""Time limit of one delivery. It is shorter than the time that a service has to stop."""
LEASE_SECONDS: Final = SEND_SECONDS + 15.0
"""How long a process claims a delivery. If the process is killed, the delivery waits for this time.
"""
_MAX_IN_DIGEST: Final = 500
_MAX_SLEEP_SECONDS: Final = 30.0
"""Another process may have left deliveries."""
_MIN_SLEEP_SECONDS: Final = 0.1
"""The wait while an older delivery of the same host is on its way."""
_AGAIN_SECONDS: Final = 5.0
"""Delay before the next attempt to store the result of a delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """A destination's answer to a delivery."""

    is_taken: bool
    is_final: bool = False
    """True if the delivery must not be repeated."""
    pause: float = 0.0
    """Seconds to wait, as the destination requests (Retry-After)."""
    status: int = 0
    """The status of its answer; 0 if there is none or it is unknown."""


class NewsSender(Protocol):
    """Sends notices to one destination."""

    at_once: int
    """Maximum number of concurrent deliveries."""

    def send(self, delivery: Delivery) -> SendResult:
        """Send a delivery once. Any exception counts as a refusal."""

    def close(self) -> None:
        """Close the connections."""


def find_retry_delay(tries: int, chance: float, requested: float = 0.0) -> float | None:
    """Return the seconds until the next attempt, or None to give up.

    `chance` is from 0 to 1; `requested` are the seconds that the receiver asks for.
    """
    if tries >= MAX_TRIES:
        return None
    doubled = min(_FIRST_WAIT_SECONDS * 2.0 ** (tries - 1), _MAX_WAIT_SECONDS)
    return max(doubled * (0.5 + chance / 2), min(requested, _MAX_WAIT_SECONDS))


def public_reason(reason: str) -> str:
    """Return a reason with secrets masked: records from hosts may contain some."""
    try:
        return outgoing_text(reason, Rules())
    except LeakError:
        return "left out: it holds a secret"


class Notifier(Background):
    """Delivers notices to one destination. An accepted notice is never sent again.

    If the process is killed during a delivery, it is unknown whether it arrived, so it is sent again.
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
        """Create a notifier for the destination `name`. `filters` has the filters of all destinations."""
        super().__init__(f"notices-{name}", "notifications are sent later")
        self.name = name
        self.sender = sender
        self._database = database
        self._writer = writer
        self._filters = filters
        self._now = now
        self._send_seconds = send_seconds

    def round(self) -> float:
        """Deliver everything that is due. Return the seconds until the next delivery."""
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
        """Deliver everything that is due now. Raises Unavailable or SQLAlchemyError if the database fails."""
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
            self._postpone(delivery, self._now())
            return
        try:
            result = _call_with_timeout(self._send_seconds, lambda: self.sender.send(delivery))
        except Exception as fault:  # noqa: BLE001  # the text of any exception may contain the URL
            log().warning("cannot notify a destination", destination=self.name, **describe_fault(fault))
            result = SendResult(is_taken=False)
        now, tries = self._now(), delivery.tries + 1
        if result.is_taken:
            self._mark_delivered(delivery, now)
            return
        wait = None if result.is_final else find_retry_delay(tries, random.random(), result.pause)  # noqa: S311
        log().warning(
            "news were not taken" if wait is not None else "news are given up",
            destination=self.name,
            notice=delivery.ids[0],
            news=len(delivery.ids),
            status=result.status,
            tries=tries,
        )
        self._postpone(delivery, None if wait is None else now + wait)

    def _postpone(self, delivery: Delivery, next_at: float | None) -> None:
        self._writer.change(
            lambda connection: notices.postpone(connection, self.name, delivery.ids, next_at)
        ).result()

    def _mark_delivered(self, delivery: Delivery, now: float) -> None:
        """Store the result, however long the database takes: otherwise the delivery would be repeated."""
        while True:
            try:
                self._writer.change(
                    lambda connection: notices.mark_delivered(connection, self.name, delivery.ids, now)
                ).result()
            except (Unavailable, SQLAlchemyError):
                if self._is_closed.wait(_AGAIN_SECONDS):
                    return
            else:
                return


def _call_with_timeout(seconds: float, do: Callable[[], T]) -> T:
    """Call `do` in a thread and return its result.

    If it takes longer than `seconds`, raises TimeoutError; the thread is abandoned.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(do())
        except BaseException as fault:  # noqa: BLE001  # `result.result` raises it again
            result.set_exception(fault)

    threading.Thread(target=run, name="delivery", daemon=True).start()
    try:
        return result.result(seconds)
    except Late:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None

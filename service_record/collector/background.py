"""What a collector does by itself, now and then: each in a thread, in rounds, until it is closed."""

import threading
import time
from abc import ABC, abstractmethod
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.logs import fault_of, log
from service_record.collector.store.objects import ObjectError
from service_record.collector.store.writer import Unavailable

_PASSING: Final = (Unavailable, SQLAlchemyError, ObjectError)
"""Faults of what it depends on; any other is one of ours."""


class Background(ABC):
    """Makes rounds in a thread of its own: when it is woken, and when the next is due.

    A round that fails is logged in one line and made again later: no fault ends the thread.
    """

    def __init__(
        self,
        name: str,
        fault: str,
        *,
        first: float = 0.0,
        again: float = 5.0,
        pause: float = 0.0,
        share: float = 0.0,
    ) -> None:
        """`fault` is what is logged of a round that failed. All times are seconds: `first` until the first
        round, `again` after one that failed, whoever wakes it. Between two rounds are `pause` at least, and
        `share` times as long as the first of them took.
        """
        self._fault = fault
        self._first = first
        self._again = again
        self._pause = pause
        self._share = share
        self._is_awake = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    @abstractmethod
    def round(self) -> float:
        """Do what is due; seconds until something will be again."""

    def start(self) -> None:
        """Make rounds until it is closed."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        self._is_awake.set()

    def close(self) -> None:
        """End, after the round that it is at; a round may look at `_is_closed`, and end early."""
        self._is_closed.set()
        self._is_awake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        self._is_awake.wait(self._first)
        while True:
            self._is_awake.clear()
            if (
                self._is_closed.is_set()
            ):  # looked at after the clearing, which may have undone close()'s waking
                return
            began = time.monotonic()
            sleep = self._tried()
            if sleep is None:
                self._is_closed.wait(self._again)
                continue
            rest = max(self._pause, self._share * (time.monotonic() - began))
            self._is_awake.wait(sleep)
            self._is_closed.wait(rest)

    def _tried(self) -> float | None:
        """Seconds until the next round, None where this one failed."""
        try:
            return self.round()
        except _PASSING as fault:
            if not self._is_closed.is_set():  # then rounds are cut short on purpose
                log().warning(self._fault, **fault_of(fault))
        except Exception as fault:  # noqa: BLE001  # whatever is wrong with one thing, the others are still to be done
            log().error(self._fault, **fault_of(fault))
        return None

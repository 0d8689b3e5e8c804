"""Judges hosts when that is due: a thread in each process, any number of processes at once."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.learnt import Learnt
from service_record.collector.store import judging
from service_record.collector.store.database import Database
from service_record.collector.store.writer import Unavailable, Writer

_MOST: Final = 200
"""Hosts that are judged in one transaction: others wait to write meanwhile."""
_PAUSE: Final = 0.25
"""Seconds between two rounds at least: what comes within them is judged together."""
_SHARE: Final = 4
"""It rests so many times as long as a round took, at least: most of the time belongs to those who report."""
_LONGEST: Final = 30.0
"""Seconds that it sleeps at most, should another process's news not come."""
_AGAIN: Final = 5.0
"""Seconds until it tries again after a fault."""
_LOG: Final = logging.getLogger(__name__)


class Sweeper:
    """Sleeps until a verdict is due, or something is heard."""

    def __init__(
        self, database: Database, writer: Writer, learnt: Learnt, now: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._writer = writer
        self._learnt = learnt
        self._now = now
        self._is_awake = threading.Event()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Judge what is due, and go on with that until it is closed."""
        self._thread = threading.Thread(target=self._run, name="sweeper")
        self._thread.start()

    def wake(self) -> None:
        """Something was heard."""
        self._is_awake.set()

    def close(self) -> None:
        """End, after the round that it is at."""
        self._is_closed.set()
        self._is_awake.set()
        if self._thread is not None:
            self._thread.join()

    def sweep(self) -> None:
        """Judge all that is due now. Raises Unavailable, SQLAlchemyError when the database fails."""
        while not self._is_closed.is_set() and self._judge_some():
            pass

    def _judge_some(self) -> bool:
        now = self._now()
        with self._database.reading() as connection:
            labels = judging.labels_due(connection, now, _MOST)
        if not labels:
            return False
        budgets = self._learnt.budgets(labels)
        done = self._writer.change(
            lambda connection: judging.judge_due(connection, budgets, labels, now, _MOST)
        ).result()
        return done is not None

    def _run(self) -> None:
        while not self._is_closed.is_set():
            self._is_awake.clear()
            began = time.monotonic()
            sleep = self._round()
            if sleep is None:
                self._is_closed.wait(_AGAIN)
                continue
            rest = max(_PAUSE, _SHARE * (time.monotonic() - began))
            self._is_awake.wait(sleep)
            self._is_closed.wait(rest)

    def _round(self) -> float | None:
        """Judge what is due; seconds until something will be again, None where it could not be judged."""
        try:
            self.sweep()
            with self._database.reading() as connection:
                due_at = judging.next_due(connection)
        except (Unavailable, SQLAlchemyError) as fault:
            _LOG.warning("hosts could not be judged: %s", str(fault).partition("\n")[0])
            return None
        except Exception:  # noqa: BLE001  # whatever is wrong with one host, the others are still to be judged
            _LOG.exception("hosts could not be judged")
            return None
        return _LONGEST if due_at is None else min(max(due_at - self._now(), 0.0), _LONGEST)

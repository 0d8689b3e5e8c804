"""Judges hosts when that is due: a thread in each process, any number of processes at once."""

import time
from collections.abc import Callable
from typing import Final

from service_record.collector.background import Background
from service_record.collector.learnt import Learnt
from service_record.collector.store import judging
from service_record.collector.store.database import Database
from service_record.collector.store.writer import Writer
from service_record.collector.verdicts import LOOP

_MOST: Final = 200
"""Hosts that are judged in one transaction: others wait to write meanwhile."""
_PAUSE: Final = 0.25
"""Seconds between two rounds at least: what comes within them is judged together."""
_SHARE: Final = 4
"""It rests so many times as long as a round took, at least: most of the time belongs to those who report."""
_LONGEST: Final = 30.0
"""Seconds that it sleeps at most, should another process's news not come."""


class Sweeper(Background):
    """Judges when a verdict is due, or something was heard."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        learnt: Learnt,
        now: Callable[[], float] = time.time,
        loop_after: int = LOOP,
    ) -> None:
        super().__init__("sweeper", "hosts could not be judged", pause=_PAUSE, share=_SHARE)
        self._database = database
        self._writer = writer
        self._learnt = learnt
        self._now = now
        self._loop_after = loop_after

    def round(self) -> float:
        """Judge what is due; seconds until something will be again."""
        self.sweep()
        with self._database.reading() as connection:
            due_at = judging.next_due(connection)
        return _LONGEST if due_at is None else min(max(due_at - self._now(), 0.0), _LONGEST)

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
            lambda connection: judging.judge_due(
                connection, budgets, labels, now, most=_MOST, loop_after=self._loop_after
            )
        ).result()
        return done is not None

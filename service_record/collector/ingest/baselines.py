"""Cached answers from many rows: budgets and statistics of earlier builds, counts of hosts."""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from service_record.collector.domain.silence import SilenceBudgets, Took
from service_record.collector.domain.statistics import StepStatistics, statistics
from service_record.collector.store import judging
from service_record.collector.store.database import Database
from service_record.collector.store.fleet import Filters, count_by_verdict

_FRESH: Final = 60.0
"""Seconds for which what a step took stands."""
_MOST_LABELS: Final = 10_000
_MOST_ANSWERS: Final = 32
_RESTS: Final = 20
"""Statistics stand so many times as long as they took to make: they cost a twentieth of a core at most."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of steps."""

    steps: tuple[StepStatistics, ...]
    executions: int
    """The number of executions behind it: the latest ones."""


_Question = tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]
"""Groups of steps, releases of steps, and what tells them apart."""


class LearnedBaselines:
    """Durations learned from earlier builds. Asks the database no more often than necessary. Thread-safe."""

    def __init__(self, database: Database, default: float, budgets: Mapping[str, float]) -> None:
        self._database = database
        self._default = default
        self._given = budgets
        self._took: dict[str, tuple[float, tuple[Took, ...]]] = {}
        self._answers: OrderedDict[_Question, tuple[float, Statistics]] = OrderedDict()
        self._lock = threading.Lock()

    def set_given(self, budgets: Mapping[str, float]) -> None:
        """Replace the budgets that an operator gave, in seconds by the label of a step."""
        self._given = budgets

    def budgets(self, labels: Collection[str], *, with_given: bool = False) -> SilenceBudgets:
        """Return the budgets of these steps.

        `with_given`: also look up what steps with a given budget took, so that their typical time is known.
        """
        now = time.monotonic()
        if len(self._took) > _MOST_LABELS:
            self._took.clear()
        undefined = [label for label in labels if label and (with_given or label not in self._given)]
        old = [label for label in undefined if self._took.get(label, (0.0,))[0] < now - _FRESH]
        if old:
            with self._database.reading() as connection:
                self._took |= {label: (now, judging.took(connection, label)) for label in old}
        took = {label: self._took[label][1] for label in undefined}
        return SilenceBudgets(default=self._default, given=self._given, took=took)

    def statistics(self, groups: Iterable[str], releases: Iterable[str], by: Iterable[str]) -> Statistics:
        """Return the durations learned from steps of these groups and releases, by `group`, `release` or
        both. Groups and releases that are empty are all.
        """
        question = (tuple(groups), tuple(releases), frozenset(by))
        with self._lock:  # who asks meanwhile gets the same answer
            until, answer = self._answers.get(question, (0.0, None))
            if answer is None or until < time.monotonic():
                until, answer = self._ask(question)
            self._answers[question] = until, answer
            self._answers.move_to_end(question)
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
        return answer

    def _ask(self, question: _Question) -> tuple[float, Statistics]:
        """Return the answer, and the time until which it is valid."""
        began = time.monotonic()
        groups, releases, by = question
        with self._database.reading() as connection:
            executions = judging.executions(connection, groups, releases)
        steps = statistics(executions, by_group="group" in by, by_release="release" in by)
        answer = Statistics(steps, len(executions))
        ended = time.monotonic()
        return ended + _RESTS * (ended - began), answer


_CHEAP: Final = 0.005
"""Seconds that an answer may take without being kept."""


class FleetCounts:
    """The number of hosts of each verdict, counted no more often than is cheap. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[Filters, tuple[float, Mapping[str, int]]] = OrderedDict()

    def of(self, connection: Connection, filters: Filters) -> Mapping[str, int]:
        """Return the counts of a moment ago; for a small fleet the current ones."""
        key = replace(filters, verdicts=(), done_since=None if filters.done_since is None else 0.0)
        with self._lock:
            until, counts = self._answers.get(key, (0.0, None))
        if counts is not None and time.monotonic() < until:
            return counts
        began = time.monotonic()
        counts = count_by_verdict(connection, filters)
        ended = time.monotonic()
        rest = _RESTS * max(ended - began - _CHEAP, 0.0)
        with self._lock:
            self._answers[key] = ended + rest, counts
            self._answers.move_to_end(key)
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
        return counts

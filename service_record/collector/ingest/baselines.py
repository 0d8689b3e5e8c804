"""Cached results of expensive queries: budgets and statistics of earlier builds, counts of hosts."""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from service_record.collector.domain.build_days import DAY, DEFAULT_DAYS, BuildSeries, build_series
from service_record.collector.domain.silence import SilenceBudgets, StepDuration
from service_record.collector.domain.statistics import StepStatistics, calculate_statistics
from service_record.collector.store.database import Database
from service_record.collector.store.earlier_builds import read_durations, read_ended_builds, read_executions
from service_record.collector.store.fleet import Filters, count_by_verdict

_FRESH: Final = 60.0
"""How long durations of a step are cached."""
_MOST_LABELS: Final = 10_000
_MOST_ANSWERS: Final = 32
_RESTS: Final = 20
"""Results are cached for this many times the duration of their query, so queries use at most 5% of a core."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of steps and builds."""

    steps: tuple[StepStatistics, ...]
    executions: int
    """The number of executions used, the latest ones."""
    builds: tuple[BuildSeries, ...]
    """Builds by day, for each group or release if they are split."""


_Question = tuple[tuple[str, ...], tuple[str, ...], frozenset[str], int]
"""Groups, releases, the columns that split the statistics, and the number of days."""


class LearnedBaselines:
    """Cached durations of steps in earlier builds. Thread-safe."""

    def __init__(self, database: Database, default: float, budgets: Mapping[str, float]) -> None:
        self._database = database
        self._default = default
        self._given = budgets
        self._took: dict[str, tuple[float, tuple[StepDuration, ...]]] = {}
        self._answers: OrderedDict[_Question, tuple[float, Statistics]] = OrderedDict()
        self._lock = threading.Lock()

    def set_given(self, budgets: Mapping[str, float]) -> None:
        """Replace the operator's budgets: label of a step -> seconds."""
        self._given = budgets

    def budgets(self, labels: Collection[str], *, with_given: bool = False) -> SilenceBudgets:
        """Return the budgets of these steps.

        `with_given`: also query durations of steps with an operator's budget, to know their typical duration.
        """
        now = time.monotonic()
        if len(self._took) > _MOST_LABELS:
            self._took.clear()
        undefined = [label for label in labels if label and (with_given or label not in self._given)]
        old = [label for label in undefined if self._took.get(label, (0.0,))[0] < now - _FRESH]
        if old:
            with self._database.reading() as connection:
                self._took |= {label: (now, read_durations(connection, label)) for label in old}
        took = {label: self._took[label][1] for label in undefined}
        return SilenceBudgets(default=self._default, given=self._given, took=took)

    def statistics(
        self,
        groups: Iterable[str],
        releases: Iterable[str],
        by: Iterable[str],
        now: float,
        days: int = DEFAULT_DAYS,
    ) -> Statistics:
        """Return statistics of steps and builds, split by `group`, `release` or both.

        Only these groups and releases are included; empty means all. Builds are those of the last `days`
        days.
        """
        question = (tuple(groups), tuple(releases), frozenset(by), days)
        with self._lock:  # who asks meanwhile gets the same answer
            until, answer = self._answers.get(question, (0.0, None))
            if answer is None or until < time.monotonic():
                until, answer = self._ask(question, now)
            self._answers[question] = until, answer
            self._answers.move_to_end(question)
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
        return answer

    def _ask(self, question: _Question, now: float) -> tuple[float, Statistics]:
        """Query the statistics. Return them and the time until which they are valid."""
        began = time.monotonic()
        groups, releases, by, days = question
        with self._database.reading() as connection:
            executions = read_executions(connection, groups, releases)
            builds = read_ended_builds(connection, groups, releases, now - days * DAY)
        steps = calculate_statistics(executions, by_group="group" in by, by_release="release" in by)
        answer = Statistics(steps, len(executions), build_series(builds, by, days, now))
        ended = time.monotonic()
        return ended + _RESTS * (ended - began), answer


_CHEAP: Final = 0.005
"""Results of faster queries are not cached."""


class FleetCounts:
    """Cached number of hosts by verdict. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[Filters, tuple[float, Mapping[str, int]]] = OrderedDict()

    def of(self, connection: Connection, filters: Filters) -> Mapping[str, int]:
        """Return the counts, which may be cached if counting is slow."""
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

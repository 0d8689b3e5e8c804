"""Budgets: time limits without a report, after which a host is stuck.

The budget of a step is given by an operator, learnt from earlier builds, or the default. Stages of an
assisted-service's installation have fixed budgets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from service_record.collector.domain.statistics import percentile

DEFAULT: Final = 15 * 60.0
"""In seconds. The RFC's thread gives this time to a host after its network boot."""
SILENT: Final = 24 * 3600.0
"""Minimum time in seconds after which a stuck host is silent."""
FEWEST: Final = 10
"""Minimum number of earlier builds to learn from."""
LEAST_LEARNT: Final = 120.0
TIMES: Final = 2
"""A learnt budget is this multiple of the p99. With the p99 itself, one of a hundred hosts would be stuck.
"""


class SilenceBasis(StrEnum):
    """The source of a budget."""

    GIVEN = "given"
    STAGE = "stage"
    LEARNT = "learnt"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class SilenceBudget:
    """A budget in seconds, and its source."""

    seconds: float
    basis: SilenceBasis
    builds: int = 0
    """The number of earlier builds that it is learnt from."""

    def __str__(self) -> str:
        """Return the source of the budget as part of a sentence."""
        match self.basis:
            case SilenceBasis.GIVEN:
                return "the limit of this step"
            case SilenceBasis.STAGE:
                return "the assisted-service's limit for this stage"
            case SilenceBasis.LEARNT:
                return f"{TIMES} times the p99 of {self.builds} earlier builds"
        return "default limit"


@dataclass(frozen=True, slots=True)
class StepDuration:
    """The seconds that a step took in one build of a host."""

    seconds: float
    group: str
    release: str


@dataclass(frozen=True, slots=True)
class Absence:
    """A time in which the collector could not receive reports."""

    began_at: float
    ended_at: float


def find_limit_start(since: float, seconds: float, absences: Sequence[Absence]) -> float:
    """Return the time from which a limit of `seconds` counts.

    That is `since`, or the end of an absence that began before the limit had passed: reports may have been
    lost meanwhile, so the limit starts again. `absences` are in order.
    """
    for absence in absences:
        if absence.ended_at > since and absence.began_at < since + seconds:
            since = absence.ended_at
    return since


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceBudgets:
    """The budgets of all steps."""

    default: float = DEFAULT
    given: Mapping[str, float] = field(default_factory=dict)
    """Label -> seconds, as an operator defined them."""
    took: Mapping[str, tuple[StepDuration, ...]] = field(default_factory=dict)
    """Label -> durations in the latest earlier builds."""
    absences: Sequence[Absence] = ()
    """Absences of the collector, oldest first."""

    def of_step(self, label: str, group: str, release: str) -> SilenceBudget:
        """Return the budget of a step on a host of this group and release.

        It is learnt from hosts of the same group and release; if there are too few, from those of the same
        release, then of the same group, then from all.
        """
        if label in self.given:
            return SilenceBudget(self.given[label], SilenceBasis.GIVEN)
        seconds = self._alike(label, group, release)
        if not seconds:
            return SilenceBudget(self.default, SilenceBasis.DEFAULT)
        least = min(LEAST_LEARNT, self.default)
        return SilenceBudget(max(TIMES * percentile(seconds, 99), least), SilenceBasis.LEARNT, len(seconds))

    def typical_of_step(self, label: str, group: str, release: str) -> float | None:
        """Return the median duration in seconds in earlier builds; None if there are too few."""
        seconds = self._alike(label, group, release)
        return percentile(seconds, 50) if seconds else None

    def _alike(self, label: str, group: str, release: str) -> Sequence[float]:
        """Return the sorted durations of a step in the most similar builds; empty if there are too few."""
        durations = self.took.get(label, ())
        for alike in (
            (one.seconds for one in durations if (one.group, one.release) == (group, release)),
            (one.seconds for one in durations if one.release == release),
            (one.seconds for one in durations if one.group == group),
            (one.seconds for one in durations),
        ):
            if len(seconds := sorted(alike)) >= FEWEST:
                return seconds
        return ()

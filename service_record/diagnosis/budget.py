"""Time budgets of stages: from a budget file, from executions that succeeded, or by default. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import msgspec

from service_record.history import History
from service_record.history.outcome import Command, Outcome, Run, Stage

DEFAULT_SECONDS: Final = 30 * 60.0
"""The default budget of an unknown stage: the longest that OpenShift waits for one of its own."""
LEAST_LEARNED: Final = 5 * 60.0
TIMES_LONGEST: Final = 3


class Basis(StrEnum):
    """The source of a budget."""

    FILE = "file"
    BASELINE = "baseline"
    EARLIER = "earlier"
    DEFAULT = "default"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that something may take, with the source of that number."""

    seconds: float
    basis: Basis
    executions: int = 0
    """The number of successful executions behind it."""
    longest: float | None = None
    """Seconds that the longest of them took."""


class BudgetFile(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a budget file, in seconds."""

    stage: float | None = None
    """For every stage that is not named."""
    runs: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Service -> its whole run."""
    stages: Mapping[tuple[str, str], float] = msgspec.field(default_factory=dict)
    """Service and stage, or pre- or post-command."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets of a host's services."""

    file: BudgetFile = msgspec.field(default_factory=BudgetFile)
    baseline: History | None = None

    def of_run(self, service: str) -> Budget | None:
        """Return a run's budget, if the file gives one: some services are made to run for ever."""
        seconds = self.file.runs.get(service)
        return None if seconds is None else Budget(seconds=seconds, basis=Basis.FILE)

    def learn(self, service: str, runs: Iterable[Run]) -> "Learned":
        """Return what budgets of stages are learned from, given the runs of their service."""
        return Learned(durations(runs), durations(runs_of(self.baseline, service)))

    def of_stage(self, service: str, stage: str, learned: "Learned") -> Budget:
        """Return the budget of a stage or command."""
        seconds = self.file.stages.get((service, stage))
        if seconds is not None:
            return Budget(seconds=seconds, basis=Basis.FILE)
        budgets = (
            _learned(learned.earlier.get(stage), Basis.EARLIER),
            _learned(learned.baseline.get(stage), Basis.BASELINE),
        )
        candidates = [budget for budget in budgets if budget is not None]
        if candidates:
            return max(candidates, key=lambda budget: budget.seconds)
        if self.file.stage is not None:
            return Budget(seconds=self.file.stage, basis=Basis.FILE)
        return Budget(seconds=DEFAULT_SECONDS, basis=Basis.DEFAULT)


def runs_of(history: History | None, service: str) -> Sequence[Run]:
    """Return the runs of a service; none where there is no such history or service."""
    services = history.services if history else ()
    return next((service_history.runs for service_history in services if service_history.name == service), ())


Durations: TypeAlias = Mapping[str, Sequence[float]]
"""Stage or command -> how many seconds each of its successful executions took."""


class Learned(NamedTuple):
    """The durations of a service's stages."""

    earlier: Durations
    baseline: Durations
    """On the host that it is compared with."""


def durations(runs: Iterable[Run]) -> Durations:
    """Return how long stages and commands took where they succeeded."""
    by_step: dict[str, list[float]] = {}
    for span in chain.from_iterable(map(_spans, runs)):
        if span.outcome is Outcome.SUCCESS and span.duration is not None:
            by_step.setdefault(span.name, []).append(span.duration)
    return by_step


def _spans(run: Run) -> Iterable[Stage | Command]:
    return chain(run.stages, run.commands, *(command.stages for command in run.commands))


def _learned(took: Sequence[float] | None, basis: Basis) -> Budget | None:
    if not took:
        return None
    longest = max(took)
    seconds = max(TIMES_LONGEST * longest, LEAST_LEARNED)
    return Budget(seconds=seconds, basis=basis, executions=len(took), longest=longest)

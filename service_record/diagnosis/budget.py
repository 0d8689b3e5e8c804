"""Time budgets of stages: from a budget file, from executions that succeeded, or by default. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import msgspec

from service_record.history import History
from service_record.history.outcome import Command, Outcome, Run, Stage

DEFAULT_SECONDS: Final = 30 * 60.0
"""The default budget of a stage: the longest time that OpenShift waits for one of its own stages."""
LEAST_LEARNED: Final = 5 * 60.0
"""The least budget in seconds that is derived from earlier runs."""
TIMES_LONGEST: Final = 3
"""A budget derived from earlier runs is this many times their longest success."""


class Basis(StrEnum):
    """The source of a budget."""

    FILE = "file"
    BASELINE = "baseline"
    EARLIER = "earlier"
    DEFAULT = "default"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that a stage, command or run may take, and the source of that number."""

    seconds: float
    basis: Basis
    executions: int = 0
    """The number of successful executions behind it."""
    longest: float | None = None
    """The seconds of the longest of them."""


class BudgetFile(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a budget file, in seconds."""

    stage: float | None = None
    """The budget of every stage that is not named."""
    runs: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Service -> the budget of a whole run."""
    stages: Mapping[tuple[str, str], float] = msgspec.field(default_factory=dict)
    """Service and stage, pre-command or post-command -> its budget."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets of a host's services."""

    file: BudgetFile = msgspec.field(default_factory=BudgetFile)
    baseline: History | None = None

    def find_run_budget(self, service: str) -> Budget | None:
        """Return the budget of a run if the file has one. There is no default: some services run forever."""
        seconds = self.file.runs.get(service)
        return None if seconds is None else Budget(seconds=seconds, basis=Basis.FILE)

    def learn(self, service: str, runs: Iterable[Run]) -> "Learned":
        """Return the collect_durations from which stage budgets of a service are derived."""
        return Learned(collect_durations(runs), collect_durations(find_runs(self.baseline, service)))

    def find_stage_budget(self, service: str, stage: str, learned: "Learned") -> Budget:
        """Return the budget of a stage or command."""
        seconds = self.file.stages.get((service, stage))
        if seconds is not None:
            return Budget(seconds=seconds, basis=Basis.FILE)
        budgets = (
            _make_learned_budget(learned.earlier.get(stage), Basis.EARLIER),
            _make_learned_budget(learned.baseline.get(stage), Basis.BASELINE),
        )
        candidates = [budget for budget in budgets if budget is not None]
        if candidates:
            return max(candidates, key=lambda budget: budget.seconds)
        if self.file.stage is not None:
            return Budget(seconds=self.file.stage, basis=Basis.FILE)
        return Budget(seconds=DEFAULT_SECONDS, basis=Basis.DEFAULT)


def find_runs(history: History | None, service: str) -> Sequence[Run]:
    """Return the runs of a service; empty if there is no history or no such service."""
    services = history.services if history else ()
    return next((service_history.runs for service_history in services if service_history.name == service), ())


Durations: TypeAlias = Mapping[str, Sequence[float]]
"""Stage or command -> the seconds of each successful execution."""


class Learned(NamedTuple):
    """The collect_durations from which the budgets of a service are derived."""

    earlier: Durations
    baseline: Durations
    """Durations in the good run (`--baseline`)."""


def collect_durations(runs: Iterable[Run]) -> Durations:
    """Return the collect_durations of the successful stages and commands of these runs."""
    by_step: dict[str, list[float]] = {}
    for span in chain.from_iterable(map(_list_spans, runs)):
        if span.outcome is Outcome.SUCCESS and span.duration is not None:
            by_step.setdefault(span.name, []).append(span.duration)
    return by_step


def _list_spans(run: Run) -> Iterable[Stage | Command]:
    return chain(run.stages, run.commands, *(command.stages for command in run.commands))


def _make_learned_budget(took: Sequence[float] | None, basis: Basis) -> Budget | None:
    if not took:
        return None
    longest = max(took)
    seconds = max(TIMES_LONGEST * longest, LEAST_LEARNED)
    return Budget(seconds=seconds, basis=basis, executions=len(took), longest=longest)

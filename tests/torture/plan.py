"""The parts of `make torture` and their shares of its time. A new target is added here and to
docs/project/promises.md.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from hypothesis import HealthCheck, Verbosity, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.torture import appending, cutting, ingesting, power, reading, reporting, together
from tests.torture.ingests import INGESTS, open_collectors
from tests.torture.injection import find_tracing_obstacle
from tests.torture.models import RecordedHost
from tests.torture.tally import Deadline, Tally

Torture: TypeAlias = Callable[[float], list[Tally]]
"""Function that tortures for a number of seconds."""

_LOSSES: Final = 1_000_000
_EXAMPLES: Final = 25
_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    weight: int
    """Share of the time, relative to the weights of the other parts."""
    torture: Torture
    find_obstacle: Callable[[], str | None] = lambda: None
    """Function that returns why this part cannot run here; None where it can."""


def _torture_appending(append: appending.Append, seconds: float) -> list[Tally]:
    return [appending.torture(append, deadline=Deadline.from_now(seconds))]


def _torture_reporting(seconds: float) -> list[Tally]:
    deadline, end = Deadline.from_now(seconds * 7 / 8), Deadline.from_now(seconds)
    with reporting.open_rounds() as rounds:
        return [
            reporting.torture(rounds, deadline=deadline),
            reporting.torture_truncation(rounds, deadline=end),
        ]


def _torture_cutting(append: appending.Append, seconds: float) -> list[Tally]:
    return [cutting.torture(append, deadline=Deadline.from_now(seconds))]


def _torture_ingesting(seconds: float) -> list[Tally]:
    deadline, tallies = Deadline.from_now(seconds), list[Tally]()
    with open_collectors() as collectors:
        for number, ingest in enumerate(INGESTS):
            share = Deadline.from_now(deadline.seconds_left / (len(INGESTS) - number))
            tallies.append(ingesting.torture(ingest, collectors, deadline=share))
    return tallies


def _torture_power(writer: str, layout: str, does_sync: bool, seconds: float) -> list[Tally]:
    return [power.torture(writer, layout, _LOSSES, Deadline.from_now(seconds), does_sync=does_sync)]


def _torture_reading(seconds: float) -> list[Tally]:
    records = reading.make_records()
    share = seconds / len(records)
    return [reading.torture(record, deadline=Deadline.from_now(share)) for record in records]


def _torture_together(seconds: float) -> list[Tally]:
    return [together.torture(seconds)]


def _torture_models(machine: type[RuleBasedStateMachine], target: str, seconds: float) -> list[Tally]:
    """Run simulated hosts until the time is over or one of them fails."""
    deadline, hosts, findings = Deadline.from_now(seconds), 0, list[str]()
    options = settings(
        max_examples=_EXAMPLES,
        stateful_step_count=_STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    while not hosts or (not deadline.is_over and not findings):
        try:
            run_state_machine_as_test(machine, settings=options)
        except Exception as error:  # noqa: BLE001  # a broken invariant, or any other error
            print(f"{target}: {error!r}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
            findings.append(f"{target}: {type(error).__name__}: {str(error)[:300]}")
        hosts += _EXAMPLES
    return [Tally(target=target, cases=hosts, all_cases=hosts, findings=tuple(findings))]


def _find_round_obstacle() -> str | None:
    return find_tracing_obstacle() or reporting.find_reporting_obstacle()


PARTS: Final = (
    *(
        Part(str(append), 6, partial(_torture_appending, append), find_tracing_obstacle)
        for append in appending.APPENDS[:2]
    ),
    *(
        Part(str(append), 14, partial(_torture_appending, append), find_tracing_obstacle)
        for append in appending.APPENDS[2:]
    ),
    *(
        Part(cutting.describe(append), 6, partial(_torture_cutting, append), find_tracing_obstacle)
        for append in appending.APPENDS
    ),
    Part("one round of the reporter", 60, _torture_reporting, _find_round_obstacle),
    Part("one ingest of the collector", 50, _torture_ingesting, find_tracing_obstacle),
    *(
        Part(
            f"power loss: {writer}, {layout}",
            4,
            partial(_torture_power, writer, layout, does_sync),
            find_tracing_obstacle,
        )
        for does_sync in (False, True)
        for writer in ("shell", "python")
        for layout in power.LAYOUTS
    ),
    Part("reader", 20, _torture_reading),
    Part("all at once: entries", 30, _torture_together),
    Part("lives of a recorded host", 12, partial(_torture_models, RecordedHost, "lives of a recorded host")),
)


def run_parts(seconds: float, parts: tuple[Part, ...] = PARTS) -> Iterator[tuple[Part, list[Tally]]]:
    """Run the parts in order and yield their tallies, none for a part that cannot run here. The remaining
    time is shared by the parts that are left.
    """
    deadline = Deadline.from_now(seconds)
    for number, part in enumerate(parts):
        weight_left = sum(other.weight for other in parts[number:])
        seconds_for_part = deadline.seconds_left * part.weight / weight_left
        yield part, [] if part.find_obstacle() else part.torture(seconds_for_part)

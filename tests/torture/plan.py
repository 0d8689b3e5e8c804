"""What `make torture` does, in which share of its time. Whoever adds a target adds it here, and to
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
from tests.torture.ingests import INGESTS, collectors
from tests.torture.injection import cannot_trace
from tests.torture.models import RecordedHost
from tests.torture.tally import Tally, Until

Torture: TypeAlias = Callable[[float], list[Tally]]
"""Function that tortures for so many seconds."""

_LOSSES: Final = 1_000_000
_EXAMPLES: Final = 25
_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the torture."""

    name: str
    weight: int
    """Its share of the time is that of all weights."""
    torture: Torture
    cannot: Callable[[], str | None] = lambda: None
    """Function that returns why the torture is impossible here; None where it is possible."""


def _appending(append: appending.Append, seconds: float) -> list[Tally]:
    return [appending.tortured(append, until=Until.after(seconds))]


def _reporting(seconds: float) -> list[Tally]:
    until, whole = Until.after(seconds * 7 / 8), Until.after(seconds)
    with reporting.rounds() as rounds:
        return [reporting.tortured(rounds, until=until), reporting.cut_short(rounds, until=whole)]


def _cutting(append: appending.Append, seconds: float) -> list[Tally]:
    return [cutting.tortured(append, until=Until.after(seconds))]


def _ingesting(seconds: float) -> list[Tally]:
    until, tallies = Until.after(seconds), list[Tally]()
    with collectors() as of:
        for number, ingest in enumerate(INGESTS):
            share = Until.after(until.left / (len(INGESTS) - number))
            tallies.append(ingesting.tortured(ingest, of, until=share))
    return tallies


def _power(writer: str, layout: str, is_lasting: bool, seconds: float) -> list[Tally]:
    return [power.tortured(writer, layout, _LOSSES, Until.after(seconds), is_lasting=is_lasting)]


def _reading(seconds: float) -> list[Tally]:
    records = reading.records()
    return [reading.tortured(record, until=Until.after(seconds / len(records))) for record in records]


def _together(seconds: float) -> list[Tally]:
    return [together.tortured(seconds)]


def _models(machine: type[RuleBasedStateMachine], target: str, seconds: float) -> list[Tally]:
    """Lives of a host, some at a time, until the time is over or one goes wrong."""
    until, lives, findings = Until.after(seconds), 0, list[str]()
    chosen = settings(
        max_examples=_EXAMPLES,
        stateful_step_count=_STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    while not lives or (not until.is_over and not findings):
        try:
            run_state_machine_as_test(machine, settings=chosen)
        except Exception as error:  # noqa: BLE001  # a broken invariant, or what broke over one
            print(f"{target}: {error!r}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
            findings.append(f"{target}: {type(error).__name__}: {str(error)[:300]}")
        lives += _EXAMPLES
    return [Tally(target=target, cases=lives, all_cases=lives, findings=tuple(findings))]


def _no_root() -> str | None:
    return cannot_trace() or reporting.cannot_report()


PARTS: Final = (
    *(Part(str(append), 6, partial(_appending, append), cannot_trace) for append in appending.APPENDS[:2]),
    *(Part(str(append), 14, partial(_appending, append), cannot_trace) for append in appending.APPENDS[2:]),
    *(Part(cutting.name(append), 6, partial(_cutting, append), cannot_trace) for append in appending.APPENDS),
    Part("one round of the reporter", 60, _reporting, _no_root),
    Part("one ingest of the collector", 50, _ingesting, cannot_trace),
    *(
        Part(f"power loss: {writer}, {layout}", 4, partial(_power, writer, layout, is_lasting), cannot_trace)
        for is_lasting in (False, True)
        for writer in ("shell", "python")
        for layout in power.LAYOUTS
    ),
    Part("reader", 20, _reading),
    Part("all at once: entries", 30, _together),
    Part("lives of a recorded host", 12, partial(_models, RecordedHost, "lives of a recorded host")),
)


def tortured(seconds: float, parts: tuple[Part, ...] = PARTS) -> Iterator[tuple[Part, list[Tally]]]:
    """Every part in turn; of one that cannot be had here, no tally. Time that a part leaves goes to those
    behind it.
    """
    until = Until.after(seconds)
    for number, part in enumerate(parts):
        left = sum(other.weight for other in parts[number:])
        yield part, [] if part.cannot() else part.torture(until.left * part.weight / left)

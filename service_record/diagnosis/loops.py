"""What repeats: restarts, a stage within a run, and boots that end alike and get no further. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

import msgspec

from service_record.diagnosis.failures import signature
from service_record.history import History
from service_record.history.outcome import Outcome, Run, Stage, order

LEAST: Final = 3
"""How often the same has to happen to be a loop."""
LEAST_STAGE_SECONDS: Final = 60.0
"""How long a stage has to fail again and again: services poll for a while, and are right to."""

_MAX_MESSAGES: Final = 100


class Streak(msgspec.Struct, frozen=True):
    """Runs in a row, in one boot, that ended in the same place in the same way; the latest first.

    Runs without an end are no loop, however many: each may have succeeded and not recorded it.
    """

    runs: tuple[Run, ...]

    @property
    def last(self) -> Run:
        return self.runs[0]

    @property
    def first(self) -> Run:
        return self.runs[-1]

    @property
    def count(self) -> int:
        """Count these runs, with the runs that a rotation of the record left out between them."""
        between = (run.left_out.alike for run in self.runs if run.left_out is not None)
        return len(self.runs) + sum(between)

    @property
    def is_loop(self) -> bool:
        """Three stops or kills that nobody can tell apart may be three restarts that somebody wanted."""
        return self.count >= LEAST and self.last.outcome is Outcome.FAILURE


def latest_streak(runs: Sequence[Run]) -> Streak | None:
    """Return how the last run ended, and those before it alike; None if it ended well, or no run ended."""
    ended = (run for run in reversed(runs) if run.outcome is not Outcome.RUNNING)
    last = next(ended, None)
    if last is None or not last.outcome.is_bad:
        return None
    return Streak((last, *_in_a_row(last, ended)))


def _in_a_row(last: Run, earlier: Iterable[Run]) -> Iterator[Run]:
    """Yield the runs right before the last one that ended alike, with nothing else left out between them."""
    later = last
    for run in earlier:
        gap = later.left_out
        if gap is not None and gap.alike < gap.runs:
            return
        if run.boot_id != last.boot_id or run.came_to != last.came_to:
            return
        yield run
        later = run


def distinct_messages(messages: Iterable[str | None]) -> int:
    """Count the signatures of the latest messages."""
    return len({signature(message) for message in islice(messages, _MAX_MESSAGES) if message})


def failing_executions(run: Run) -> list[Stage]:
    """Return the executions of the stage that a run tries again and again, all failed; the latest first.

    Empty when the last thing that ended in the run is not such a failure.
    """
    latest = next((stage for stage in reversed(run.stages) if stage.outcome is Outcome.FAILURE), None)
    return [] if latest is None else list(_alike(latest, reversed(run.stages)))


def _alike(latest: Stage, backwards: Iterable[Stage]) -> Iterator[Stage]:
    """Yield the failures of the same stage, up to another at its level, or a success."""
    for stage in backwards:
        is_other = stage.depth == latest.depth and stage.name != latest.name
        if is_other or (stage.depth <= latest.depth and stage.outcome is Outcome.SUCCESS):
            return
        if stage.name == latest.name and stage.outcome is Outcome.FAILURE:
            yield stage


class _Boot(msgspec.Struct):
    """How far a boot got, and how it ended."""

    boot_id: str
    reached: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """Services and stages that succeeded."""
    bad: Run | None = None
    """The last run that failed, or that was interrupted in a stage."""
    is_running: bool = False

    def add(self, run: Run) -> None:
        if run.outcome is Outcome.SUCCESS:
            self.reached.add((run.service, ""))
        self.reached.update((run.service, s.name) for s in run.stages if s.outcome is Outcome.SUCCESS)
        self.is_running |= run.outcome is Outcome.RUNNING
        is_end = run.outcome is Outcome.FAILURE or (
            run.outcome is Outcome.INTERRUPTED and run.in_stage is not None and not run.is_stop_or_kill
        )
        if is_end and (self.bad is None or order(run.last_entry) >= order(self.bad.last_entry)):
            self.bad = run


def boot_loop(history: History) -> tuple[Run, ...]:
    """Return the last bad run of each latest boot that got no further than the one before; the oldest first.

    Empty when there are fewer than `LEAST` such boots in a row. A boot that goes on breaks the row only when
    it has got further already.
    """
    if len(history.boots) < LEAST:
        return ()
    boots = _latest_first(history)
    latest = next(boots)
    if latest.is_running:
        before = next(boots)
        if not latest.reached <= before.reached:
            return ()
        latest = before
    row = list(_no_further(chain([latest], boots)))
    return tuple(reversed(row)) if len(row) >= LEAST else ()


def _latest_first(history: History) -> Iterator[_Boot]:
    """Yield the boots, the latest first."""
    boots = {boot_id: _Boot(boot_id) for boot_id in history.boots}
    for service in history.services:
        for run in service.runs:
            if run.boot_id in boots:
                boots[run.boot_id].add(run)
    yield from reversed(boots.values())


def _no_further(boots: Iterable[_Boot]) -> Iterator[Run]:
    """Yield the bad runs of the boots that got no further, the latest of which is the first."""
    later: _Boot | None = None
    for boot in boots:
        if boot.bad is None or (later is not None and not later.reached <= boot.reached):
            return
        yield boot.bad
        later = boot

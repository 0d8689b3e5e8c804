"""Failures that are alike, and what repeats: restarts, stages of a run, boots that get no further. Pure."""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Final

import msgspec

from service_record.history import History, ServiceHistory
from service_record.history.build import Now
from service_record.history.outcome import NOTHING, Command, Facts, Outcome, Run, Span, Stage, order

_MAX_CHARACTERS: Final = 4096
_VARYING: Final = r"""(?xa)
      (?P<time>     (?<!\w)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?:Z|\ ?[+-]\d\d:?\d\d)?
                  | (?<!\w)[A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d\d:\d\d:\d\d
                  | (?<![\w:])\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])
                  | (?<![\w.])(?:\d{1,9}(?:\.\d{1,9})?(?:ms|us|µs|ns|h|m|s)){1,4}(?!\w) )
    | (?P<address>  (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?(?![\w.])
                  | (?<![\w:])\[?(?=[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}
                    \]?(?::\d{1,5})?(?!\w) )
    | (?P<id>       (?<!\w)[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)
                  | (?<!\w)(?:0x)?(?=[0-9A-Fa-f]{0,63}\d)(?=\d{0,63}[A-Fa-f])[0-9A-Fa-f]{7,128}(?!\w) )
    | (?P<disk>     (?<=/dev/)(?:[svh]d|xvd)[a-z]{1,2}\d{0,3}(?![\w-])
                  | (?<![\w-])(?!(?:sdk|sdn|hdd|md5)\b)
                    (?:(?:[svh]d|xvd)[a-z]\d{0,3}
                      |(?:nvme\d{1,3}n\d{1,3}|mmcblk\d{1,3}|loop\d{1,4}|md\d{1,4})(?:p\d{1,3})?
                      |dm-\d{1,4})(?![\w-]) )
    | (?P<number>   (?<![A-Za-z\d])\d++(?:[.,]\d++)*+
                  | (?<=[A-Za-z])\d++(?:[.,]\d++)*+(?!-?[A-Za-z]) )  # not within a name: grub2-install, k8s
    """
"""Each alternative is bounded or begins only where a word does, so that the whole is linear in the text."""


@lru_cache(maxsize=1024)  # what fails again mostly says the same
def signature(message: str) -> str:
    """Return the message with `<time>`, `<address>`, `<id>`, `<disk>` and `<number>` for its
    variable parts.
    """
    return re.sub(_VARYING, lambda match: f"<{match.lastgroup}>", message[-_MAX_CHARACTERS:])


class RunStep(msgspec.Struct, frozen=True):
    """A stage or command of a service, however often it ran."""

    kind: str
    """`stage`, `pre-command` or `post-command`."""
    name: str
    command: str | None = None
    """The command that a stage is part of."""


class Longest(msgspec.Struct, frozen=True):
    """The seconds of the longest execution, and whether it goes on."""

    seconds: float
    is_running: bool


def steps_of(run: Run) -> dict[RunStep, list[Span]]:
    """Return the steps of a run and their executions, in the order in which they first ran."""
    steps: dict[RunStep, list[Span]] = {}
    for step, span in _spans(run):
        steps.setdefault(step, []).append(span)
    return steps


def _spans(run: Run) -> Iterator[tuple[RunStep, Span]]:
    for command in run.commands:
        if command.is_before:
            yield from _of_command(command)
    yield from _of_stages(run.stages)
    for command in run.commands:
        if not command.is_before:
            yield from _of_command(command)


def _of_command(command: Command) -> Iterator[tuple[RunStep, Span]]:
    yield RunStep("pre-command" if command.is_before else "post-command", command.name), command
    yield from _of_stages(command.stages, command.name)


def _of_stages(stages: Iterable[Stage], command: str | None = None) -> Iterator[tuple[RunStep, Span]]:
    return ((RunStep("stage", stage.name, command), stage) for stage in stages)


def moved(
    good: Sequence[RunStep], bad: Sequence[RunStep]
) -> Iterator[tuple[RunStep, RunStep | None, RunStep | None]]:
    """Yield roughly the fewest steps whose places make one order of the same steps from the other.

    With each, what it follows in the bad order and in the good one.
    """
    from difflib import SequenceMatcher  # only where two hosts are compared

    matcher = SequenceMatcher(None, good, bad, autojunk=False)
    in_place = {
        step for block in matcher.get_matching_blocks() for step in bad[block.b : block.b + block.size]
    }
    for place, step in enumerate(bad):
        if step not in in_place:
            usual = good.index(step)
            yield step, bad[place - 1] if place else None, good[usual - 1] if usual else None


def longest(spans: Iterable[Span], run: Run, service: ServiceHistory, now: Now) -> Longest | None:
    """Return the longest of some spans of a run; a running one has lasted until now."""
    candidates = []
    for span in spans:
        is_running = span.outcome is Outcome.RUNNING
        seconds = now.since(span, run, service) if is_running else span.duration
        if seconds is not None:
            candidates.append(Longest(seconds, is_running))
    return max(candidates, key=lambda one: one.seconds, default=None)


class FailureGroup(msgspec.Struct, frozen=True):
    """Failures that are alike: in the same step, with the same signature."""

    step: RunStep | None
    """The step that failed; None for the run itself."""
    signature: str
    """Empty when nothing was said."""
    facts: Facts
    """Of the latest."""
    count: int
    last: Run
    """The latest run that it happened in."""


def new_failures(good: Iterable[Run], bad: Iterable[Run]) -> list[FailureGroup]:
    """Return the failures of the bad runs that none of the good runs has; the earliest first."""
    good_groups = _by_kind(good)
    return [failure for kind, failure in _by_kind(bad).items() if kind not in good_groups]


def failures_of(runs: Iterable[Run]) -> list[FailureGroup]:
    """Return the failures of all these runs, the earliest first; those of stages that a run survived, too."""
    return list(_by_kind(runs).values())


def _by_kind(runs: Iterable[Run]) -> dict[Hashable, FailureGroup]:
    groups: dict[Hashable, FailureGroup] = {}
    for run in runs:
        for step, facts in _failures(run):
            kind = _kind(step, facts)
            count = groups[kind].count + 1 if kind in groups else 1
            groups[kind] = FailureGroup(step, signature(facts.message or ""), facts, count, run)
    return groups


def _kind(step: RunStep | None, facts: Facts) -> Hashable:
    """Return what is the same of failures that are alike; without a message, exit status and signal."""
    if facts.message:
        return step, signature(facts.message)
    return step, facts.exit_code, facts.signal


def _failures(run: Run) -> Iterator[tuple[RunStep | None, Facts]]:
    """Yield the failed executions of its steps; and its own failure, unless one of those ended with it."""
    is_told = False
    for step, spans in steps_of(run).items():
        for span in spans:
            if span.outcome is Outcome.FAILURE and span.facts != NOTHING:
                is_told |= span is spans[-1] and _explains(span, step, run)
                yield step, span.facts
    if run.outcome is Outcome.FAILURE and not is_told:
        yield None, run.facts


def _explains(span: Span, step: RunStep, run: Run) -> bool:
    return step.name in {run.in_stage, run.in_command} and span.facts.signal == run.facts.signal


LEAST: Final = 3
"""The number of times that the same has to happen to be a loop."""
LEAST_STAGE_SECONDS: Final = 60.0
"""The time over which a stage has to fail again and again: services poll for a while, and are right to."""

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
    """The progress and the end of a boot."""

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
            run.outcome is Outcome.INTERRUPTED and run.in_stage is not None and not run.has_unclear_end
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

"""Group equal failures, and find loops: of restarts, of a stage, and of boots without progress. Pure."""

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
"""Each alternative is bounded or begins only at a word boundary, so that matching takes linear time."""


@lru_cache(maxsize=1024)  # repeated failures usually have the same message
def signature(message: str) -> str:
    """Return the message with `<time>`, `<address>`, `<id>`, `<disk>` and `<number>` for variable parts."""
    return re.sub(_VARYING, lambda match: f"<{match.lastgroup}>", message[-_MAX_CHARACTERS:])


class RunStep(msgspec.Struct, frozen=True):
    """A stage or command of a service, regardless of how often it ran."""

    kind: str
    """`stage`, `pre-command` or `post-command`."""
    name: str
    command: str | None = None
    """The command that a stage is part of."""


class Longest(msgspec.Struct, frozen=True):
    """The seconds of the longest execution, and whether it is still running."""

    seconds: float
    is_running: bool


def group_steps(run: Run) -> dict[RunStep, list[Span]]:
    """Return step -> its executions, in the order in which the steps first ran."""
    steps: dict[RunStep, list[Span]] = {}
    for step, span in _spans(run):
        steps.setdefault(step, []).append(span)
    return steps


def _spans(run: Run) -> Iterator[tuple[RunStep, Span]]:
    for command in run.commands:
        if command.is_before:
            yield from _command_spans(command)
    yield from _stage_spans(run.stages)
    for command in run.commands:
        if not command.is_before:
            yield from _command_spans(command)


def _command_spans(command: Command) -> Iterator[tuple[RunStep, Span]]:
    yield RunStep("pre-command" if command.is_before else "post-command", command.name), command
    yield from _stage_spans(command.stages, command.name)


def _stage_spans(stages: Iterable[Stage], command: str | None = None) -> Iterator[tuple[RunStep, Span]]:
    return ((RunStep("stage", stage.name, command), stage) for stage in stages)


def find_moved_steps(
    good: Sequence[RunStep], bad: Sequence[RunStep]
) -> Iterator[tuple[RunStep, RunStep | None, RunStep | None]]:
    """Yield the steps whose position differs between two orders of the same steps, approximately the fewest.

    Each comes with its predecessor in the bad order and its predecessor in the good order.
    """
    from difflib import SequenceMatcher  # needed only to compare two hosts

    matcher = SequenceMatcher(None, good, bad, autojunk=False)
    in_place = {
        step for block in matcher.get_matching_blocks() for step in bad[block.b : block.b + block.size]
    }
    for place, step in enumerate(bad):
        if step not in in_place:
            usual = good.index(step)
            yield step, bad[place - 1] if place else None, good[usual - 1] if usual else None


def find_longest(spans: Iterable[Span], run: Run, service: ServiceHistory, now: Now) -> Longest | None:
    """Return the longest of some spans of a run. A running span lasts until now."""
    candidates = []
    for span in spans:
        is_running = span.outcome is Outcome.RUNNING
        seconds = now.since(span, run, service) if is_running else span.duration
        if seconds is not None:
            candidates.append(Longest(seconds, is_running))
    return max(candidates, key=lambda one: one.seconds, default=None)


class FailureGroup(msgspec.Struct, frozen=True):
    """Equal failures: in the same step and with the same signature."""

    step: RunStep | None
    """The step that failed; None for the run itself."""
    signature: str
    """Empty without a message."""
    facts: Facts
    """The facts of the latest failure."""
    count: int
    last: Run
    """The latest run with this failure."""


def new_failures(good: Iterable[Run], bad: Iterable[Run]) -> list[FailureGroup]:
    """Return failures of the bad runs that do not occur in the good runs, earliest first."""
    good_groups = _group_by_kind(good)
    return [failure for kind, failure in _group_by_kind(bad).items() if kind not in good_groups]


def group_failures(runs: Iterable[Run]) -> list[FailureGroup]:
    """Return the failures of all runs, earliest first, including failed stages that a run survived."""
    return list(_group_by_kind(runs).values())


def _group_by_kind(runs: Iterable[Run]) -> dict[Hashable, FailureGroup]:
    groups: dict[Hashable, FailureGroup] = {}
    for run in runs:
        for step, facts in _find_failures(run):
            kind = _failure_kind(step, facts)
            count = groups[kind].count + 1 if kind in groups else 1
            groups[kind] = FailureGroup(step, signature(facts.message or ""), facts, count, run)
    return groups


def _failure_kind(step: RunStep | None, facts: Facts) -> Hashable:
    """Return a key of equal failures: step and signature. Without a message: step, exit status and signal."""
    if facts.message:
        return step, signature(facts.message)
    return step, facts.exit_code, facts.signal


def _find_failures(run: Run) -> Iterator[tuple[RunStep | None, Facts]]:
    """Yield the failed executions of steps, then the failure of the run unless one of those explains it."""
    is_explained = False
    for step, spans in group_steps(run).items():
        for span in spans:
            if span.outcome is Outcome.FAILURE and span.facts != NOTHING:
                is_explained |= span is spans[-1] and _explains(span, step, run)
                yield step, span.facts
    if run.outcome is Outcome.FAILURE and not is_explained:
        yield None, run.facts


def _explains(span: Span, step: RunStep, run: Run) -> bool:
    return step.name in {run.in_stage, run.in_command} and span.facts.signal == run.facts.signal


LEAST: Final = 3
"""The least number of equal failures in a row that make a loop."""
LEAST_STAGE_SECONDS: Final = 60.0
"""The least duration of a stage loop. Polling for a shorter time is normal."""

_MAX_MESSAGES: Final = 100


class Streak(msgspec.Struct, frozen=True):
    """Consecutive runs in one boot that ended in the same place and in the same way, latest first.

    Runs without a recorded end never make a loop: each may have succeeded.
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
        """Return the number of runs, including runs between them that a rotation of the record removed."""
        between = (run.left_out.alike for run in self.runs if run.left_out is not None)
        return len(self.runs) + sum(between)

    @property
    def is_loop(self) -> bool:
        """Return True for failures only: three stops or kills may be three intended restarts."""
        return self.count >= LEAST and self.last.outcome is Outcome.FAILURE


def latest_streak(runs: Sequence[Run]) -> Streak | None:
    """Return the last ended run with the equal runs before it; None if it succeeded, or no run ended."""
    ended = (run for run in reversed(runs) if run.outcome is not Outcome.RUNNING)
    last = next(ended, None)
    if last is None or not last.outcome.is_bad:
        return None
    return Streak((last, *_alike_before(last, ended)))


def _alike_before(last: Run, earlier: Iterable[Run]) -> Iterator[Run]:
    """Yield the equal runs right before the last one, up to a gap in the record with other runs."""
    later = last
    for run in earlier:
        gap = later.left_out
        if gap is not None and gap.alike < gap.runs:
            return
        if run.boot_id != last.boot_id or run.end_key != last.end_key:
            return
        yield run
        later = run


def distinct_messages(messages: Iterable[str | None]) -> int:
    """Count the different signatures among at most `_MAX_MESSAGES` messages."""
    return len({signature(message) for message in islice(messages, _MAX_MESSAGES) if message})


def failing_executions(run: Run) -> list[Stage]:
    """Return the failed executions of the stage that a run repeats, latest first.

    The list ends at a success or another stage. It is empty if the run has continued since.
    """
    latest = next((stage for stage in reversed(run.stages) if stage.outcome is Outcome.FAILURE), None)
    return [] if latest is None else list(_same_stage_failures(latest, reversed(run.stages)))


def _same_stage_failures(latest: Stage, backwards: Iterable[Stage]) -> Iterator[Stage]:
    """Yield the failures of the same stage, up to another stage at its level or a success."""
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
    """Return the last bad run of each boot in a boot loop, oldest first; empty without a loop.

    A loop has at least `LEAST` consecutive boots, none of which got further than the boot before it. A boot
    that is still running ends the loop only if it has already got further.
    """
    if len(history.boots) < LEAST:
        return ()
    boots = _latest_boots(history)
    latest = next(boots)
    if latest.is_running:
        before = next(boots)
        if not latest.reached <= before.reached:
            return ()
        latest = before
    row = list(_bad_ends(chain([latest], boots)))
    return tuple(reversed(row)) if len(row) >= LEAST else ()


def _latest_boots(history: History) -> Iterator[_Boot]:
    """Yield the boots, latest first."""
    boots = {boot_id: _Boot(boot_id) for boot_id in history.boots}
    for service in history.services:
        for run in service.runs:
            if run.boot_id in boots:
                boots[run.boot_id].add(run)
    yield from reversed(boots.values())


def _bad_ends(boots: Iterable[_Boot]) -> Iterator[Run]:
    """Yield the bad run of each boot, latest first, up to a boot after which the host got further."""
    later: _Boot | None = None
    for boot in boots:
        if boot.bad is None or (later is not None and not later.reached <= boot.reached):
            return
        yield boot.bad
        later = boot

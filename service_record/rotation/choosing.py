"""Choice of the runs that stay in a record that has outgrown its limit, and counts of the others. Pure."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.failures import signature
from service_record.history import build_history
from service_record.history.outcome import Outcome
from service_record.history.results import handled_failure
from service_record.record.entry import Entry, Phase, RunsLeftOut

_STEPS: Final = (
    (100, None),
    (50, None),
    (20, None),
    (10, None),
    (10, 1000),
    (10, 500),
    (10, 200),
    (10, 100),
    (10, 50),
    (10, 20),
    (10, 10),
    (5, 5),
    (2, 2),
    (1, 1),
)
"""The number of first and of latest runs that stay of each boot, and of each distinct failure of a boot.

None: every failure. The first step with which the record is small enough is taken.
"""
_FIRST_BOOTS: Final = 10
_LATEST_BOOTS: Final = 100
"""Boots that keep runs of their own whatever else there is."""
_ALWAYS_LATEST: Final = 3
"""Runs at the end of a record that stay: they may not be over."""


class AnonymousError(Exception):
    """The record has entries that name no run."""


@dataclass(slots=True)
class Invocation:
    """The entries of one run of a service, with its pre- and post-commands."""

    boot_id: str | None
    places: list[int] = field(default_factory=list)
    """The places of its entries in the record."""
    size: int = 0
    """Bytes of its lines."""
    outcome: Outcome = Outcome.RUNNING
    has_failure: bool = False
    """True when it failed, was interrupted, has no end, or continued after a failure."""
    came_to: Hashable = None
    message: str = ""
    """The signature of the message of its failure."""
    before: RunsLeftOut = field(default_factory=RunsLeftOut)
    """The runs that an earlier rotation left out right before it."""


def shortened(entries: Sequence[Entry], sizes: Sequence[int], target: int) -> list[Entry]:
    """Return the entries of the runs that stay, so that their sizes sum up to about `target` bytes.

    The first entry of a run says what was left out before it. Raises AnonymousError.
    """
    invocations = _invocations(entries, sizes)
    retained = _retained(invocations, target)
    marks = _marks(invocations, retained)
    places = sorted(place for index in retained for place in invocations[index].places)
    marked = [
        replace(entries[place], left_out=marks[place]) if place in marks else entries[place]
        for place in places
    ]
    before = entries[0].left_out or RunsLeftOut()
    first = replace(marked[0].left_out or RunsLeftOut(), rotations=before.rotations + 1)
    return [replace(marked[0], left_out=first), *marked[1:]]


def _invocations(entries: Sequence[Entry], sizes: Sequence[int]) -> list[Invocation]:
    """Return the invocations in the order of their first entries."""
    invocations: list[Invocation] = []
    by_identity: dict[Hashable, Invocation] = {}
    latest: dict[str | None, Invocation] = {}
    for place, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
        key = _key(entry)
        begins = entry.phase is Phase.SERVICE_START and entry.invocation_id is None
        invocation = None if begins else by_identity.get(key) or _around(entry, latest)
        if invocation is None:
            invocation = by_identity[key] = latest[entry.boot_id] = Invocation(entry.boot_id)
            invocations.append(invocation)
        invocation.places.append(place)
        invocation.size += size
    for invocation in invocations:
        _judge(invocation, [entries[place] for place in invocation.places])
    return invocations


def _key(entry: Entry) -> Hashable:
    if entry.invocation_id is not None:
        return entry.invocation_id
    if entry.pid is None:
        raise AnonymousError
    return entry.boot_id, entry.pid


def _around(entry: Entry, latest: dict[str | None, Invocation]) -> Invocation | None:
    """Return the run that a stage belongs to which a process of its own recorded, outside of systemd."""
    is_stage = entry.phase in {Phase.STAGE_START, Phase.STAGE_END}
    return latest.get(entry.boot_id) if is_stage and entry.invocation_id is None else None


def _judge(invocation: Invocation, entries: Sequence[Entry]) -> None:
    (service,) = build_history([("", entries)]).services
    run = service.attempts[-1]
    invocation.before = next((e.left_out for e in entries if e.left_out is not None), RunsLeftOut())
    invocation.outcome, invocation.came_to = run.outcome, run.came_to
    handled = [failure for failure in map(handled_failure, service.runs) if failure is not None]
    invocation.has_failure = (
        run.outcome not in {Outcome.SUCCESS, Outcome.STOPPED}
        or any(one.outcome.is_bad for one in service.runs)
        or bool(handled)
    )
    stages = [one.stage for one in handled]
    texts = [run.facts.message, *(text for stage in stages for text in (stage.name, stage.facts.message))]
    invocation.message = "\n".join(signature(text) for text in texts if text)


def _retained(invocations: Sequence[Invocation], target: int) -> list[int]:
    """Return the indexes of the runs that stay: as many as there is room for."""
    indexes: set[int] = set()
    for of_boot, of_failure in _STEPS:
        indexes = set(_in_step(invocations, of_boot, of_failure))
        if _size(invocations, indexes) <= target:
            return sorted(indexes)
    return sorted(_without_middle_boots(invocations, indexes))


def _size(invocations: Sequence[Invocation], indexes: Iterable[int]) -> int:
    return sum(invocations[index].size for index in indexes)


def _in_step(invocations: Sequence[Invocation], of_boot: int, of_failure: int | None) -> Iterator[int]:
    boots: dict[str | None, list[int]] = defaultdict(list)
    failures: dict[Hashable, list[int]] = defaultdict(list)
    for index, one in enumerate(invocations):
        boots[one.boot_id].append(index)
        if one.has_failure:
            failures[one.boot_id, one.came_to, one.message].append(index)
    yield from (0, *range(max(0, len(invocations) - _ALWAYS_LATEST), len(invocations)))
    for indexes in boots.values():
        yield from _ends(indexes, of_boot)
    for indexes in failures.values():
        yield from indexes if of_failure is None else _ends(indexes, of_failure)


def _ends(indexes: Sequence[int], count: int) -> Sequence[int]:
    return [*indexes[:count], *indexes[-count:]]


def _without_middle_boots(invocations: Sequence[Invocation], retained: set[int]) -> Iterator[int]:
    """Yield what stays where there are too many boots: of those in the middle each distinct failure twice."""
    boots = list(dict.fromkeys(one.boot_id for one in invocations))
    middle = set(boots[_FIRST_BOOTS:-_LATEST_BOOTS])
    failures: dict[Hashable, list[int]] = defaultdict(list)
    for index in sorted(retained):
        one = invocations[index]
        if one.boot_id not in middle:
            yield index
        elif one.has_failure:
            failures[one.came_to, one.message].append(index)
    for indexes in failures.values():
        yield from dict.fromkeys(_ends(indexes, 1))


def _marks(invocations: Sequence[Invocation], indexes: Sequence[int]) -> dict[int, RunsLeftOut]:
    """Return for the first entry of a run that stays what is left out before it, where that is anything."""
    marks: dict[int, RunsLeftOut] = {}
    boots = {invocations[index].boot_id for index in indexes}
    behind = 0
    marked_boots: set[str | None] = set()
    for index in indexes:
        mark = _mark(invocations[index], invocations[behind:index], boots, marked_boots)
        if mark != RunsLeftOut():
            marks[invocations[index].places[0]] = mark
        behind = index + 1
    return marks


def _mark(
    one: Invocation, gap: Sequence[Invocation], kept_boots: set[str | None], marked_boots: set[str | None]
) -> RunsLeftOut:
    counts: Counter[str] = Counter()
    _add(counts, one.before)
    boots = one.before.boots
    for other in gap:
        boots += other.before.boots
        if other.boot_id == one.boot_id:
            counts[_kind(other)] += 1
            _add(counts, other.before)
            continue
        counts["boot_runs"] += 1 + other.before.runs + other.before.boot_runs
        boots += other.boot_id not in kept_boots | marked_boots
        marked_boots.add(other.boot_id)
    return RunsLeftOut(
        succeeded=counts["succeeded"],
        stopped=counts["stopped"],
        failed=counts["failed"],
        alike=_alike(one, gap),
        boots=boots,
        boot_runs=counts["boot_runs"],
    )


def _add(counts: Counter[str], before: RunsLeftOut) -> None:
    for name in ("succeeded", "stopped", "failed", "boot_runs"):
        if getattr(before, name):
            counts[name] += getattr(before, name)


def _kind(invocation: Invocation) -> str:
    if invocation.has_failure:
        return "failed"
    return "stopped" if invocation.outcome is Outcome.STOPPED else "succeeded"


def _alike(one: Invocation, gap: Sequence[Invocation]) -> int:
    """Return how many runs in a row right before this one, all left out, came to the same."""
    alike = one.before.alike
    if alike < one.before.runs:
        return alike
    for other in reversed(gap):
        if (other.boot_id, other.came_to) != (one.boot_id, one.came_to):
            break
        alike += 1 + other.before.alike
        if other.before.alike < other.before.runs:
            break
    return alike

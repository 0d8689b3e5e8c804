"""Choose the runs that stay in a record that is too long, and count the others. Pure."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.failures import signature
from service_record.history import build_history
from service_record.history.outcome import Outcome
from service_record.history.results import handled_failure
from service_record.record.entry import Entry, Phase, RunsLeftOut

_ALWAYS_LATEST: Final = 3
"""Runs at the end of a record that always stay: their post-commands may not have ended."""
_ALWAYS_OPEN: Final = 10
"""The latest runs without an end, which always stay: they may be running."""


class AnonymousError(Exception):
    """The record has entries that cannot be assigned to a run."""


@dataclass(slots=True)
class Invocation:
    """The entries of one run of a service, with its pre- and post-commands."""

    boot_id: str | None
    entry_indexes: list[int] = field(default_factory=list)
    """Indexes of its entries in the record."""
    size: int = 0
    """Bytes of its lines in the record."""
    outcome: Outcome = Outcome.RUNNING
    has_failure: bool = False
    """True if it failed, was interrupted, has no end, or continued after a failure."""
    end_key: Hashable = None
    message: str = ""
    """Signatures of the messages of its failures."""
    before: RunsLeftOut = field(default_factory=RunsLeftOut)
    """The runs that earlier rotations removed right before this one."""


def choose_entries(entries: Sequence[Entry], sizes: Sequence[int], target: int) -> list[Entry]:
    """Return the entries of the runs that stay, about `target` bytes in all.

    The first entry of a run has the counts of the runs that were removed before it. Raises AnonymousError.
    """
    invocations = _group_invocations(entries, sizes)
    retained = _choose_runs(invocations, target)
    marks = _count_removed(invocations, retained)
    entry_indexes = sorted(place for index in retained for place in invocations[index].entry_indexes)
    marked = [
        replace(entries[place], left_out=marks[place]) if place in marks else entries[place]
        for place in entry_indexes
    ]
    before = entries[0].left_out or RunsLeftOut()
    first = replace(marked[0].left_out or RunsLeftOut(), rotations=before.rotations + 1)
    return [replace(marked[0], left_out=first), *marked[1:]]


def _group_invocations(entries: Sequence[Entry], sizes: Sequence[int]) -> list[Invocation]:
    """Return the invocations in the order of their first entries."""
    invocations: list[Invocation] = []
    by_identity: dict[Hashable, Invocation] = {}
    latest: dict[str | None, Invocation] = {}
    for place, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
        key = _key(entry)
        begins = entry.phase is Phase.SERVICE_START and entry.invocation_id is None
        invocation = None if begins else by_identity.get(key) or _surrounding_run(entry, latest)
        if invocation is None:
            invocation = by_identity[key] = latest[entry.boot_id] = Invocation(entry.boot_id)
            invocations.append(invocation)
        invocation.entry_indexes.append(place)
        invocation.size += size
    for invocation in invocations:
        _judge(invocation, [entries[place] for place in invocation.entry_indexes])
    return invocations


def _key(entry: Entry) -> Hashable:
    if entry.invocation_id is not None:
        return entry.invocation_id
    if entry.pid is None:
        raise AnonymousError
    return entry.boot_id, entry.pid


def _surrounding_run(entry: Entry, latest: dict[str | None, Invocation]) -> Invocation | None:
    """Return the run of a stage that another process recorded outside of systemd, as `run --stage` does."""
    is_stage = entry.phase in {Phase.STAGE_START, Phase.STAGE_END}
    return latest.get(entry.boot_id) if is_stage and entry.invocation_id is None else None


def _judge(invocation: Invocation, entries: Sequence[Entry]) -> None:
    (service,) = build_history([("", entries)]).services
    run = service.attempts[-1]
    invocation.before = next((e.left_out for e in entries if e.left_out is not None), RunsLeftOut())
    invocation.outcome, invocation.end_key = run.outcome, run.end_key
    handled = [failure for failure in map(handled_failure, service.runs) if failure is not None]
    invocation.has_failure = (
        run.outcome not in {Outcome.SUCCESS, Outcome.STOPPED}
        or any(one.outcome.is_bad for one in service.runs)
        or bool(handled)
    )
    stages = [one.stage for one in handled]
    texts = [run.facts.message, *(text for stage in stages for text in (stage.name, stage.facts.message))]
    invocation.message = "\n".join(signature(text) for text in texts if text)


def _choose_runs(invocations: Sequence[Invocation], target: int) -> list[int]:
    """Return the indexes of the runs that stay, in their order.

    The first and the latest run of each distinct failure always stay, and those of the first and the latest
    boot. The others stay while there is room, the most important first: the first and the latest run of each
    boot, then failures, then the rest. Of each kind, those nearest to the beginning or the end come first.
    """
    indexes = range(len(invocations))
    boots = list(dict.fromkeys(one.boot_id for one in invocations))
    boot_distances = dict(zip(boots, _distances([None] * len(boots)), strict=True))
    failures = [(one.end_key, one.message) if one.has_failure else None for one in invocations]
    in_record = _distances(failures)
    in_boot = _distances([one.boot_id for one in invocations])
    in_boot_and_failure = _distances([(invocations[i].boot_id, failures[i]) for i in indexes])

    def order(index: int) -> tuple[int, int]:
        distance = boot_distances[invocations[index].boot_id]
        is_failure = failures[index] is not None
        if (in_boot[index] == 0 and distance == 0) or (in_record[index] == 0 and is_failure):
            return 0, 0
        if in_boot[index] == 0:
            return 1, distance
        return (2, in_boot_and_failure[index]) if is_failure else (3, in_boot[index])

    open_runs = [index for index in indexes if invocations[index].outcome is Outcome.RUNNING]
    chosen = {*indexes[-_ALWAYS_LATEST:], *open_runs[-_ALWAYS_OPEN:]}
    chosen.update(index for index in indexes if order(index) == (0, 0))
    room = target - sum(invocations[index].size for index in chosen)
    for index in sorted(set(indexes) - chosen, key=order):
        if invocations[index].size <= room:
            room -= invocations[index].size
            chosen.add(index)
    return sorted(chosen)


def _distances(keys: Sequence[Hashable]) -> list[int]:
    """Return for each item how many items with the same key lie between it and their nearer end."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    distances = [0] * len(keys)
    for alike in places.values():
        for number, place in enumerate(alike):
            distances[place] = min(number, len(alike) - 1 - number)
    return distances


def _count_removed(invocations: Sequence[Invocation], indexes: Sequence[int]) -> dict[int, RunsLeftOut]:
    """Return the counts of removed runs, by the index of the first entry of the next run that stays."""
    marks: dict[int, RunsLeftOut] = {}
    boots = {invocations[index].boot_id for index in indexes}
    next_index = 0
    marked_boots: set[str | None] = set()
    for index in indexes:
        mark = _count_gap(invocations[index], invocations[next_index:index], boots, marked_boots)
        if mark != RunsLeftOut():
            marks[invocations[index].entry_indexes[0]] = mark
        next_index = index + 1
    return marks


def _count_gap(
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
        alike=_count_alike(one, gap),
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


def _count_alike(one: Invocation, gap: Sequence[Invocation]) -> int:
    """Return how many removed runs in a row, right before this one, ended in the same way."""
    alike = one.before.alike
    if alike < one.before.runs:
        return alike
    for other in reversed(gap):
        if (other.boot_id, other.end_key) != (one.boot_id, one.end_key):
            break
        alike += 1 + other.before.alike
        if other.before.alike < other.before.runs:
            break
    return alike

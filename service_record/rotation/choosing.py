"""Choose the runs that stay in a record that is too long, and count the others. Pure."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.failures import signature
from service_record.history import build_history
from service_record.history.outcome import Outcome
from service_record.history.results import handled_failure
from service_record.record.entry import Entry, Phase, RunsLeftOut

_MAX_OF_BOOT: Final = 100
"""Maximum number of the first runs of a boot that stay, and of its latest runs, besides failed ones."""
_OF_BOOT_BEFORE_FAILURES: Final = 10
"""The first 10 and the latest 10 runs of a boot are as important as failures."""
_FIRST_BOOTS: Final = 10
_LATEST_BOOTS: Final = 100
"""Of very many boots, the first 10 and the latest 100 always keep runs."""
_ALWAYS_LATEST: Final = 3
"""Runs at the end of a record that always stay, because they may still be running."""


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
    """Return the indexes of the runs that stay: the most important ones, while there is room."""
    ranks = _rank(invocations)
    chosen = {index for index, rank in ranks.items() if rank <= 1}
    chosen.update((0, *range(max(0, len(invocations) - _ALWAYS_LATEST), len(invocations))))
    room = target - sum(invocations[index].size for index in chosen)
    if room < 0:
        return sorted(_without_middle_boots(invocations, chosen))
    for index in sorted(ranks.keys() - chosen, key=lambda index: (ranks[index], index)):
        room -= invocations[index].size
        if room < 0:
            break
        chosen.add(index)
    return sorted(chosen)


def _rank(invocations: Sequence[Invocation]) -> dict[int, float]:
    """Return the importance of each run that may stay, by its index; 1 is the highest.

    The first and the latest run of each boot, and of each distinct failure in a boot, have rank 1 and always
    stay. The runs next to them have rank 2, and so on.
    """
    boots: dict[str | None, list[int]] = defaultdict(list)
    failures: dict[Hashable, list[int]] = defaultdict(list)
    for index, one in enumerate(invocations):
        boots[one.boot_id].append(index)
        if one.has_failure:
            failures[one.boot_id, one.end_key, one.message].append(index)
    ranks: dict[int, float] = {}
    for indexes in boots.values():
        for number, index in enumerate(indexes):
            distance = min(number + 1, len(indexes) - number)
            if distance <= _MAX_OF_BOOT:
                ranks[index] = distance
    for indexes in failures.values():
        for number, index in enumerate(indexes):
            distance = min(number + 1, len(indexes) - number)
            # All failures come before the other runs in the middle of a boot, in their own order.
            rank = min(distance, _OF_BOOT_BEFORE_FAILURES + distance / len(invocations) / 2)
            ranks[index] = min(rank, ranks.get(index, rank))
    return ranks


def _without_middle_boots(invocations: Sequence[Invocation], retained: set[int]) -> Iterator[int]:
    """Yield the indexes that stay if there are too many boots.

    Boots in the middle keep the first and the latest run of each distinct failure only.
    """
    boots = list(dict.fromkeys(one.boot_id for one in invocations))
    middle = set(boots[_FIRST_BOOTS:-_LATEST_BOOTS])
    failures: dict[Hashable, list[int]] = defaultdict(list)
    for index in sorted(retained):
        one = invocations[index]
        if one.boot_id not in middle:
            yield index
        elif one.has_failure:
            failures[one.end_key, one.message].append(index)
    for indexes in failures.values():
        yield from {indexes[0], indexes[-1]}


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

"""The runs of a service in their order, each made when it is asked for. Pure.

A settled run is one whose entries stand together in the record, from the start of the service to its end.
Nothing has to be paired to know what such a run came to, and of most of a long record nobody asks more. So
only its bounds are looked at. The rest is made of its lines when somebody asks for it.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter, ne
from typing import Final, TypeAlias, overload

import msgspec

from service_record.history.outcome import Outcome, Run, order
from service_record.history.results import Liveness, Presence, end_outcome, run_of
from service_record.history.spans import RunSpan
from service_record.record.entry import Entry, Malformed, Phase
from service_record.record.fields import RunsLeftOut
from service_record.record.plain import (
    LETTERS,
    Block,
    HeldLines,
    Passage,
    PlainEntry,
    Stretch,
    entries_of,
    lines_of,
    read_again,
)

_START: Final = LETTERS[Phase.SERVICE_START]
_END: Final = LETTERS[Phase.SERVICE_END]
_WITHIN: Final = f"[{LETTERS[Phase.STAGE_START]}{LETTERS[Phase.STAGE_END]}]*+"
_WHOLE_OR_CUT: Final = re.compile(rf"{_START}{_WITHIN}(?:{_END}|\Z)")
"""From a start to an end with nothing but stages within, or to where the block ends."""
_REST: Final = re.compile(rf"{_WITHIN}{_END}?")
"""What of the next block belongs to a run that was cut."""
_LAST: Final = Phase.SERVICE_END.value
_NOWHERE: Final = Presence(Liveness(), None)
_time: Final = datetime.fromisoformat


class SettledRun(msgspec.Struct, gc=False):
    """What is known at once of a settled run, as its `Run` has it."""

    outcome: Outcome
    boot_id: str | None
    invocation_id: str | None
    pid: int | None
    first_entry: datetime
    first_uptime: float | None
    last_entry: datetime
    last_uptime: float | None
    passage: Passage
    """In which its entries are, as `read_again` finds them."""
    place: int
    """How many entries go before them there."""
    count: int
    """How many entries it has."""
    attempt: int = 0
    dropped: int = 0
    left_out: RunsLeftOut | None = None
    """None: an entry that carries such is not plain, and its run not settled."""

    def entries(self) -> list[Entry]:
        """All of them. Raises OSError when they are not in the record any more."""
        entries = read_again(self.passage, self.place, self.count)
        if len(entries) != self.count or not self._is_from(entries[0], entries[-1]):
            raise self.passage.changed()
        return entries

    def _is_from(self, first: Entry, last: Entry) -> bool:
        """Whether these are its bounds."""
        process = self.boot_id, self.invocation_id, self.pid
        return (
            (first.boot_id, first.invocation_id, first.pid) == process
            and (last.boot_id, last.invocation_id, last.pid) == process
            and (first.phase, first.time, first.uptime)
            == (Phase.SERVICE_START, self.first_entry, self.first_uptime)
            and (last.phase, last.time, last.uptime) == (Phase.SERVICE_END, self.last_entry, self.last_uptime)
        )

    def span(self) -> RunSpan:
        """Its entries as `pairing` would put them together."""
        first, *within, last = self.entries()
        span = RunSpan(first=first, last=last, start=first, attempt=self.attempt, ends=[last])
        span.first_timed, span.last_timed = first, last
        for entry in within:
            (span.start_stage if entry.phase is Phase.STAGE_START else span.end_stage)(entry)
        return span

    def run(self, service: str) -> Run:
        """All that there is to know, with its stages and the facts of its end."""
        return run_of(service, self.span(), _NOWHERE)


Head: TypeAlias = Run | SettledRun
"""What is known of a run without making it: which it was, when it was, and what it came to."""


def with_settled_runs(record: Iterable[Stretch]) -> Iterator[SettledRun | Entry | Malformed]:
    """What is in the record of a service, with settled runs in the place of their entries."""
    cut: list[PlainEntry] = []
    for stretch in record:
        if isinstance(stretch, Malformed):
            yield stretch
        elif isinstance(stretch, Entry):
            yield from entries_of(cut)
            yield stretch
            cut = []
        else:
            cut = yield from _of_block(stretch, cut)
    yield from entries_of(cut)


def _of_block(block: Block, cut: list[PlainEntry]) -> Generator[SettledRun | Entry, None, list[PlainEntry]]:
    """The same of a block, behind what may be the beginning of a run. Returns such a beginning at its end."""
    rows, phases = block.rows, block.phases
    behind = 0
    if cut:
        behind = _REST.match(phases).end()  # type: ignore[union-attr]  # it matches nothing, too
        cut += rows[:behind]
        if behind == len(rows) and not phases.endswith(_END):
            return cut
        yield from _run_or_entries(cut, None, 0)
    for found in _WHOLE_OR_CUT.finditer(phases, behind):
        start, end = found.span()
        if behind < start:
            yield from entries_of(rows[behind:start])
        if phases[end - 1] != _END:
            return rows[start:]
        yield from _run_or_entries(rows[start:end], block.passage, start)
        behind = end
    yield from entries_of(rows[behind:])
    return []


def _run_or_entries(
    rows: list[PlainEntry], passage: Passage | None, place: int
) -> Iterable[SettledRun | Entry]:
    """The settled run that entries are, or else the entries.

    They stand behind so many others in the passage, or in none when they are from several.
    """
    first, last = rows[0], rows[-1]
    if last.phase != _LAST or not _are_of_one_process(rows):
        return entries_of(rows)
    run = SettledRun(
        end_outcome(last),
        first.boot_id,
        first.invocation_id,
        first.pid,
        _time(first.timestamp),
        first.uptime,
        _time(last.timestamp),
        last.uptime,
        passage or HeldLines(lines_of(rows)),
        place,
        len(rows),
    )
    return (run,)


def _are_of_one_process(rows: list[PlainEntry]) -> bool:
    """Whether they are all of one process, which is known, and of no command; and none was lost."""
    first = rows[0]
    boot_id, invocation_id, pid = first.boot_id, first.invocation_id, first.pid
    if invocation_id is None and pid is None:
        return False
    for row in rows:  # as fast as it gets: most of a long record comes through here
        if (
            row.invocation_id != invocation_id
            or row.pid != pid
            or row.boot_id != boot_id
            or row.dropped
            or row.pre_command
            or row.post_command
        ):
            return False
    return True


def attempts(runs: Iterable[Head]) -> Iterator[Head]:
    """The run that stands for each attempt, in their order."""
    for _, together in groupby(runs, key=attrgetter("attempt", "boot_id")):
        yield _deciding(list(together))


def _deciding(together: Sequence[Head]) -> Head:
    """Of the programs of one invocation, the one that goes on, or else the one that ended last.

    A service that runs another recorded program ends after it; a program after its pre-commands.
    """
    if len(together) == 1:
        return together[0]
    running = next((run for run in together if run.outcome is Outcome.RUNNING), None)
    deciding = running or max(reversed(together), key=lambda run: order(run.last_entry))
    left_out = next((run.left_out for run in together if run.left_out is not None), None)
    return replace(deciding, left_out=left_out) if left_out and isinstance(deciding, Run) else deciding


class Runs(Sequence[Run]):
    """The runs of a service. Who only looks through all of them takes `heads`, which costs nothing."""

    __slots__ = ("_service", "heads")

    def __init__(self, service: str = "", heads: Iterable[Head] = ()) -> None:
        self._service = service
        self.heads = list(heads)

    def attempts(self) -> "Runs":
        """The runs that stand for each attempt: of several programs in one invocation only one."""
        numbers = [head.attempt for head in self.heads]
        if all(map(ne, numbers, numbers[1:])):
            return self
        return Runs(self._service, attempts(self.heads))

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Run, ...]: ...
    def __getitem__(self, index: int | slice) -> Run | tuple[Run, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        head = self.heads[index]
        if isinstance(head, SettledRun):
            head = self.heads[index] = head.run(self._service)
        return head

    def __iter__(self) -> Iterator[Run]:
        return map(self.__getitem__, range(len(self)))

    def drain(self) -> Iterator[Run]:
        """Yield each run, forgotten as it is handed out: the runs of a long record take much memory."""
        self.heads.reverse()
        while self.heads:
            head = self.heads.pop()
            yield head.run(self._service) if isinstance(head, SettledRun) else head

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Runs) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # they are made bit by bit

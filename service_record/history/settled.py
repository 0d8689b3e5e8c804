"""Settled runs: those whose entries stand together in the record, from the start of the service to its end.

Nothing has to be paired to know what such a run came to, and of most of a long record nobody asks more. So
only its bounds are looked at. The rest is made of its lines when somebody asks for it. Pure.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from service_record.entry import Entry, Malformed, Phase, Result
from service_record.history.liveness import Liveness, Presence
from service_record.history.outcome import Outcome, Run
from service_record.history.results import run_of
from service_record.history.spans import RunSpan
from service_record.plain import Block, PlainEntry, Stretch, entries_of, lines_of, read_again

_START: Final = Phase.SERVICE_START.value
_END: Final = Phase.SERVICE_END.value
_STAGE_START: Final = Phase.STAGE_START.value
_STAGE_END: Final = Phase.STAGE_END.value
_SUCCESS: Final = Result.SUCCESS.value
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
    text: bytes
    """In which its entries are, as `read_again` finds them."""
    place: int
    """How many entries go before them there."""
    count: int
    """How many entries it has."""
    attempt: int = 0
    dropped: int = 0

    def entries(self) -> list[Entry]:
        return read_again(self.text, self.place, self.count)

    def span(self) -> RunSpan:
        """Its entries as `pairing` would put them together."""
        first, *within, last = self.entries()
        span = RunSpan(first=first, last=last, start=first, attempt=self.attempt, ends=[last])
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
    held: list[PlainEntry] = []
    kind: object = None
    text, place = b"", 0
    for stretch in record:
        if isinstance(stretch, Malformed):
            yield stretch
            continue
        if isinstance(stretch, Entry):
            yield from _told(held, text, place)
            yield stretch
            held, kind = [], None
            continue
        begin = 0
        for found, same in groupby(_kinds(stretch)):
            end = begin + len(list(same))
            rows = stretch.rows[begin:end]
            if found == kind:
                held += rows
                text = b""
            else:
                yield from _told(held, text, place)
                held, kind, text, place = rows, found, stretch.text, begin
            begin = end
    yield from _told(held, text, place)


def _kinds(block: Block) -> list[object]:
    """What is the same of entries that are taken together: the process that they are of."""
    return [
        (row.boot_id, row.invocation_id, row.pid, row.pre_command, row.post_command, row.dropped)
        for row in block.rows
    ]


def _told(rows: list[PlainEntry], text: bytes, place: int) -> Iterable[SettledRun | Entry]:
    """The settled run that entries of one process are, or else the entries.

    They stand behind so many others in the text, or in no text when they are from several.
    """
    if not rows or not _are_whole(rows):
        return entries_of(rows)
    first, last = rows[0], rows[-1]
    run = SettledRun(
        Outcome.SUCCESS if last.result == _SUCCESS else Outcome.FAILURE,
        first.boot_id,
        first.invocation_id,
        first.pid,
        _time(first.timestamp),
        first.uptime,
        _time(last.timestamp),
        last.uptime,
        text or lines_of(rows),
        place if text else 0,
        len(rows),
    )
    return (run,)


def _are_whole(rows: list[PlainEntry]) -> bool:
    """Whether they are a whole run, with nothing but stages within, of a process that is known."""
    first = rows[0]
    phases = [row.phase for row in rows]
    return (
        phases[0] == _START
        and phases[-1] == _END
        and phases.count(_STAGE_START) + phases.count(_STAGE_END) == len(phases) - 2
        and not (first.invocation_id is None and first.pid is None)
        and first.pre_command is None
        and first.post_command is None
        and not first.dropped
    )

"""What a loss of power may leave of a record, replayed from the writes that a service really made.

A disk has each sector of it in any of the versions that were written since the last sync, or in none, and the
file system has any of the lengths. Whatever it is, no entry but those that were written is read, those that
were on the disk before are all there, and the next writer goes on, in Python or in bash.
"""

import random
import tempfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from service_record.record.entry import Entry, Phase, Result
from service_record.record.layout import read_entries
from tests.array_writers import NO_LAYOUT, WRITERS, ArrayWriter, record_path, write_record
from tests.torture.tally import ORDER, Tally, Until, while_time_lasts
from tests.torture.writes import BEFORE, Recorded, recorded

LAYOUTS: Final = ("lines", "array")
SECTOR: Final = 512
PAGE: Final = 4096
_EACH: Final = 4
"""Of how many losses one is followed up in bash, in each bash in turn: that takes ten times as long."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A state that a disk may be left in: drawn by a number, from what was written up to some write."""

    number: int

    def applied(self, found: Recorded, contents: list[bytes]) -> tuple[int, bytes]:
        """While which write power is lost, and what is left: each unit of so many bytes in any version that
        it had since the disk was synced.
        """
        chance = random.Random(f"{ORDER}{self.number}")
        last = chance.randrange(1, len(contents))
        first = chance.randrange(found.on_disk(last), last)  # what was before is on the disk
        versions = contents[first : last + 1]
        unit = chance.choice((SECTOR, SECTOR, PAGE))
        length = len(chance.choice((versions[-1], chance.choice(versions))))
        weight = chance.choice((0.05, 0.3, 0.5, 0.9))
        pieces = []
        for begin in range(0, length, unit):
            of = versions[-1] if chance.random() > weight else chance.choice(versions)
            pieces.append(of[begin : begin + unit].ljust(min(unit, length - begin), b"\0"))
        return last, b"".join(pieces)


def _lasting(content: bytes) -> list[Entry]:
    """The entries in it that a service which syncs has on the disk when it goes on."""
    return [each for each in _entries(content) if each.result is Result.FAILURE]


def _entries(content: bytes) -> list[Entry]:
    return [piece for piece in read_entries(BytesIO(content)) if isinstance(piece, Entry)]


def judged(found: Recorded, contents: list[bytes], written: list[Entry], loss: Loss) -> list[str]:
    """Return the faults of what such a loss leaves."""
    last, content = loss.applied(found, contents)
    entries = _entries(content)
    wrong = []
    if found.is_lasting and not all(each in entries for each in _lasting(contents[last - 1])):
        wrong.append("a failure is gone that the service had waited for")
    if entries[: len(BEFORE)] != BEFORE:
        wrong.append("an entry that was on the disk is gone")
    order = iter(written)
    strange = [each for each in entries if not any(each == known for known in order)]
    if strange:
        wrong.append(f"entries that nobody wrote, or in another order: {strange[0]}")
    wrong += _follow_up(content, entries, _next_writer(loss.number))
    return [f"{found.name}, {loss}: {each}" for each in wrong]


def _follow_up(content: bytes, entries: list[Entry], writer: ArrayWriter) -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        write_record(directory, content)
        try:
            writer.append(directory, layout=NO_LAYOUT)
        except (AssertionError, TimeoutExpired) as error:
            return [f"the next writer ({writer}) could not write: {error}"]
        after = _entries(record_path(directory).read_bytes())
    kept, last = after[: len(entries)], after[len(entries) :]
    if kept == entries and [each.phase for each in last] == [Phase.SERVICE_START] and last[0] not in entries:
        return []
    odd = [each for each in (*entries, *after) if each not in after or each not in entries]
    return [f"the next writer ({writer}) changed what was there: {len(entries)}, then {len(after)}: {odd}"]


def _next_writer(number: int) -> ArrayWriter:
    library, *shells = WRITERS
    return library if number % _EACH else shells[number // _EACH % len(shells)]


def tortured(
    writer: str, layout: str, most: int, until: Until | None = None, *, is_lasting: bool = False
) -> Tally:
    """So many losses of power, the same in each run, as far as there is time."""
    found = recorded(writer, layout, is_lasting=is_lasting)
    contents = found.contents()
    written = _entries(contents[-1])
    tried, findings = 0, list[str]()
    for number in while_time_lasts(range(most), until):
        tried += 1
        findings += judged(found, contents, written, Loss(number))
    target = f"power loss: {found.name}"
    return Tally(target=target, cases=tried, all_cases=tried, findings=tuple(findings))

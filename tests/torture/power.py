"""Simulate power losses during the writes of a real service, and check the record that is left.

After a power loss, each sector has any content that it had since the last sync, or zeros, and the file has
any of its lengths since then. The reader must find only written entries and all synced ones, and the next
writer, in Python or bash, must be able to append.
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
from tests.torture.tally import ORDER, Deadline, Tally, take_in_time
from tests.torture.writes import EARLIER_ENTRIES, WrittenRecord, record_writes

LAYOUTS: Final = ("lines", "array")
SECTOR: Final = 512
PAGE: Final = 4096
_BASH_INTERVAL: Final = 4
"""One of this many losses is followed by a writer in bash, each bash in turn; the others by Python, which is
ten times as fast.
"""


@dataclass(frozen=True, slots=True)
class Loss:
    """A simulated power loss; its number seeds the random choices."""

    number: int

    def apply(self, record: WrittenRecord, contents: list[bytes]) -> tuple[int, bytes]:
        """Return the number of the interrupted write, and the content that is left: each sector or page has
        any version since the last sync.
        """
        chance = random.Random(f"{ORDER}{self.number}")
        last = chance.randrange(1, len(contents))
        first = chance.randrange(record.count_synced(last), last)  # synced writes are never lost
        versions = contents[first : last + 1]
        unit = chance.choice((SECTOR, SECTOR, PAGE))
        length = len(chance.choice((versions[-1], chance.choice(versions))))
        weight = chance.choice((0.05, 0.3, 0.5, 0.9))
        pieces = []
        for begin in range(0, length, unit):
            version = versions[-1] if chance.random() > weight else chance.choice(versions)
            pieces.append(version[begin : begin + unit].ljust(min(unit, length - begin), b"\0"))
        return last, b"".join(pieces)


def _list_synced(content: bytes) -> list[Entry]:
    """Return the entries that a service with syncing has on the disk before it continues."""
    return [each for each in _parse_entries(content) if each.result is Result.FAILURE]


def _parse_entries(content: bytes) -> list[Entry]:
    return [piece for piece in read_entries(BytesIO(content)) if isinstance(piece, Entry)]


def judge(record: WrittenRecord, contents: list[bytes], written: list[Entry], loss: Loss) -> list[str]:
    """Return the findings about the content that the power loss leaves."""
    last, content = loss.apply(record, contents)
    entries = _parse_entries(content)
    findings = []
    if record.does_sync and not all(each in entries for each in _list_synced(contents[last - 1])):
        findings.append("a synced failure is missing")
    if entries[: len(EARLIER_ENTRIES)] != EARLIER_ENTRIES:
        findings.append("an entry that was on the disk is missing")
    order = iter(written)
    foreign = [each for each in entries if not any(each == known for known in order)]
    if foreign:
        findings.append(f"unwritten or reordered entries: {foreign[0]}")
    findings += _check_next_writer(content, entries, _choose_writer(loss.number))
    return [f"{record.name}, {loss}: {each}" for each in findings]


def _check_next_writer(content: bytes, entries: list[Entry], writer: ArrayWriter) -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        write_record(directory, content)
        try:
            writer.append(directory, layout=NO_LAYOUT)
        except (AssertionError, TimeoutExpired) as error:
            return [f"the next writer ({writer}) could not write: {error}"]
        after = _parse_entries(record_path(directory).read_bytes())
    earlier, last = after[: len(entries)], after[len(entries) :]
    if (
        earlier == entries
        and [each.phase for each in last] == [Phase.SERVICE_START]
        and last[0] not in entries
    ):
        return []
    odd = [each for each in (*entries, *after) if each not in after or each not in entries]
    return [f"the next writer ({writer}) changed earlier entries: {len(entries)}, then {len(after)}: {odd}"]


def _choose_writer(number: int) -> ArrayWriter:
    library, *shells = WRITERS
    return library if number % _BASH_INTERVAL else shells[number // _BASH_INTERVAL % len(shells)]


def torture(
    writer: str, layout: str, limit: int, deadline: Deadline | None = None, *, does_sync: bool = False
) -> Tally:
    """Try `limit` power losses, the same in each run, until the deadline."""
    record = record_writes(writer, layout, does_sync=does_sync)
    contents = record.list_contents()
    written = _parse_entries(contents[-1])
    tried, findings = 0, list[str]()
    for number in take_in_time(range(limit), deadline):
        tried += 1
        findings += judge(record, contents, written, Loss(number))
    target = f"power loss: {record.name}"
    return Tally(target=target, cases=tried, all_cases=tried, findings=tuple(findings))

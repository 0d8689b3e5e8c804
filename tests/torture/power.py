"""What a loss of power may leave of a record, replayed from the writes that a service really made.

strace writes down every write(2) of a recorded service: where, and what. A disk has each sector of it in any
of the versions that were written since the last sync, or in none, and the file system has any of the lengths.
Whatever it is, no entry but those that were written is read, those that were on the disk before are all
there, and the next writer goes on.
"""

import random
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from service_record.entry import Entry, Result
from service_record.layout import read_entries
from service_record.records import Records
from tests.array_writers import put, record_of
from tests.builders import entry, failed_run, our_array
from tests.shell.scripts import ROOT, SHIM, bashes, environment
from tests.torture.injection import run_traced
from tests.torture.tally import ORDER, Tally, Until, while_time_lasts

SECTOR: Final = 512
PAGE: Final = 4096
BEFORE: Final = failed_run("on the disk")
_LENGTHS: Final = (10, 700, 3300, 40, 1900, 3600)
"""Of the names or messages of what is recorded: entries within a sector, and over many."""

SCRIPT: Final = """
{
  . "$SHIM"
  echo ready
  read -r
  for length in %s; do
    record_service_stage_start "$length"
    printf -v MESSAGE '%%*s' "$length" ''
    printf '%%s\\n' "$length ${MESSAGE// /m}" >message
    record_service_stage_failure
  done
}
""" % " ".join(map(str, _LENGTHS))  # noqa: UP031  # the script is full of braces
JOURNALCTL: Final = '#!/bin/sh\ncase "$*" in *--sync*) ;; *) cat message ;; esac\n'
PROGRAM: Final = f"""
import os, sys
from service_record import array
from service_record.entry import Entry, Phase, Result
from service_record.records import Records

writer = Records(os.environ["SERVICE_RECORDS_DIR"]).writer("service")
print("ready", flush=True)
sys.stdin.readline()
for length in {_LENGTHS}:
    now, stage = "2026-11-21T01:05:20.000Z", str(length)
    writer.append(Entry(timestamp=now, phase=Phase.STAGE_START, stage=stage))
    message = f"{{length}} " + length * "m"
    writer.append(Entry(timestamp=now, phase=Phase.STAGE_END, stage=stage, result=Result.FAILURE,
        error_message=message))
"""
_UNFINISHED: Final = " <unfinished ...>"
_OPTIONS: Final = ("-y", "-xx", "-e", "trace=write,pwrite64,lseek,fsync")
_LINE: Final = re.compile(r"^(\d+) +(write|pwrite64|lseek|fsync)\((\d+)<([^>]*)>(?:, )?(.*)\) += (\d+)")


@dataclass(frozen=True, slots=True)
class Write:
    """What was written, and where; and whether all that was written before was on the disk by then."""

    offset: int
    data: bytes
    is_synced: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record on the disk, and what was written to it since."""

    name: str
    before: bytes
    writes: tuple[Write, ...]
    is_lasting: bool
    """Whether it was to sync the end of each run, and failures."""

    def on_disk(self, last: int) -> int:
        """How many of so many writes were on the disk for certain when the last of them was made."""
        return max((number for number in range(last) if self.writes[number].is_synced), default=0)

    def contents(self) -> list[bytes]:
        """What the file holds before the first write, and after each."""
        content, all_of_it = bytearray(self.before), [self.before]
        for write in self.writes:
            content.extend(b"\0" * (write.offset - len(content)))
            content[write.offset : write.offset + len(write.data)] = write.data
            all_of_it.append(bytes(content))
        return all_of_it


def recorded(writer: str, layout: str, *, is_lasting: bool = False) -> Recorded:
    """What such a service writes. Raises AssertionError where the writes do not come to its record."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        lines = b"".join(each.to_line() for each in BEFORE)
        record = put(directory, our_array(*BEFORE) if layout == "array" else lines)
        directory.joinpath("shim.sh").symlink_to(SHIM)
        directory.joinpath("service").write_text(SCRIPT if writer == "shell" else PROGRAM)
        directory.joinpath("journalctl").write_text(JOURNALCTL)
        directory.joinpath("journalctl").chmod(0o755)
        program = bashes()[0].path if writer == "shell" else sys.executable
        variables = environment(directory)
        variables |= {"PATH": f"{directory}:{variables['PATH']}", "INVOCATION_ID": "1f" * 16}
        variables |= {"PYTHONPATH": str(ROOT), "SERVICE_RECORDS_LAYOUT": layout}
        variables |= {"SERVICE_RECORDS_SYNC": "ends"} if is_lasting else {}
        before_ready = _BeforeReady(record)
        ended = run_traced(
            [program, "service"], directory, variables, directory / "trace", _OPTIONS, when_ready=before_ready
        )
        assert ended.said.count(b"\n") <= 1, ended
        writes = tuple(_writes(directory / "trace", record, len(before_ready.content)))
        name = f"{writer}, {layout}{', synced' if is_lasting else ''}"
        found = Recorded(name, before_ready.content, writes, is_lasting)
        assert found.contents()[-1] == record.read_bytes(), found.name
        return found


class _BeforeReady:
    """The content of a record when its service is ready."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self.content = b""

    def __call__(self, _process: int) -> None:
        self.content = self._record.read_bytes()


def _writes(trace: Path, record: Path, size: int) -> Iterator[Write]:
    """Those to the record. Who has looked where it stands writes there; all others append."""
    standing = dict[tuple[str, str], int]()
    is_synced = False
    for line in _whole_lines(trace):
        found = _LINE.match(line)
        if found is None or bytes.fromhex(found[4].replace("\\x", "")) != bytes(record):
            continue
        process, call, descriptor, _, arguments, result = found.groups()
        if call == "fsync":
            is_synced = True
            continue
        if call == "lseek":
            standing[process, descriptor] = int(result)
            continue
        text, _, rest = arguments.removeprefix('"').partition('"')
        data = bytes.fromhex(text.replace("\\x", ""))[: int(result)]
        offset = (
            int(rest.rpartition(", ")[2]) if call == "pwrite64" else standing.get((process, descriptor), size)
        )
        size = max(size, offset + len(data))
        yield Write(offset, data, is_synced)
        is_synced = False


def _whole_lines(trace: Path) -> Iterator[str]:
    """Its lines; of a call that another process's came into, both halves as one."""
    begun = dict[str, str]()
    for line in trace.read_text().splitlines():
        process, _, text = line.partition(" ")
        if line.endswith(_UNFINISHED):
            begun[process] = line.removesuffix(_UNFINISHED)
        elif text.lstrip().startswith("<... ") and process in begun:
            yield begun.pop(process) + text.partition(" resumed>")[2]
        else:
            yield line


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
    """What is wrong with what such a loss leaves."""
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
    wrong += _follow_up(content, entries)
    return [f"{found.name}, {loss}: {each}" for each in wrong]


def _follow_up(content: bytes, entries: list[Entry]) -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        put(Path(place), content)
        last = entry("service start", 100, recorder="python/0.1.0")
        if not Records(Path(place) / "records").writer("service").append(last):
            return ["the next writer could not write"]
        after = _entries(record_of(Path(place)).read_bytes())
        if after != [*entries, last]:
            odd = [
                each for each in (*entries, last, *after) if each not in after or each not in (*entries, last)
            ]
            return [f"the next writer changed what was there: {len(entries)}, then {len(after)}: {odd}"]
    return []


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
    return Tally(target=target, promises=(2,), cases=tried, all_cases=tried, findings=tuple(findings))

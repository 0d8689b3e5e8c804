"""What a service that records writes to its record, and where: its write(2) calls, as strace saw them."""

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.array_writers import write_record
from tests.builders import failed_run, our_array
from tests.shell.scripts import ROOT, SHIM, bashes, environment
from tests.torture.injection import run_traced

BEFORE: Final = failed_run("on the disk")
_LENGTHS: Final = (10, 700, 3300, 40, 1900, 3600)
"""Of the names or messages of what is recorded: entries within a sector, and over many."""

_SCRIPT: Final = """
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
_JOURNALCTL: Final = '#!/bin/sh\ncase "$*" in *--sync*) ;; *) cat message ;; esac\n'
_PROGRAM: Final = f"""
import os, sys
from service_record.record import array_file
from service_record.record.entry import Entry, Phase, Result
from service_record.record.directory import Records

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
    """Bytes and place of a write; and whether all earlier writes were on the disk by then."""

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
    """True when it was to sync the end of each run, and failures."""

    def on_disk(self, last: int) -> int:
        """Return how many of so many writes were on the disk for certain when the last of them was made."""
        return max((number for number in range(last) if self.writes[number].is_synced), default=0)

    def contents(self) -> list[bytes]:
        """Return the contents of the file before the first write, and after each."""
        content, all_of_it = bytearray(self.before), [self.before]
        for write in self.writes:
            content.extend(b"\0" * (write.offset - len(content)))
            content[write.offset : write.offset + len(write.data)] = write.data
            all_of_it.append(bytes(content))
        return all_of_it


def recorded(writer: str, layout: str, *, is_lasting: bool = False) -> Recorded:
    """Return the writes of such a service. Raises AssertionError where they do not come to its record."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        lines = b"".join(each.to_line() for each in BEFORE)
        record = write_record(directory, our_array(*BEFORE) if layout == "array" else lines)
        directory.joinpath("shim.sh").symlink_to(SHIM)
        directory.joinpath("service").write_text(_SCRIPT if writer == "shell" else _PROGRAM)
        directory.joinpath("journalctl").write_text(_JOURNALCTL)
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
        writes = tuple(_writes(directory / "trace", record, before_ready.content))
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


def _writes(trace: Path, record: Path, before: bytes) -> Iterator[Write]:
    """Yield the writes to the record. A writer that has looked where it stands writes there.

    Of the others, bash has come by reading to the end of an array's last entry. All others append.
    """
    standing = dict[tuple[str, str], int]()
    content = bytearray(before)
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
        offset = standing.get((process, descriptor), len(content))
        if call == "pwrite64":
            offset = int(rest.rpartition(", ")[2])
        elif data.startswith((b",\n", b"\n{")) and data.endswith(b"\n]\n"):
            offset = len(content.rstrip(b" \n").removesuffix(b"]").rstrip(b" \n"))
        content.extend(b"\0" * (offset - len(content)))
        content[offset : offset + len(data)] = data
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

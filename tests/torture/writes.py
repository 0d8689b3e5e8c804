"""Capture the write(2) calls of a recording service on its record, with strace."""

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

EARLIER_ENTRIES: Final = failed_run("on the disk")
_TEXT_LENGTHS: Final = (10, 700, 3300, 40, 1900, 3600)
"""Lengths of names and messages of the recorded entries, so that entries fit in a sector or span several."""

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
""" % " ".join(map(str, _TEXT_LENGTHS))  # noqa: UP031  # the script is full of braces
_JOURNALCTL: Final = '#!/bin/sh\ncase "$*" in *--sync*) ;; *) cat message ;; esac\n'
_PROGRAM: Final = f"""
import os, sys
from service_record.record import array_file
from service_record.record.entry import Entry, Phase, Result
from service_record.record.directory import Records

writer = Records(os.environ["SERVICE_RECORDS_DIR"]).writer("service")
print("ready", flush=True)
sys.stdin.readline()
for length in {_TEXT_LENGTHS}:
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
    """Offset and bytes of a write. `is_synced` is true when all earlier writes were synced to the disk."""

    offset: int
    data: bytes
    is_synced: bool


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """A synced record, and the later writes to it."""

    name: str
    synced_content: bytes
    writes: tuple[Write, ...]
    does_sync: bool
    """True when the service syncs after failures and at the end of each run."""

    def count_synced(self, last: int) -> int:
        """Return how many writes were certainly on the disk when write number `last` was made."""
        return max((number for number in range(last) if self.writes[number].is_synced), default=0)

    def list_contents(self) -> list[bytes]:
        """Return the content of the file before the first write and after each write."""
        content, contents = bytearray(self.synced_content), [self.synced_content]
        for write in self.writes:
            content.extend(b"\0" * (write.offset - len(content)))
            content[write.offset : write.offset + len(write.data)] = write.data
            contents.append(bytes(content))
        return contents


def record_writes(writer: str, layout: str, *, does_sync: bool = False) -> WrittenRecord:
    """Run a service and return its record with the writes. Raises AssertionError where the writes do not add
    up to the record.
    """
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        lines = b"".join(each.to_line() for each in EARLIER_ENTRIES)
        record = write_record(directory, our_array(*EARLIER_ENTRIES) if layout == "array" else lines)
        directory.joinpath("shim.sh").symlink_to(SHIM)
        directory.joinpath("service").write_text(_SCRIPT if writer == "shell" else _PROGRAM)
        directory.joinpath("journalctl").write_text(_JOURNALCTL)
        directory.joinpath("journalctl").chmod(0o755)
        program = bashes()[0].path if writer == "shell" else sys.executable
        variables = environment(directory)
        variables |= {"PATH": f"{directory}:{variables['PATH']}", "INVOCATION_ID": "1f" * 16}
        variables |= {"PYTHONPATH": str(ROOT), "SERVICE_RECORDS_LAYOUT": layout}
        variables |= {"SERVICE_RECORDS_SYNC": "ends"} if does_sync else {}
        on_ready = _ReadWhenReady(record)
        result = run_traced(
            [program, "service"], directory, variables, directory / "trace", _OPTIONS, when_ready=on_ready
        )
        assert result.output.count(b"\n") <= 1, result
        writes = tuple(_parse_writes(directory / "trace", record, on_ready.content))
        name = f"{writer}, {layout}{', synced' if does_sync else ''}"
        written = WrittenRecord(name, on_ready.content, writes, does_sync)
        assert written.list_contents()[-1] == record.read_bytes(), written.name
        return written


class _ReadWhenReady:
    """Reads the content of a record when its service is ready."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self.content = b""

    def __call__(self, _process: int) -> None:
        self.content = self._record.read_bytes()


def _parse_writes(trace: Path, record: Path, synced_content: bytes) -> Iterator[Write]:
    """Yield the writes to the record.

    A write goes to the offset of the preceding lseek or pwrite64. bash finds the end of an array's last entry
    by reading, which the trace does not show. All other writes append.
    """
    offsets = dict[tuple[str, str], int]()
    content = bytearray(synced_content)
    is_synced = False
    for line in _read_lines(trace):
        match = _LINE.match(line)
        if match is None or bytes.fromhex(match[4].replace("\\x", "")) != bytes(record):
            continue
        process, call, descriptor, _, arguments, result = match.groups()
        if call == "fsync":
            is_synced = True
            continue
        if call == "lseek":
            offsets[process, descriptor] = int(result)
            continue
        text, _, rest = arguments.removeprefix('"').partition('"')
        data = bytes.fromhex(text.replace("\\x", ""))[: int(result)]
        offset = offsets.get((process, descriptor), len(content))
        if call == "pwrite64":
            offset = int(rest.rpartition(", ")[2])
        elif data.startswith((b",\n", b"\n{")) and data.endswith(b"\n]\n"):
            offset = len(content.rstrip(b" \n").removesuffix(b"]").rstrip(b" \n"))
        content.extend(b"\0" * (offset - len(content)))
        content[offset : offset + len(data)] = data
        yield Write(offset, data, is_synced)
        is_synced = False


def _read_lines(trace: Path) -> Iterator[str]:
    """Yield the lines of the trace. Joins the two halves of a call that was interrupted by a line of another
    process.
    """
    unfinished = dict[str, str]()
    for line in trace.read_text().splitlines():
        process, _, text = line.partition(" ")
        if line.endswith(_UNFINISHED):
            unfinished[process] = line.removesuffix(_UNFINISHED)
        elif text.lstrip().startswith("<... ") and process in unfinished:
            yield unfinished.pop(process) + text.partition(" resumed>")[2]
        else:
            yield line

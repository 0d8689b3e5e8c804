"""Append one entry, from the shell and from Python, in both layouts, while each of its system calls fails.

Whatever fails, the service continues, prints nothing and keeps its exit status. In its record, earlier
entries are unchanged, every acknowledged entry is whole, missing entries are counted, and there are no
others. The next writer can append to the record.
"""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from service_record.record.directory import Records
from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries
from tests.array_writers import read_after_exit_helper, record_path, write_record
from tests.builders import entry, failed_run, our_array
from tests.shell.scripts import ROOT, SHIM, bashes, environment
from tests.torture.injection import (
    BEGIN,
    CLOSE,
    END,
    ERRORS,
    KILL,
    MARKS,
    RETRIED,
    Fault,
    ProgramResult,
    list_faults_between_marks,
    list_marks,
    run_traced,
    was_injected,
)
from tests.torture.tally import Deadline, Tally, judge_in_parallel, sample, sum_verdicts

EARLIER_ENTRIES: Final = failed_run("earlier")
LATER: Final = "later"
LIFT_VARIABLE: Final = "TORTURE_LIFTED"
"""Variable that makes a service lift its limit of file size after the append under test."""
_STATUS: Final = 3
_LEFTOVER_SECONDS: Final = 2
"""A here-document older than this is a leftover: bash deletes the file right after opening it."""
_KILLED: Final = -9
_SLOW_PROGRAM: Final = "+++ exited with 124 +++"
"""Line of a trace where the shim stopped a slow program.

bash makes two system calls for each byte that it reads with a time limit, and strace stops at each of them.
"""

SCRIPT: Final = f"""
{{
  . "$SHIM"
  record_service_stage_start one
  echo ready
  read -r 2>/dev/null
  [[ ! -e {MARKS}{BEGIN} ]]
  record_service_stage_success
  [[ ! -e {MARKS}{END} ]]
  [[ ! ${{{LIFT_VARIABLE}-}} ]] || ulimit -S -f unlimited
  record_service_stage_start two
  record_service_stage_success
  [[ ! -e {MARKS}{LATER} ]]
  exit {_STATUS}
}}
"""
"""The braces make bash read the whole script before a read can fail, beginning with the read after `ready`.
"""

PROGRAM: Final = f"""
import os, resource, sys
from service_record.record import array_file
from service_record.record.entry import Entry, Phase, Result
from service_record.record.directory import Records

def mark(name):
    try:
        os.stat("{MARKS}" + name)
    except OSError:
        pass

writer = Records(os.environ["SERVICE_RECORDS_DIR"]).writer("service")
for number, (phase, stage) in enumerate(
    [("service start", None), ("stage start", "one"), ("stage end", "one"),
     ("stage start", "two"), ("stage end", "two"), ("service end", None)]
):
    if number == 2:
        print("ready", flush=True)
        try:
            sys.stdin.readline()
        except OSError:
            pass
        mark("{BEGIN}")
    result = Result.SUCCESS if phase.endswith("end") else None
    now = "2026-11-21T01:05:20.000Z"
    written = writer.append(Entry(timestamp=now, phase=Phase(phase), stage=stage, result=result))
    if number == 2:
        mark("{END}")
        if os.environ.get("{LIFT_VARIABLE}"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if written:
        mark(f"acknowledged/{{number}}")
mark("{LATER}")
sys.exit({_STATUS})
"""
EXPECTED: Final = (
    ("service start", None),
    ("stage start", "one"),
    ("stage end", "one"),
    ("stage start", "two"),
    ("stage end", "two"),
    ("service end", None),
)
"""Phase and stage of each entry that the service writes."""


_REDIRECTION_ERRORS: Final = re.compile(
    rb"^\S+: line \d+: (/dev/null|\d+|(mapfile|read): \d+: invalid file descriptor|read: read error: \d+"
    rb"|/proc/(uptime|self/\w+)|\S+/records/\S+|cannot create temp file for here-document)"
    rb": [A-Z][a-zI/ -]+\n",
    re.MULTILINE,
)
"""Messages of bash about files that it could not open or read.

To silence them, the shim would have to redirect the service's stderr for each of its reads. A signal that
ends the service during such a read would then also silence the service's EXIT trap.
"""


@dataclass(frozen=True, slots=True)
class Append:
    """One append by one writer in one layout."""

    writer: str
    layout: str

    def prepare(self, directory: Path) -> None:
        """Write a record with earlier entries, and the service."""
        lines = b"".join(each.to_line() for each in EARLIER_ENTRIES)
        write_record(directory, our_array(*EARLIER_ENTRIES) if self.layout == "array" else lines)
        directory.joinpath("shim.sh").symlink_to(SHIM)
        directory.joinpath("service").write_text(SCRIPT if self.writer == "shell" else PROGRAM)

    def run(
        self,
        directory: Path,
        options: Sequence[str] = (),
        when_ready: Callable[[int], object] = lambda _process: None,
        **variables: str,
    ) -> ProgramResult:
        """Run the service with additional `variables`. Raises TimeoutExpired when it hangs."""
        program = bashes()[0].path if self.writer == "shell" else sys.executable
        plain = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        all_variables = environment(directory) | plain | {"SERVICE_RECORDS_LAYOUT": self.layout} | variables
        trace = directory / "trace"
        return run_traced(
            [program, "service"], directory, all_variables, trace, options, when_ready=when_ready
        )

    def __str__(self) -> str:
        return f"one append, {self.writer}, {self.layout}"


APPENDS: Final = tuple(
    Append(writer, layout) for layout in ("lines", "array") for writer in ("shell", "python")
)


def list_faults(append: Append) -> list[Fault]:
    """Return all faults, found by a run without faults."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        result = append.run(directory, ("-y",))
        assert result == ProgramResult(_STATUS, b""), result
        assert list_phases(read_record(directory)[len(EARLIER_ENTRIES) :]) == list(EXPECTED)
        return list_faults_between_marks(directory / "trace", RETRIED[append.writer])


def judge(append: Append, fault: Fault) -> tuple[bool, list[str]]:
    """Return whether the fault occurred, and the findings."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        trace = directory / "trace"
        try:
            result = append.run(directory, fault.options)
        except TimeoutExpired:
            return True, [f"{append}, {fault}: the service hangs"]
        findings = check_result(
            append, directory, result, may_be_killed=fault.effect == KILL, may_overcount=fault.call == CLOSE
        )
        return was_injected(trace, fault), [f"{append}, {fault}: {each}" for each in findings]


def check_result(
    append: Append,
    directory: Path,
    result: ProgramResult,
    *,
    may_be_killed: bool = False,
    may_overcount: bool = False,
) -> list[str]:
    """Return the findings about the service and its record, after this run and after the next writer.

    If `may_overcount`, an entry that is present may be counted as missing: when close fails, the file system
    may have lost the data, and on a busy machine the shim's helper program may take too long.
    """
    trace = directory / "trace"
    marks, was_slow = list_marks(trace), _SLOW_PROGRAM in trace.read_text()
    return [
        *_check_service(result, marks, may_be_killed=may_be_killed),
        *_check_record(directory, marks, result, may_overcount=may_overcount or was_slow),
        *_check_next_writer(directory, append),
    ]


def read_record(directory: Path) -> list[Entry | Malformed]:
    return list(read_entries(BytesIO(record_path(directory).read_bytes())))


def list_phases(pieces: Sequence[Entry | Malformed]) -> list[tuple[str, str | None]]:
    """Return phase and stage of each entry."""
    return [(str(piece.phase), piece.stage) for piece in pieces if isinstance(piece, Entry)]


def _has_redirection_error(result: ProgramResult) -> bool:
    """Return whether a redirection failed, so that a function of the shim may not have run."""
    return _REDIRECTION_ERRORS.search(result.output) is not None


def _check_service(result: ProgramResult, marks: list[str], *, may_be_killed: bool) -> list[str]:
    """Return the findings about the service itself; none about a service that was killed."""
    if may_be_killed and result.status == _KILLED:
        return []
    findings = []
    if result.status != _STATUS:
        findings.append(f"the service ended with {result.status}")
    output = _REDIRECTION_ERRORS.sub(b"", result.output)
    if output and not (_has_redirection_error(result) and output.startswith(b"service-record: ")):
        findings.append(f"it printed {output!r}")
    if LATER not in marks:
        findings.append("its later stages did not run")
    return findings


def _check_record(
    directory: Path, marks: list[str], result: ProgramResult, *, may_overcount: bool
) -> list[str]:
    pieces = read_record(directory)
    entries = [piece for piece in pieces if isinstance(piece, Entry)]
    if entries[: len(EARLIER_ENTRIES)] != EARLIER_ENTRIES:
        return ["earlier entries have changed"]
    new_entries = entries[len(EARLIER_ENTRIES) :]
    foreign = [piece.text for piece in pieces if isinstance(piece, Malformed) and not _is_torn(piece)]
    findings = [f"a piece that was not written: {text!r}" for text in foreign]
    if _has_redirection_error(result):
        return findings
    numbers = _find_positions(new_entries)
    if numbers is None:
        return [*findings, f"unwritten, repeated or reordered entries: {list_phases(new_entries)}"]
    acknowledged = {int(name.partition("/")[2]) for name in marks if name.startswith("acknowledged/")}
    if acknowledged - set(numbers):
        findings.append(f"acknowledged entries are missing: {acknowledged - set(numbers)}")
    for number, before, each in zip(numbers, [-1, *numbers], new_entries, strict=False):
        if each.dropped - (number - before - 1) not in {0, int(may_overcount)}:
            findings.append(
                f"{number - before - 1} missing before entry {number}, which counts {each.dropped}"
            )
    return findings


def _is_torn(piece: Malformed) -> bool:
    """Return whether the piece is the beginning of an entry, as an interrupted write leaves it."""
    begins = '{"timestamp":"2'
    return piece.text.startswith(begins[: len(piece.text)])


def _find_positions(entries: list[Entry]) -> list[int] | None:
    """Return the position of each entry in EXPECTED; None if one does not fit."""
    numbers, rest = [], iter(enumerate(EXPECTED))
    for phases in list_phases(entries):
        number = next((number for number, each in rest if each == phases), None)
        if number is None:
            return None
        numbers.append(number)
    return numbers


def _check_next_writer(directory: Path, append: Append) -> list[str]:
    """Check that the next writer keeps all entries, and that the exit helper repairs an array."""
    before = [piece for piece in read_record(directory) if isinstance(piece, Entry)]
    added = entry("service start", 100, recorder="python/0.1.0")
    if not Records(directory / "records").writer("service").append(added):
        return ["the next writer could not write"]
    if [piece for piece in read_record(directory) if isinstance(piece, Entry)] != [*before, added]:
        return ["the next writer changed earlier entries"]
    if append.layout != "array":
        return []
    try:
        elements = read_after_exit_helper(directory)
    except (AssertionError, ValueError) as error:
        return [f"the exit helper did not repair the array: {error}"]
    if elements != [each.to_json() for each in (*before, added)]:
        return ["the exit helper changed entries"]
    return []


def remove_here_documents(start: float) -> None:
    """Remove here-documents that were left since `start` by bash processes that were killed or could not
    unlink them.
    """
    for path in Path("/dev/shm").glob("sh-thd.*"):
        with suppress(FileNotFoundError):
            if start < path.stat().st_mtime < time.time() - _LEFTOVER_SECONDS:
                path.unlink()


def torture(append: Append, limit: int | None = None, deadline: Deadline | None = None) -> Tally:
    """Try every fault of an append, at most `limit` of them, until the deadline."""
    faults = list_faults(append)
    start = time.time()
    cases, findings = sum_verdicts(judge_in_parallel(partial(judge, append), sample(faults, limit), deadline))
    remove_here_documents(start)
    return Tally(
        target=str(append),
        calls=len({(fault.call, fault.number) for fault in faults}),
        faults=2 * len(ERRORS) + 1,
        cases=cases,
        all_cases=len(faults),
        findings=findings,
    )

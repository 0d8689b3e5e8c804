"""One append, by the shell and by Python, in both layouts, with each of its system calls made to fail.

Whatever fails, and however often: the service runs on, prints nothing and ends as it would; of its record,
what was there before is unchanged, every acknowledged entry is whole, those that are missing are counted, and
nothing is there that nobody wrote. The next writer finds a record that it can go on with.
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
    Ended,
    Fault,
    faults_between,
    injected,
    marks,
    run_traced,
)
from tests.torture.tally import Tally, Until, at_once, sample, summed

BEFORE: Final = failed_run("earlier")
LATER: Final = "later"
LIFTED: Final = "TORTURE_LIFTED"
"""In the environment of a service that does away with a limit of file size behind the append that is hit."""
_STATUS: Final = 3
_SETTLED_SECONDS: Final = 2
"""After which a here-document is nobody's: bash unlinks it as soon as it is open."""
_KILLED: Final = -9
_TOOK_TOO_LONG: Final = "+++ exited with 124 +++"
"""In a trace, where the shim gave a program up.

bash makes two system calls for each byte that it reads within a time limit, and strace stops at each of them.
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
  [[ ! ${{{LIFTED}-}} ]] || ulimit -S -f unlimited
  record_service_stage_start two
  record_service_stage_success
  [[ ! -e {MARKS}{LATER} ]]
  exit {_STATUS}
}}
"""
"""In braces, so that bash has read it all before a read can fail; that of `ready` is the first of all."""

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
        if os.environ.get("{LIFTED}"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if written:
        mark(f"acknowledged/{{number}}")
mark("{LATER}")
sys.exit({_STATUS})
"""
STORY: Final = (
    ("service start", None),
    ("stage start", "one"),
    ("stage end", "one"),
    ("stage start", "two"),
    ("stage end", "two"),
    ("service end", None),
)
"""Entries of the service: phase and stage of each."""


_NO_REDIRECTION: Final = re.compile(
    rb"^\S+: line \d+: (/dev/null|\d+|(mapfile|read): \d+: invalid file descriptor|read: read error: \d+"
    rb"|/proc/(uptime|self/\w+)|\S+/records/\S+|cannot create temp file for here-document)"
    rb": [A-Z][a-zI/ -]+\n",
    re.MULTILINE,
)
"""Messages of bash where a file cannot be opened or read.

To silence them, the shim would have to redirect the service's stderr in each of its reads. The service's EXIT
trap would lose what it prints when a signal ends the service in one.
"""


@dataclass(frozen=True, slots=True)
class Append:
    """One append by one writer in one layout."""

    writer: str
    layout: str

    def prepare(self, directory: Path) -> None:
        """Put a record with earlier entries there, and the service."""
        lines = b"".join(each.to_line() for each in BEFORE)
        write_record(directory, our_array(*BEFORE) if self.layout == "array" else lines)
        directory.joinpath("shim.sh").symlink_to(SHIM)
        directory.joinpath("service").write_text(SCRIPT if self.writer == "shell" else PROGRAM)

    def run(
        self,
        directory: Path,
        options: Sequence[str] = (),
        when_ready: Callable[[int], object] = lambda _process: None,
        **more: str,
    ) -> Ended:
        """Run the service; `more` is in its environment besides. Raises TimeoutExpired when it hangs."""
        program = bashes()[0].path if self.writer == "shell" else sys.executable
        plain = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        variables = environment(directory) | plain | {"SERVICE_RECORDS_LAYOUT": self.layout} | more
        trace = directory / "trace"
        return run_traced([program, "service"], directory, variables, trace, options, when_ready=when_ready)

    def __str__(self) -> str:
        return f"one append, {self.writer}, {self.layout}"


APPENDS: Final = tuple(
    Append(writer, layout) for layout in ("lines", "array") for writer in ("shell", "python")
)


def faults_of(append: Append) -> list[Fault]:
    """All there are, as one run without any shows them."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        ended = append.run(directory, ("-y",))
        assert ended == Ended(_STATUS, b""), ended
        assert story(read(directory)[len(BEFORE) :]) == list(STORY)
        return faults_between(directory / "trace", RETRIED[append.writer])


def judged(append: Append, fault: Fault) -> tuple[bool, list[str]]:
    """Return whether the fault came about, and the faults after it."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        append.prepare(directory)
        trace = directory / "trace"
        try:
            ended = append.run(directory, fault.options)
        except TimeoutExpired:
            return True, [f"{append}, {fault}: the service hangs"]
        wrong = wrong_after(
            append, directory, ended, may_be_killed=fault.what == KILL, is_doubtful=fault.call == CLOSE
        )
        return injected(trace, fault), [f"{append}, {fault}: {each}" for each in wrong]


def wrong_after(
    append: Append, directory: Path, ended: Ended, *, may_be_killed: bool = False, is_doubtful: bool = False
) -> list[str]:
    """Return the faults of the service and its record after this end, and after another one has written.

    In doubt an entry may be counted as missing that is there: a file system that fails to close a file may
    not have kept what was written to it, and a program that looks may take too long on a busy machine.
    """
    trace = directory / "trace"
    seen, took_too_long = marks(trace), _TOOK_TOO_LONG in trace.read_text()
    return [
        *_harm(ended, seen, may_be_killed=may_be_killed),
        *_record_faults(directory, seen, ended, is_doubtful=is_doubtful or took_too_long),
        *_follow_up(directory, append),
    ]


def read(directory: Path) -> list[Entry | Malformed]:
    return list(read_entries(BytesIO(record_path(directory).read_bytes())))


def story(pieces: Sequence[Entry | Malformed]) -> list[tuple[str, str | None]]:
    """Phase and stage of each entry."""
    return [(str(piece.phase), piece.stage) for piece in pieces if isinstance(piece, Entry)]


def _could_not_redirect(ended: Ended) -> bool:
    """Return whether a call of the shim may not have run at all."""
    return _NO_REDIRECTION.search(ended.said) is not None


def _harm(ended: Ended, seen: list[str], *, may_be_killed: bool) -> list[str]:
    """Return the faults of what the service had. One that was killed itself has no more to say."""
    if may_be_killed and ended.status == _KILLED:
        return []
    wrong = []
    if ended.status != _STATUS:
        wrong.append(f"the service ended with {ended.status}")
    said = _NO_REDIRECTION.sub(b"", ended.said)
    if said and not (_could_not_redirect(ended) and said.startswith(b"service-record: ")):
        wrong.append(f"it said {said!r}")
    if LATER not in seen:
        wrong.append("its later stages did not run")
    return wrong


def _record_faults(directory: Path, seen: list[str], ended: Ended, *, is_doubtful: bool) -> list[str]:
    pieces = read(directory)
    entries = [piece for piece in pieces if isinstance(piece, Entry)]
    if entries[: len(BEFORE)] != BEFORE:
        return ["what was there before has changed"]
    own = entries[len(BEFORE) :]
    strange = [piece.text for piece in pieces if isinstance(piece, Malformed) and not _is_torn(piece)]
    wrong = [f"a piece that nobody wrote: {text!r}" for text in strange]
    if _could_not_redirect(ended):
        return wrong
    numbers = _numbers(own)
    if numbers is None:
        return [*wrong, f"entries that nobody wrote, or twice, or in another order: {story(own)}"]
    acknowledged = {int(name.partition("/")[2]) for name in seen if name.startswith("acknowledged/")}
    if acknowledged - set(numbers):
        wrong.append(f"acknowledged and not there: {acknowledged - set(numbers)}")
    for number, before, each in zip(numbers, [-1, *numbers], own, strict=False):
        if each.dropped - (number - before - 1) not in {0, int(is_doubtful)}:
            wrong.append(
                f"{number - before - 1} missing before entry {number}, which tells of {each.dropped}"
            )
    return wrong


def _is_torn(piece: Malformed) -> bool:
    """Return whether it is what a write that was cut short may leave."""
    begins = '{"timestamp":"2'
    return piece.text.startswith(begins[: len(piece.text)])


def _numbers(entries: list[Entry]) -> list[int] | None:
    """The place of each entry in the story; None where it does not fit."""
    numbers, rest = [], iter(enumerate(STORY))
    for told in story(entries):
        number = next((number for number, each in rest if each == told), None)
        if number is None:
            return None
        numbers.append(number)
    return numbers


def _follow_up(directory: Path, append: Append) -> list[str]:
    """A writer that comes later loses nothing of it, and the exit helper makes an array whole again."""
    before = [piece for piece in read(directory) if isinstance(piece, Entry)]
    last = entry("service start", 100, recorder="python/0.1.0")
    if not Records(directory / "records").writer("service").append(last):
        return ["the next writer could not write"]
    if [piece for piece in read(directory) if isinstance(piece, Entry)] != [*before, last]:
        return ["the next writer changed what was there"]
    if append.layout != "array":
        return []
    try:
        whole = read_after_exit_helper(directory)
    except (AssertionError, ValueError) as error:
        return [f"the exit helper did not repair the array: {error}"]
    if whole != [each.to_json() for each in (*before, last)]:
        return ["the exit helper changed what was there"]
    return []


def sweep(began: float) -> None:
    """Remove the here-documents of bash that was killed before it could, or that could not."""
    for left in Path("/dev/shm").glob("sh-thd.*"):
        with suppress(FileNotFoundError):
            if began < left.stat().st_mtime < time.time() - _SETTLED_SECONDS:
                left.unlink()


def tortured(append: Append, most: int | None = None, until: Until | None = None) -> Tally:
    """Every fault of an append, or as many of them as asked for, or as there is time for."""
    faults = faults_of(append)
    began = time.time()
    cases, findings = summed(at_once(partial(judged, append), sample(faults, most), until))
    sweep(began)
    return Tally(
        target=str(append),
        calls=len({(fault.call, fault.number) for fault in faults}),
        faults=2 * len(ERRORS) + 1,
        cases=cases,
        all_cases=len(faults),
        findings=findings,
    )

"""Read evidence from the running host: its journal, kernel, containers, network, disks and time.

All programs run at the same time with one deadline, so that `analyze` does not hang on a host in trouble.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Final

from service_record.diagnosis.judged_host import PROGRAMS_FILE, SOFTWARE
from service_record.read.host_table import HOST_FILES, HOST_LOGS, HOST_PROGRAMS
from service_record.record.appending import open_regular
from service_record.record.file_end import read_tail
from service_record.record.programs import Deadline, ProgramError, program_path, run

SECONDS: Final = 3.0  # for all programs and files together
_MAX_OUTPUT_BYTES: Final = 4 << 20  # of one program
_MAX_TAIL_BYTES: Final = 256 << 10  # of one file, counted from its end
_MAX_FILES: Final = 200
_MAX_UNITS: Final = 20
_JOURNAL: Final = ("journalctl", "--quiet", "--no-pager", "--output=short-iso-precise")
JOURNAL_LINES: Final = 10_000
BRIEF_JOURNAL_LINES: Final = 3_000
"""For answers within 0.3 s: on a busy host, 10,000 lines would take half of this time."""
_PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    # Read systemd's own lines separately: the latest lines may all be from a program that floods the journal.
    "journalctl --boot _PID=1": (*_JOURNAL, "--boot", "--lines=4000", "_PID=1"),
    "boot-1.log": (*_JOURNAL, "--boot=-1", "--lines=500"),
    **HOST_PROGRAMS,
}
"""Name -> command. `log_lines.classify_file` determines the kind of the lines by the name."""
_FILES: Final = (*HOST_FILES.values(), *(pattern for logs in HOST_LOGS.values() for pattern in logs.patterns))


def live_contents(
    units: Sequence[str] = (), seconds: float = SECONDS, journal_lines: int = JOURNAL_LINES
) -> Iterator[tuple[str, bytes]]:
    """Start the programs, and return an iterator of the host's files and outputs as (name, content).

    The latest journal lines of `units` are read separately, because other programs may flood the journal.
    A program that still runs after `seconds` is stopped, and its output is left out.
    """
    deadline = Deadline(seconds)
    programs = {"journalctl --boot": (*_JOURNAL, "--boot", f"--lines={journal_lines}"), **_PROGRAMS}
    if units:
        of_units = (f"--unit={unit}" for unit in units[:_MAX_UNITS])
        programs["journalctl --unit"] = (*_JOURNAL, "--boot", "--lines=2000", *of_units)
    environ = _environment()
    pool = ThreadPoolExecutor(len(programs))
    outputs = {name: pool.submit(_read_output, argv, environ, deadline) for name, argv in programs.items()}
    pool.shutdown(wait=False)  # each thread ends with its program
    return _contents(outputs, deadline)


def _contents(outputs: Mapping[str, Future[bytes]], deadline: Deadline) -> Iterator[tuple[str, bytes]]:
    yield PROGRAMS_FILE, "\n".join(_programs()).encode()
    yield from _files(deadline)
    for name, output in outputs.items():
        if data := output.result():
            yield name, data


def _read_output(command: Sequence[str], environ: Mapping[str, str], deadline: Deadline) -> bytes:
    """Return the end of a program's output; empty if it is not installed or does not end in time."""
    try:
        return run(command, environ, deadline, _MAX_OUTPUT_BYTES, keeps_end=True)[1]
    except ProgramError:
        return b""


def _programs() -> Iterator[str]:
    """Yield the names of installed programs of SOFTWARE, so that `analyze` suggests only such commands."""
    environ = _environment()
    for software in SOFTWARE.values():
        yield from (name for name in sorted(software.programs) if program_path(name, environ))


def _environment() -> dict[str, str]:
    """Return an environment whose PATH includes the directories of root's programs."""
    return {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"}


def _files(deadline: Deadline) -> Iterator[tuple[str, bytes]]:
    """Yield the end of each file in the order of `_FILES`, until the deadline."""
    paths = [path for pattern in _FILES for path in sorted(glob(pattern))[-_MAX_FILES:]]  # noqa: PTH207  # absolute
    for path in paths:
        if not deadline.seconds_left():
            return
        with suppress(OSError):
            yield path, read_file_end(Path(path))


def read_file_end(path: Path) -> bytes:
    """Return the end of a regular file. Raises OSError, also for other files: a named pipe would block."""
    descriptor = open_regular(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return b"".join(read_tail(descriptor, _MAX_TAIL_BYTES)[1])
    finally:
        os.close(descriptor)

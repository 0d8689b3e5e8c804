"""Programs for the concurrency tests that append entries: one in bash, one in Python."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from subprocess import Popen

from tests.shell.scripts import ROOT, SHIM, bashes, environment, kill_group

BASH = r"""
. "$SHIM"
long=$(printf '%0250d' 0)
exec 9>"$1.done"
for ((n = 0; n < $2; n += 2)); do
  name=$1-$n-${long:0:n % 200}
  record_service_stage_start "$name"
  printf '%s start\n' "$name" >&9
  if ((n % 50)); then record_service_stage_success; else record_service_stage_failure; fi
  printf '%s end\n' "$name" >&9
done
"""

PYTHON = r"""
import os, sys
from service_record.record.entry import Entry, Phase, Result
from service_record.record.directory import Records

name, count = sys.argv[1], int(sys.argv[2])
writer = Records(os.environ["SERVICE_RECORDS_DIR"]).writer("service")
done = os.open(f"{name}.done", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
for n in range(count):
    stage = f"{name}-{n - n % 2}"
    phase = Phase.STAGE_END if n % 2 else Phase.STAGE_START
    result = Result.FAILURE if n % 50 == 1 else None
    longest = int(os.environ["LONGEST_MESSAGE"])
    message = "m" * (n * 37 % longest if n % 50 else 3600)
    now = "2026-11-21T01:00:00.000Z"
    entry = Entry(
        timestamp=now, phase=phase, result=result, stage=stage, pid=os.getpid(), error_message=message
    )
    if writer.append(entry):
        os.write(done, f"{stage} {phase.split()[1]}\n".encode())
"""


def prepare(directory: Path) -> None:
    """Write both programs into the directory, and a `journalctl` that prints three kilobytes."""
    directory.joinpath("shim.sh").symlink_to(SHIM)
    directory.joinpath("writer.sh").write_text(BASH)
    directory.joinpath("writer.py").write_text(PYTHON)
    journalctl = directory / "journalctl"
    journalctl.write_text(f"#!/bin/sh\necho {'j' * 3000}\n")
    journalctl.chmod(0o755)


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the commands of a bash and a Python writer alternately, with each version of bash in turn."""
    for bash in cycle(bashes()):
        yield str(bash.path), "writer.sh"
        yield sys.executable, "writer.py"


@contextmanager
def writers(
    directory: Path,
    names: list[str],
    entries: int,
    layout: str = "lines",
    longest: int = 3700,
) -> Iterator[list[Popen[bytes]]]:
    """Run one writer for each name, bash and Python alternately, and kill them at the end.

    Each writer is the leader of a process group. Every 50th message of a Python writer has 3600 bytes; the
    others are shorter than `longest`.
    """
    surroundings = environment(directory)
    surroundings |= {"PATH": f"{directory}:{surroundings['PATH']}", "PYTHONPATH": str(ROOT)}
    surroundings |= {"INVOCATION_ID": "0123456789abcdef" * 2, "LONGEST_MESSAGE": str(longest)}
    surroundings |= {"SERVICE_RECORDS_LAYOUT": layout}
    running = [
        Popen([*command, name, str(entries)], cwd=directory, env=surroundings, start_new_session=True)
        for name, command in zip(names, islice(commands(), len(names)), strict=True)
    ]
    try:
        yield running
    finally:
        for process in running:
            kill_group(process.pid)
            process.wait()


def acknowledged(directory: Path) -> set[str]:
    """Return the entries that the writers reported as written: `STAGE start` or `STAGE end`."""
    texts = (path.read_text().rpartition("\n")[0] for path in directory.glob("*.done"))
    return {line for lines in texts for line in lines.splitlines()}


def await_first_entry(done: Path) -> None:
    """Wait until a writer has reported its first entry."""
    deadline = time.monotonic() + 60
    while not (done.exists() and done.stat().st_size):
        assert time.monotonic() < deadline, f"{done.name}: the writer has written nothing"
        time.sleep(0.002)

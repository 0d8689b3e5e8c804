"""The lock of an array: who cannot have it, or lacks a program, keeps the entry as a line."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.array_writers import (
    ARRAY,
    WRITERS,
    ArrayWriter,
    Json,
    damaged_of,
    each_writer,
    elements,
    held_lock,
    is_locked,
    put,
    record_of,
)
from tests.builders import failed_run
from tests.shell.scripts import ABSENT, SHIM, Bash, Completed, bashes, run_script
from tests.shell.services import needs_mount

ENTRIES = 10
PATIENCE_SECONDS = 2.0
"""How long a writer waits for the lock at first; after that in vain it is a twentieth."""

BEFORE = [each.to_json() for each in failed_run()]
CLOSED = b"[\n" + b",\n".join(each.to_line().rstrip() for each in failed_run()) + b"\n]\n"
SERVICE = """
. "$SHIM"
record_service_stage_start one
echo working
record_service_stage_failure
echo again >&2
exit 3
"""
HOLD_UNTIL_IT_GROWS = """
import fcntl, os, sys
record = open(sys.argv[1])
fcntl.flock(record, fcntl.LOCK_EX)
size = os.fstat(record.fileno()).st_size
print(flush=True)
while os.fstat(record.fileno()).st_size == size:
    pass
fcntl.flock(record, fcntl.LOCK_UN)
"""

each_bash = pytest.mark.parametrize("bash", bashes(), ids=str)


def parked_in(content: bytes) -> list[Json]:
    """The lines behind the array that stood in the file before."""
    assert content.startswith(CLOSED)
    return [json.loads(line) for line in content.removeprefix(CLOSED).split(b"\n") if line.strip()]


@each_writer
def test_without_the_lock_entries_are_kept_as_lines_and_only_the_first_waits_long(
    writer: ArrayWriter, tmp_path: Path
) -> None:
    with held_lock(put(tmp_path, CLOSED)):
        begun = time.monotonic()
        [*_, parked] = writer.append(tmp_path, ENTRIES)
        taken = time.monotonic() - begun
        assert is_locked(record_of(tmp_path))

    assert len(parked_in(parked)) == ENTRIES
    assert not any("dropped" in line for line in parked_in(parked))
    assert PATIENCE_SECONDS < taken < PATIENCE_SECONDS * (ENTRIES - 1)


@each_writer
def test_the_next_entry_after_the_holder_was_killed_takes_the_lines_in(
    writer: ArrayWriter, tmp_path: Path
) -> None:
    with held_lock(put(tmp_path, CLOSED)) as holder:
        [*_, parked] = writer.append(tmp_path, 3)
        holder.kill()
        holder.wait()
        for number, another in enumerate(WRITERS, start=1):
            [state] = another.append(tmp_path)
            assert elements(state)[:-number] == BEFORE + parked_in(parked)

    assert not damaged_of(tmp_path).exists()


@each_writer
def test_a_writer_that_gave_up_gets_the_lock_again(writer: ArrayWriter, tmp_path: Path) -> None:
    """The lock is free from the moment that the writer has parked its first entry."""
    put(tmp_path, CLOSED)
    command = [sys.executable, "-c", HOLD_UNTIL_IT_GROWS, str(record_of(tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        states = writer.append(tmp_path, 12)

    assert len(elements(states[-1])) == len(BEFORE) + 12


@each_bash
@needs_mount
@pytest.mark.parametrize(
    "missing", [["flock"], ["dd"], ["tail"], ["flock", "dd", "tail", "tr", "mkdir"]], ids=str
)
def test_without_a_program_entries_are_kept_as_lines_and_the_service_is_unharmed(
    bash: Bash, missing: Sequence[str], tmp_path: Path
) -> None:
    tmp_path.joinpath("with", "records").mkdir(parents=True)
    tmp_path.joinpath("without").mkdir()
    record = tmp_path / "with" / "records" / "service.json"
    record.write_bytes(CLOSED)

    recorded = run_without(missing, bash, tmp_path / "with", SHIM)

    assert recorded.behaviour == run_without(missing, bash, tmp_path / "without", ABSENT).behaviour
    phases = [line["phase"] for line in parked_in(record.read_bytes())]
    assert phases == ["service start", "stage start", "stage end", "service end"]


@each_bash
@needs_mount
def test_what_was_kept_without_a_program_is_taken_in_once_it_is_there(bash: Bash, tmp_path: Path) -> None:
    put(tmp_path, CLOSED)
    run_without(["flock"], bash, tmp_path, SHIM)

    for number, writer in enumerate(WRITERS, start=1):
        assert len(elements(writer.append(tmp_path)[0])) == len(BEFORE) + 4 + number


@each_bash
@needs_mount
@pytest.mark.parametrize("program", ["flock", "tail", "dd"])
@pytest.mark.parametrize("signal", ["KILL", "SEGV", "TERM"])
def test_a_program_that_is_killed_harms_no_service(
    bash: Bash, program: str, signal: str, tmp_path: Path
) -> None:
    tmp_path.joinpath("without").mkdir()
    killed = tmp_path / "killed"
    killed.write_text(f"#!/bin/sh\nkill -{signal} $$\n")
    killed.chmod(0o755)
    record = put(tmp_path, CLOSED)

    recorded = run_without([program], bash, tmp_path, SHIM, instead=killed)

    unrecorded = run_without([program], bash, tmp_path / "without", ABSENT, instead=killed)
    assert recorded.behaviour == unrecorded.behaviour
    phases = [line["phase"] for line in parked_in(record.read_bytes())]
    assert phases == ["service start", "stage start", "stage end", "service end"]


def run_without(
    missing: Sequence[str], bash: Bash, directory: Path, shim: Path, instead: Path = Path("/dev/null")
) -> Completed:
    """Run the service where something else stands for these programs, whatever PATH says."""
    hide = 'for name in $1; do for at in /bin /usr/bin; do mount --bind "$2" "$at/$name"; done; done; '
    run = ("unshare", "-m", "sh", "-c", hide + 'shift 2; exec "$@"', "-", " ".join(missing), str(instead))
    return run_script(bash, SERVICE, directory, ARRAY, wrapper=run, shim=shim)

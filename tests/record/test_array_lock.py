"""The lock of an array: who cannot have it, or lacks a program, keeps the entry as a line."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.array_writers import (
    ARRAY,
    ArrayWriter,
    PythonWriter,
    damaged_path,
    each_writer,
    hold_lock,
    is_locked,
    read_after_exit_helper,
    read_appended_entries,
    read_elements,
    record_path,
    run_exit_helper,
    write_record,
)
from tests.builders import failed_run
from tests.shell.scripts import ABSENT, SHIM, Bash, Completed, bashes, run_script
from tests.shell.services import needs_mount

ENTRIES = 10
PATIENCE_SECONDS = 2.0
"""Time for which a writer waits for the lock, once."""

LONG = [*failed_run()] * 60
"""So many that the shim needs all of its programs."""
BEFORE = [each.to_json() for each in LONG]
CLOSED = b"[\n" + b",\n".join(each.to_line().rstrip() for each in LONG) + b"\n]\n"
SERVICE = """
. "$SHIM"
record_service_stage_start one
echo working
record_service_stage_failure
echo again >&2
exit 3
"""
each_bash = pytest.mark.parametrize("bash", bashes(), ids=str)


@each_writer
def test_only_first_entry_waits_long_for_lock(writer: ArrayWriter, tmp_path: Path) -> None:
    with hold_lock(write_record(tmp_path, CLOSED)):
        begun = time.monotonic()
        [*_, parked] = writer.append(tmp_path, ENTRIES)
        taken = time.monotonic() - begun
        assert is_locked(record_path(tmp_path))

    assert len(read_appended_entries(CLOSED, parked)) == ENTRIES
    assert not any("dropped" in line for line in read_appended_entries(CLOSED, parked))
    assert PATIENCE_SECONDS < taken < PATIENCE_SECONDS * 2.5


@each_writer
def test_exit_helper_inserts_lines_when_lock_is_free(writer: ArrayWriter, tmp_path: Path) -> None:
    with hold_lock(write_record(tmp_path, CLOSED)):
        [*_, parked] = writer.append(tmp_path, 3)

    assert read_after_exit_helper(tmp_path) == BEFORE + read_appended_entries(CLOSED, parked)
    assert not damaged_path(tmp_path).exists()


@each_bash
def test_lines_parked_during_wait_are_inserted(bash: Bash, tmp_path: Path) -> None:
    """Another service of that name may still record."""
    record = write_record(tmp_path, CLOSED)
    with hold_lock(record) as holder, ThreadPoolExecutor() as executor:
        helper = executor.submit(run_exit_helper, tmp_path, bash)
        while record.stat().st_size == len(CLOSED):  # until the helper has parked its own entry
            time.sleep(0.01)
        [*_, parked] = PythonWriter().append(tmp_path, 2)
        holder.kill()
        helper.result()

    own = read_appended_entries(CLOSED, parked)
    assert {each["phase"] for each in own} >= {"service start", "stage start"}
    found = read_elements(record.read_bytes())
    assert found[: len(BEFORE)] == BEFORE
    assert all(each in found for each in own)


@each_bash
@needs_mount
@pytest.mark.parametrize(
    "missing", [["flock"], ["dd", "tail"], ["flock", "dd", "tail", "tr", "mkdir"]], ids=str
)
def test_entries_are_parked_without_lock_program(bash: Bash, missing: Sequence[str], tmp_path: Path) -> None:
    tmp_path.joinpath("with", "records").mkdir(parents=True)
    tmp_path.joinpath("without").mkdir()
    record = tmp_path / "with" / "records" / "service.json"
    record.write_bytes(CLOSED)

    recorded = run_without(missing, bash, tmp_path / "with", SHIM)

    assert recorded.behaviour == run_without(missing, bash, tmp_path / "without", ABSENT).behaviour
    phases = [line["phase"] for line in read_appended_entries(CLOSED, record.read_bytes())]
    assert phases == ["service start", "stage start", "stage end", "service end"]


@each_bash
@needs_mount
def test_entries_parked_without_program_are_inserted_later(bash: Bash, tmp_path: Path) -> None:
    write_record(tmp_path, CLOSED)
    run_without(["flock"], bash, tmp_path, SHIM)

    assert len(read_after_exit_helper(tmp_path, bash)) == len(BEFORE) + 4


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
    record = write_record(tmp_path, CLOSED)

    recorded = run_without([program], bash, tmp_path, SHIM, instead=killed)

    unrecorded = run_without([program], bash, tmp_path / "without", ABSENT, instead=killed)
    assert recorded.behaviour == unrecorded.behaviour
    phases = [line["phase"] for line in read_appended_entries(CLOSED, record.read_bytes())]
    assert phases == ["service start", "stage start", "stage end", "service end"]


def run_without(
    missing: Sequence[str], bash: Bash, directory: Path, shim: Path, instead: Path = Path("/dev/null")
) -> Completed:
    """Run the service where something else stands for these programs, whatever PATH says."""
    hide = 'for name in $1; do for at in /bin /usr/bin; do mount --bind "$2" "$at/$name"; done; done; '
    run = ("unshare", "-m", "sh", "-c", hide + 'shift 2; exec "$@"', "-", " ".join(missing), str(instead))
    return run_script(bash, SERVICE, directory, ARRAY, wrapper=run, shim=shim)

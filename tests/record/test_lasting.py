"""With SERVICE_RECORDS_SYNC=ends an end of a run, or a failure, is on the disk before the service goes on."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.scripts import ROOT, Bash, bashes, environment, run_script
from tests.shell.services import needs_strace

pytestmark = needs_strace

SCRIPT = """
. "$SHIM"
record_service_stage_start one
record_service_stage_success
record_service_stage_start two
record_service_stage_failure
echo done >>done
"""
PROGRAM = """
from service_record import service, stage
with service("service"):
    with stage("one"):
        pass
    try:
        with stage("two"):
            raise OSError("no route to host")
    except OSError:
        open("done", "w").write("done")
"""
STRACE = ("strace", "-f", "-qq", "-y", "-s", "9999", "-e", "trace=write,pwrite64,fsync", "-o", "trace")
CALL = re.compile(r"^\d+ +(write|pwrite64|fsync)\(\d+<([^>]*)>(.*)", re.MULTILINE)
ENTRY = re.compile(r'\\"phase\\":\\"(\w+ \w+)\\"(?:,\\"result\\":\\"(\w+)\\")?')

LASTING = [
    *("service start", "stage start", "stage end success", "stage start", "stage end failure"),
    *("sync record", "sync its directory", "done", "service end success"),
    *("sync record", "sync its directory"),
]


def steps(directory: Path) -> Iterator[str]:
    """Yield the writes and syncs, in their order, from the trace in the directory."""
    synced = {directory / "records/service.json": "sync record", directory / "records": "sync its directory"}
    for call, name, rest in CALL.findall((directory / "trace").read_text()):
        if call == "fsync":
            yield synced.get(Path(name), name)
        elif Path(name) == directory / "done":
            yield "done"
        elif Path(name).name == "service.json" and (entry := ENTRY.search(rest)):
            yield " ".join(filter(None, entry.groups()))


@pytest.mark.parametrize("layout", ["lines", "array"])
@pytest.mark.parametrize("bash", bashes(), ids=str)
def test_the_shim_syncs_ends_and_failures(bash: Bash, layout: str, tmp_path: Path) -> None:
    asked = {"SERVICE_RECORDS_LAYOUT": layout, "SERVICE_RECORDS_SYNC": "ends"}

    completed = run_script(bash, SCRIPT, tmp_path, asked, wrapper=STRACE)

    assert (completed.returncode, completed.stdout, completed.stderr) == (0, b"", b"")
    assert list(steps(tmp_path)) == LASTING


@pytest.mark.parametrize("layout", ["lines", "array"])
def test_the_library_syncs_ends_and_failures(layout: str, tmp_path: Path) -> None:
    asked = {"SERVICE_RECORDS_LAYOUT": layout, "SERVICE_RECORDS_SYNC": "ends", "PYTHONPATH": str(ROOT)}

    command = [*STRACE, sys.executable, "-c", PROGRAM]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path) | asked, check=True)

    assert list(steps(tmp_path)) == LASTING


@pytest.mark.parametrize("asked", ["", "all", "1"])
def test_nothing_is_synced_by_default(asked: str, tmp_path: Path) -> None:
    variables = environment(tmp_path) | {"SERVICE_RECORDS_SYNC": asked, "PYTHONPATH": str(ROOT)}
    unsynced = [step for step in LASTING if not step.startswith("sync")]

    run_script(bashes()[0], SCRIPT, tmp_path, {"SERVICE_RECORDS_SYNC": asked}, wrapper=STRACE)
    assert list(steps(tmp_path)) == unsynced

    subprocess.run([*STRACE, sys.executable, "-c", PROGRAM], cwd=tmp_path, env=variables, check=True)
    assert list(steps(tmp_path)) == unsynced


@pytest.mark.slow
def test_hanging_disk_delays_shell_five_seconds(tmp_path: Path) -> None:
    """The program that waits for it may wait on."""
    script = '"$BASH" -c \'. "$SHIM"\'\necho "$SECONDS" >ended\n'
    slow = ("strace", "-f", "-qq", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=8s", "-o", "trace")

    completed = run_script(bashes()[0], script, tmp_path, {"SERVICE_RECORDS_SYNC": "ends"}, wrapper=slow)

    assert completed.returncode == 0
    assert 4 <= int((tmp_path / "ended").read_text()) < 8
    assert [entry["phase"] for entry in completed.entries] == ["service start", "service end"]


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_failing_sync_harms_no_service(error: str, tmp_path: Path) -> None:
    failing = ("strace", "-f", "-qq", "-e", "trace=fsync", "-e", f"inject=fsync:error={error}", "-o", "trace")
    variables = environment(tmp_path) | {"SERVICE_RECORDS_SYNC": "ends", "PYTHONPATH": str(ROOT)}

    shell = run_script(bashes()[0], SCRIPT, tmp_path, {"SERVICE_RECORDS_SYNC": "ends"}, wrapper=failing)
    library = subprocess.run(
        [*failing, sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        check=True,
    )

    assert (shell.returncode, shell.stdout, shell.stderr) == (0, b"", b"")
    assert library.stdout + library.stderr == b""
    assert not any("dropped" in entry for entry in shell.entries)

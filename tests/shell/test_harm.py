"""First, do no harm: when nothing can be written, the service prints and ends as it does without the shim."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.shell.scripts import ABSENT, SHIM, Bash, Completed, bashes, read_record, run_script
from tests.shell.services import (
    OBSTACLES,
    SERVICES,
    STAGES,
    assert_unharmed,
    needs_mount,
    needs_strace,
    run_without_shim,
)

FAILING_WRITES = {
    f"{service}-{error}-{bash}": (bash, SERVICES[service], error)
    for bash in bashes()
    for error in ("ENOSPC", "EIO", "EROFS", "EINTR")
    for service in (SERVICES if error == "ENOSPC" and bash == bashes()[0] else ("healthy", "failing"))
}
"""Every error in two services, and in all under one bash: `make torture` has every error of every call."""

each_bash = pytest.mark.parametrize("bash", bashes(), ids=str)
each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def assert_whole(completed: Completed, torn: int = 0) -> None:
    """No line is damaged, but for what failed writes have left of their entries."""
    assert len(completed.damaged) <= torn
    assert all(piece.startswith(b'{"timestamp":"'[: len(piece)]) for piece in completed.damaged)


@each_bash
@each_service
@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES)
def test_obstacle_in_place_of_record_is_harmless(
    bash: Bash, service: str, obstacle: Callable[[Path], None], tmp_path: Path
) -> None:
    obstacle(tmp_path / "records")

    assert_unharmed(run_script(bash, service, tmp_path), run_without_shim(bash, service))
    assert not (tmp_path / "outside").exists()


@each_bash
@each_service
@pytest.mark.parametrize("limit", ["-f 0", "-f 1", "-S -f 0", "-n 5", "-n 8", "-n 11", "-n 12", "-n 13"])
def test_shell_limits_are_harmless(bash: Bash, service: str, limit: str, tmp_path: Path) -> None:
    limited = f"ulimit {limit}\n{service}"

    recorded = run_script(bash, limited, tmp_path)

    assert_unharmed(recorded, run_without_shim(bash, limited))
    assert_whole(recorded, torn=1)


@each_bash
@each_service
def test_service_without_descriptors_continues(bash: Bash, service: str, tmp_path: Path) -> None:
    """With four, bash itself cannot redirect, and says so: neither can the shim hide what bash says."""
    limited = f"ulimit -n 4\n{service}"

    recorded = run_script(bash, limited, tmp_path)
    without = run_without_shim(bash, limited)

    assert (recorded.returncode, recorded.stdout) == (without.returncode, without.stdout)


@each_bash
@each_service
@needs_mount
@pytest.mark.parametrize("entries", range(6))
def test_full_file_system_is_harmless(bash: Bash, service: str, entries: int, tmp_path: Path) -> None:
    """The file's last block has room for so many entries of some 300 bytes; the next is torn."""
    room = 300 * entries + 10

    recorded = run_on_a_full_file_system(bash, service, tmp_path, room)

    assert_unharmed(recorded, ended_without_on_a_full_file_system(bash, service))
    assert_whole(recorded, torn=6)


@each_bash
@needs_mount
def test_entries_lost_to_full_disk_are_counted(bash: Bash, tmp_path: Path) -> None:
    fill = 'head -c 4096 /dev/zero >>"records/service.json" 2>/dev/null\n'
    lost = "record_service_stage_start lost\nrecord_service_stage_success\nrm records/ballast\n"

    recorded = run_on_a_full_file_system(bash, STAGES + fill + lost, tmp_path, 1000)

    assert [entry.get("dropped") for entry in recorded.entries] == [None, None, None, 2]
    assert recorded.entries[-1]["phase"] == "service end"


def run_on_a_full_file_system(
    bash: Bash, service: str, directory: Path, room: int, shim: Path = SHIM
) -> Completed:
    """Run a service whose record is on a file system of its own that has so many bytes left."""
    directory.joinpath("records").mkdir()
    fill = (
        "mount -t tmpfs -o size=8k tmpfs records && head -c 4096 /dev/zero >records/ballast && "
        r'head -c "$1" /dev/zero | tr "\0" "\n" >records/service.json && shift && "$@"; '
        "status=$?; cp records/service.json kept.json; exit $status"
    )
    wrapper = ("unshare", "-m", "sh", "-c", fill, "-", str(4096 - room))
    ended = run_script(bash, service, directory, wrapper=wrapper, shim=shim)
    entries, damaged = read_record(directory / "kept.json")
    return replace(ended, entries=entries, damaged=damaged)


@cache
def ended_without_on_a_full_file_system(bash: Bash, service: str) -> Completed:
    """Return how a service runs there without the shim, which does not depend on the room."""
    with TemporaryDirectory() as directory:
        return run_on_a_full_file_system(bash, service, Path(directory), 0, shim=ABSENT)


@needs_strace
@pytest.mark.parametrize(("bash", "service", "error"), FAILING_WRITES.values(), ids=FAILING_WRITES)
def test_failed_write_is_harmless(bash: Bash, service: str, error: str, tmp_path: Path) -> None:
    """Each write to the record in turn fails, alone and with all that follow, until a run makes fewer."""
    for turn in count(1):
        alone, failed = run_with_failing_writes(bash, service, tmp_path / f"{turn}", f"{error}:when={turn}")
        following, _ = run_with_failing_writes(bash, service, tmp_path / f"{turn}+", f"{error}:when={turn}+")
        if not failed:
            return

        for recorded in alone, following:
            assert_unharmed(recorded, run_without_shim(bash, service))
            assert_whole(recorded)
        assert len(following.entries) == turn - 1
        assert [entry.get("dropped", 0) for entry in alone.entries[turn - 1 : turn]] in ([1], [])


def run_with_failing_writes(bash: Bash, service: str, directory: Path, failure: str) -> tuple[Completed, int]:
    """Run a service whose writes to its record fail as said; return how often that was, too."""
    directory.mkdir()
    only = ("-P", str(directory / "records" / "service.json"), "-e", "trace=write")
    strace = (
        "strace",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-o",
        str(directory / "trace"),
        *only,
        "-e",
        f"inject=write:error={failure}",
    )
    recorded = run_script(bash, service, directory, wrapper=strace)
    return recorded, directory.joinpath("trace").read_text().count("(INJECTED)")

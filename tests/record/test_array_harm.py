"""First, do no harm, in the array layout: it runs programs, and yet a service is as without it."""

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from service_record.record.entry import Entry
from service_record.record.layout import read_entries
from tests.array_writers import (
    ARRAY,
    Json,
    damaged_path,
    read_elements,
    record_path,
    run_exit_helper,
    write_record,
)
from tests.builders import failed_run
from tests.shell.scripts import Bash, Completed, bashes, run_script
from tests.shell.services import (
    LAST_STAGE,
    OBSTACLES,
    SERVICES,
    STAGES,
    STRICT,
    assert_unharmed,
    needs_mount,
    run_without_shim,
)

AROUND_PROGRAMS = {
    "with descriptors 3 and 4": "exec 3>three 4>four\n" + STAGES + "echo a >&3; echo b >&4; cat three four\n",
    "without standard input": "exec 0<&-\n" + STRICT + STAGES + LAST_STAGE + "exit 3\n",
    "without any standard descriptor": "exec 0<&- 1>&- 2>&-\n" + STAGES + LAST_STAGE + "exit 3\n",
    "with functions named like programs": "dd() { echo mine; }; tail() { dd; }; flock() { dd; }\n"
    "command() { tail; }; printf() { dd; }; read() { dd; }; mapfile() { dd; }; umask() { dd; }\n"
    + STAGES
    + LAST_STAGE
    + "command; printf; exit 3\n",
    "with children": STAGES
    + "sleep 0.01 & child=$!\n"
    + LAST_STAGE
    + '[[ $! == "$child" ]] && echo same; wait -n; record_service_stage_failure; wait; exit 5\n',
    "with job control": "set -m\n" + STAGES + LAST_STAGE + "record_service_stage_success; exit 3\n",
    "with noclobber": "set -C\n" + STRICT + STAGES + LAST_STAGE + "umask; exit 3\n",
    "with an own umask": "umask 077\n"
    + STAGES
    + LAST_STAGE
    + "umask; ls -d TMPDIR 2>&1; echo ${TMPDIR-none}\n",
    "with pipes that break": "set -o pipefail\n"
    + STAGES
    + "yes | head -1; echo ${PIPESTATUS[*]}\n"
    + LAST_STAGE,
}
SOME = ["healthy and strict", "failing", "stopped", "with an EXIT trap", "with an ERR trap", "misusing"]
ALL = SERVICES | AROUND_PROGRAMS

BEFORE = [each.to_json() for each in failed_run()]
CLOSED = b"[\n" + b",\n".join(each.to_line().rstrip() for each in failed_run()) + b"\n]\n"

each_bash = pytest.mark.parametrize("bash", bashes(), ids=str)
each_service = pytest.mark.parametrize("service", ALL.values(), ids=ALL)
some_services = pytest.mark.parametrize("service", [SERVICES[name] for name in SOME], ids=SOME)
two_services = pytest.mark.parametrize("service", [SERVICES[name] for name in SOME[:2]], ids=SOME[:2])


def read_fifo(path: Path) -> None:
    """With a reader that stays, so that a writer could open it."""
    os.mkfifo(path)
    os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def link_outside(path: Path) -> None:
    path.symlink_to("../outside")


each_obstacle = pytest.mark.parametrize("obstacle", [Path.mkdir, os.mkfifo, read_fifo, link_outside])


def run(bash: Bash, service: str, directory: Path, wrapper: tuple[str, ...] = ()) -> Completed:
    return run_script(bash, service, directory, ARRAY, wrapper=wrapper)


def readable(content: bytes) -> list[Json]:
    """The entries of an array that may have lines behind it; nothing else may be there."""
    pieces = list(read_entries(BytesIO(content)))
    assert all(isinstance(piece, Entry) for piece in pieces), pieces
    return [piece.to_json() for piece in pieces if isinstance(piece, Entry)]


@each_bash
@each_service
def test_array_recording_does_not_change_the_service(bash: Bash, service: str, tmp_path: Path) -> None:
    recorded = run(bash, service, tmp_path)

    assert_unharmed(recorded, run_without_shim(bash, service))
    entries = read_elements(record_path(tmp_path).read_bytes())
    assert entries[-1]["phase"] == "service end"
    assert not any("dropped" in each for each in entries)


@each_bash
@some_services
@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES)
def test_obstacle_instead_of_record_harms_no_service(
    bash: Bash, service: str, obstacle: Callable[[Path], None], tmp_path: Path
) -> None:
    obstacle(tmp_path / "records")

    assert_unharmed(run(bash, service, tmp_path), run_without_shim(bash, service))
    assert not (tmp_path / "outside").exists()


@each_bash
@each_obstacle
def test_what_cannot_be_copied_is_not_written_over(
    bash: Bash, obstacle: Callable[[Path], None], tmp_path: Path
) -> None:
    write_record(tmp_path, CLOSED + b"torn")
    obstacle(damaged_path(tmp_path))

    run_exit_helper(tmp_path, bash)

    assert record_path(tmp_path).read_bytes().startswith(CLOSED + b"torn")
    assert not (tmp_path / "outside").exists()


@each_bash
@some_services
@pytest.mark.parametrize(
    "limit", ["-f 0", "-f 1", "-f 2", "-f 4", "-S -f 3", "-n 5", "-n 6", "-n 8", "-n 12"]
)
def test_shell_limits_are_harmless(bash: Bash, service: str, limit: str, tmp_path: Path) -> None:
    limited = f"ulimit {limit}\n{service}"

    recorded = run(bash, limited, tmp_path)

    assert_unharmed(recorded, run_without_shim(bash, limited))
    if record_path(tmp_path).exists():
        readable(record_path(tmp_path).read_bytes())


@each_bash
@two_services
@needs_mount
@pytest.mark.parametrize("left", [0, 1, 300, 1000, 1500, 2500, 3500])
def test_array_stays_closed_on_a_full_disk(bash: Bash, service: str, left: int, tmp_path: Path) -> None:
    """The last block of the file has so many bytes left."""
    before = CLOSED.rstrip() + b" " * (4095 - left - len(CLOSED.rstrip())) + b"\n"

    recorded, content = run_on_a_full_file_system(bash, service, tmp_path, before)

    assert_unharmed(recorded, run_without_shim(bash, service))
    assert read_elements(content)[: len(BEFORE)] == BEFORE


@each_bash
@needs_mount
def test_entries_lost_to_full_disk_are_counted(bash: Bash, tmp_path: Path) -> None:
    many = "for n in {1..20}; do record_service_stage_start $n; record_service_stage_success; done\n"
    then = "cat records/service.json >full.json; rm records/ballast\n"

    _, content = run_on_a_full_file_system(bash, STAGES + many + then, tmp_path, b"")

    full = read_elements(tmp_path.joinpath("full.json").read_bytes())
    assert read_elements(content)[:-1] == full
    assert read_elements(content)[-1]["phase"] == "service end"
    assert read_elements(content)[-1]["dropped"] == 3 + 40 - len(full) > 10


def run_on_a_full_file_system(
    bash: Bash, service: str, directory: Path, content: bytes
) -> tuple[Completed, bytes]:
    """Run a service whose record has the one block that is left; what the record holds afterwards, too."""
    directory.joinpath("records").mkdir()
    directory.joinpath("before.json").write_bytes(content)
    fill = (
        "mount -t tmpfs -o size=8k tmpfs records && head -c 4096 /dev/zero >records/ballast && "
        'cat before.json >records/service.json && "$@"; '
        "status=$?; cat records/service.json >kept.json; exit $status"
    )
    ended = run(bash, service, directory, wrapper=("unshare", "-m", "sh", "-c", fill, "-"))
    return ended, directory.joinpath("kept.json").read_bytes()


@each_bash
def test_only_a_trap_for_children_sees_the_programs(bash: Bash, tmp_path: Path) -> None:
    """The exception that docs/shell-guarantees.md names. In bash 4.4, not even that trap sees them."""
    service = "trap 'echo \"a child\"' CHLD\n" + STAGES

    recorded = run(bash, service, tmp_path)

    assert recorded.returncode == 0
    seen = set() if bash.version.startswith("4.") else {b"a child"}
    assert set(recorded.stdout.splitlines()) == {b"working"} | seen
    assert recorded.stderr == b""
    assert len(read_elements(record_path(tmp_path).read_bytes())) == 4

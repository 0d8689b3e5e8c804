"""Scripts that must behave the same with and without the shim, and obstacles to writing their records."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.shell.scripts import ABSENT, Bash, Completed, run_script

STRICT = "set -euoE pipefail\n"
STAGES = '. "$SHIM"\nrecord_service_stage_start one\necho working\nrecord_service_stage_success\n'
LAST_STAGE = "record_service_stage_start two\necho again >&2\n"

SERVICES = {
    "healthy": STAGES + LAST_STAGE + "record_service_stage_success\n",
    "healthy and strict": STRICT + STAGES + LAST_STAGE + "record_service_stage_success\n",
    "failing": STRICT + STAGES + LAST_STAGE + "test -e /nowhere\n",
    "exiting": STRICT + STAGES + LAST_STAGE + "exit 3\n",
    "stopped": STAGES + LAST_STAGE + "kill -TERM $$\nsleep 3\n",
    "with a failed stage": STRICT + STAGES + LAST_STAGE + "record_service_stage_failure\n",
    "with an EXIT trap": STRICT + "trap 'echo \"leaving $?\"' EXIT\n" + STAGES + LAST_STAGE + "(exit 4)\n",
    "with an ERR trap": STRICT + "trap 'echo \"failed $?\"' ERR\n" + STAGES + LAST_STAGE + "(exit 5)\n",
    "misusing": STRICT
    + STAGES.replace("record_service_stage_success", "")
    + "record_service_stage_success\n",
    "in POSIX mode": "set -o posix\n" + STRICT + STAGES + LAST_STAGE + "exit 3\n",
}

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
needs_mount = pytest.mark.skipif(
    subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="a mount namespace of its own takes root",
)


def read_only(records: Path) -> None:
    records.mkdir(mode=0o500)


def a_file_for_the_directory(records: Path) -> None:
    records.touch()


def a_dangling_link_for_the_directory(records: Path) -> None:
    records.symlink_to("nowhere/at/all")


def a_fifo(records: Path) -> None:
    records.mkdir()
    os.mkfifo(records / "service.json")


def a_directory(records: Path) -> None:
    (records / "service.json").mkdir(parents=True)


def a_link_to(target: str) -> Callable[[Path], None]:
    def link(records: Path) -> None:
        records.mkdir()
        (records / "service.json").symlink_to(target)

    return link


OBSTACLES: dict[str, Callable[[Path], None]] = {
    "a read-only directory": read_only,
    "a file for the directory": a_file_for_the_directory,
    "a dangling link for the directory": a_dangling_link_for_the_directory,
    "a FIFO": a_fifo,
    "a directory": a_directory,
    "a full device": a_link_to("/dev/full"),
    "a missing terminal": a_link_to("/dev/tty"),
    "a dangling link": a_link_to("nowhere/at/all"),
    "a link out of the directory": a_link_to("../outside"),
    "a link to itself": a_link_to("service.json"),
}


@cache
def run_without_shim(bash: Bash, service: str) -> Completed:
    """Run a service without the shim. The result is cached, as many tests compare with it."""
    with tempfile.TemporaryDirectory() as directory:
        return run_script(bash, service, Path(directory), shim=ABSENT)


def remove_misuse_messages(stderr: bytes) -> bytes:
    """Remove the lines in which the shim reports misuse, which it prints even if it cannot write."""
    return b"".join(
        line for line in stderr.splitlines(keepends=True) if not line.startswith(b"service-record: ")
    )


def assert_unharmed(recorded: Completed, without: Completed) -> None:
    """Check that output and exit status are the same."""
    assert recorded.stdout == without.stdout
    assert remove_misuse_messages(recorded.stderr) == without.stderr
    assert recorded.returncode == without.returncode

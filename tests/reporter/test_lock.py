"""One round at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from service_record.reporter.log import Log
from service_record.reporter.paths import Places
from service_record.reporter.stopping import HeldError, hold_lock, lock_rounds
from tests.builders import require
from tests.programs import REPOSITORY

HOLDING = """
import sys
from pathlib import Path
from service_record.reporter.stopping import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(directory: Path) -> "subprocess.Popen[bytes]":
    """A process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, directory],
        env={"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert require(process.stdout).readline() == b"held\n"
    return process


def test_second_round_does_not_wait(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        with pytest.raises(HeldError), hold_lock(tmp_path):
            pass
        first.communicate()


def test_killed_round_releases_the_lock(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.kill()
        first.wait()
        with hold_lock(tmp_path):
            pass


def test_waiting_process_gets_the_released_lock(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        require(first.stdin).close()
        with hold_lock(tmp_path, wait=60):
            pass


def test_lock_is_in_memory_if_disk_fails(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var/lib").symlink_to("/proc")  # nobody can create a directory there
    places = Places(tmp_path)
    with (tmp_path / "log").open("wb") as log, lock_rounds(places, say := Log(log.fileno(), False)):
        with pytest.raises(HeldError), lock_rounds(places, say):
            pass
        with pytest.raises(HeldError), hold_lock(places.volatile.state_directory):
            pass


def test_lock_creates_its_directory_and_no_file(tmp_path: Path) -> None:
    directory = tmp_path / "var/lib/service-record"
    with hold_lock(directory):
        assert list(directory.iterdir()) == []
    assert directory.stat().st_mode & 0o777 == 0o700

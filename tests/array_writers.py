"""One interface for the writers of the array layout (Python, and the shim under each bash), and its checks.

Every test with the parameter `each_writer` runs once for each writer.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from unittest import mock

import pytest

from service_record.record.directory import Records
from service_record.record.entry import Entry, Result
from service_record.record.layout import read_entries
from tests import builders
from tests.shell.scripts import SHIM, Bash, bashes, environment, run_script

Json: TypeAlias = dict[str, Any]

ARRAY = {"SERVICE_RECORDS_LAYOUT": "array"}
LINES = {"SERVICE_RECORDS_LAYOUT": "lines"}
NO_LAYOUT: Mapping[str, str] = {}

SHIM_PROGRAM = r"""
state() { cp "$SERVICE_RECORDS_DIR/service.json" "$1.state"; }
. "$SHIM"
state 1
for ((n = 2; n <= COUNT; n++)); do
  if ((n % 2)); then record_service_stage_failure; else record_service_stage_start "$STAGE"; fi
  state "$n"
done
kill -KILL $$
"""
LOCK_PROGRAM = """
import fcntl, sys
record = open(sys.argv[1])
fcntl.flock(record, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


class ArrayWriter(Protocol):
    """Appends entries to `records/service.json`: the service's start, then starts and ends of a stage."""

    def append(
        self,
        directory: Path,
        count: int = 1,
        *,
        stage: str = "one",
        message: str = "",
        layout: Mapping[str, str] = ARRAY,
    ) -> list[bytes]:
        """Append `count` entries with a new writer; return the content of the file after each entry."""


@dataclass(frozen=True, slots=True)
class PythonWriter:
    """Appends in this process, by `service_record.Records`."""

    def __str__(self) -> str:
        return "python"

    def append(
        self,
        directory: Path,
        count: int = 1,
        *,
        stage: str = "one",
        message: str = "",
        layout: Mapping[str, str] = ARRAY,
    ) -> list[bytes]:
        writer = Records(directory / "records").writer("service")
        start = builders.entry("service start", recorder="python/0.1.0")
        ends = [
            builders.entry("stage start", stage=stage),
            builders.entry("stage end", stage=stage, result=Result.FAILURE, error_message=message or None),
        ]
        states = []
        with mock.patch.dict(os.environ, layout):
            for number in range(count):
                assert writer.append(ends[(number - 1) % 2] if number else start)
                states.append(record_path(directory).read_bytes())
        return states


@dataclass(frozen=True, slots=True)
class ShimWriter:
    """Appends by a script that sources the shim. `options` are shell commands to run first."""

    bash: Bash
    options: str = ""

    def __str__(self) -> str:
        return f"{self.bash}{self.options and '-posix'}"

    def append(
        self,
        directory: Path,
        count: int = 1,
        *,
        stage: str = "one",
        message: str = "",
        layout: Mapping[str, str] = ARRAY,
    ) -> list[bytes]:
        place = Path(tempfile.mkdtemp(dir=directory, prefix="script-"))
        env = {"COUNT": str(count), "STAGE": stage, "SERVICE_RECORDS_DIR": str(directory / "records")}
        env |= {**add_journalctl(place, message), **layout}
        ended = run_script(self.bash, self.options + SHIM_PROGRAM, place, env)
        assert (ended.returncode, ended.stdout, ended.stderr) == (-9, b"", b"")
        return [place.joinpath(f"{number}.state").read_bytes() for number in range(1, count + 1)]


def add_journalctl(place: Path, message: str) -> dict[str, str]:
    """Write a `journalctl` that prints the message; return the variables that make the shim run it."""
    if not message:
        return {}
    place.joinpath("message").write_text(message)
    place.joinpath("journalctl").write_text(f"#!/bin/sh\ncat {place}/message\n")
    place.joinpath("journalctl").chmod(0o755)
    return {"PATH": f"{place}:{os.environ['PATH']}", "INVOCATION_ID": "1f" * 16}


WRITERS: list[ArrayWriter] = [
    PythonWriter(),
    *map(ShimWriter, bashes()),
    ShimWriter(bashes()[0], "set -o posix\n"),
]
each_writer = pytest.mark.parametrize("writer", WRITERS, ids=str)


def read_after_exit_helper(directory: Path, bash: Bash | None = None) -> list[Json]:
    """Run the exit helper; return the array's elements without the service's start and end, which it adds."""
    run_exit_helper(directory, bash)
    *others, start, end = read_elements(record_path(directory).read_bytes())
    assert [start["phase"], end["phase"]] == ["service start", "service end"]
    assert {start["invocationId"], end["invocationId"]} == {"2e" * 16}
    return others


def run_exit_helper(directory: Path, bash: Bash | None = None) -> None:
    """Run the exit helper as systemd does after a service without other entries."""
    variables = {"INVOCATION_ID": "2e" * 16, "SERVICE_RESULT": "success", "EXIT_STATUS": "0"}
    ended = subprocess.run(
        [(bash or bashes()[0]).path, SHIM.with_name("service-record-close.sh")],
        env=environment(directory) | variables | {"EXIT_CODE": "exited"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def read_appended_entries(before: bytes, content: bytes) -> list[Json]:
    """Return the entries in the lines after `before`, which is the file's earlier content."""
    assert content.startswith(before)
    return [json.loads(line) for line in content.removeprefix(before).split(b"\n") if line.strip()]


def record_path(directory: Path) -> Path:
    return directory / "records" / "service.json"


def damaged_path(directory: Path) -> Path:
    return directory / "records" / "service.json.damaged"


def write_record(directory: Path, content: bytes) -> Path:
    """Write the service's record file and return its path."""
    record_path(directory).parent.mkdir(exist_ok=True)
    record_path(directory).write_bytes(content)
    return record_path(directory)


def read_elements(content: bytes) -> list[Json]:
    """Parse a closed array. Checks that its end is as our writers write it, and that our reader agrees."""
    found = json.loads(content)
    assert content.startswith(b"[")
    assert content.rstrip(b" \n").endswith(b"\n]")
    assert content.endswith(b"\n")
    assert list(read_entries(BytesIO(content))) == [Entry.from_json(element) for element in found]
    return list(found)


def count_trailing_blanks(content: bytes) -> int:
    """Return the number of bytes after the closing bracket of an array."""
    return len(content) - len(content.rstrip(b" \n"))


@contextmanager
def hold_lock(record: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that locks a record until it is killed, or until the end of the block."""
    command = [sys.executable, "-c", LOCK_PROGRAM, str(record)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        try:
            assert holder.stdout.readline() == b"\n"
            yield holder
        finally:
            holder.kill()


def is_locked(record: Path) -> bool:
    with record.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

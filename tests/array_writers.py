"""Both writers of the array layout behind one face, the lock that they share, and what an array has to be."""

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

SCRIPT = r"""
state() { cp "$SERVICE_RECORDS_DIR/service.json" "$1.state"; }
. "$SHIM"
state 1
for ((n = 2; n <= COUNT; n++)); do
  if ((n % 2)); then record_service_stage_failure; else record_service_stage_start "$STAGE"; fi
  state "$n"
done
kill -KILL $$
"""
HOLD = """
import fcntl, sys
record = open(sys.argv[1])
fcntl.flock(record, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


class ArrayWriter(Protocol):
    """Appends entries to `records/service.json` of a directory: a start, then starts and ends of a stage."""

    def append(
        self,
        directory: Path,
        count: int = 1,
        *,
        stage: str = "one",
        message: str = "",
        layout: Mapping[str, str] = ARRAY,
    ) -> list[bytes]:
        """Append with a writer of its own; what the file holds after each entry."""


@dataclass(frozen=True, slots=True)
class Library:
    """service_record.Records in this process."""

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
                states.append(record_of(directory).read_bytes())
        return states


@dataclass(frozen=True, slots=True)
class Shim:
    """A script that sources the shim, under one bash."""

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
        env |= {**journal(place, message), **layout}
        ended = run_script(self.bash, self.options + SCRIPT, place, env)
        assert (ended.returncode, ended.stdout, ended.stderr) == (-9, b"", b"")
        return [place.joinpath(f"{number}.state").read_bytes() for number in range(1, count + 1)]


def journal(place: Path, message: str) -> dict[str, str]:
    """Put a journalctl into the directory that has the message to say; what makes the shim ask it."""
    if not message:
        return {}
    place.joinpath("message").write_text(message)
    place.joinpath("journalctl").write_text(f"#!/bin/sh\ncat {place}/message\n")
    place.joinpath("journalctl").chmod(0o755)
    return {"PATH": f"{place}:{os.environ['PATH']}", "INVOCATION_ID": "1f" * 16}


WRITERS: list[ArrayWriter] = [Library(), *map(Shim, bashes()), Shim(bashes()[0], "set -o posix\n")]
each_writer = pytest.mark.parametrize("writer", WRITERS, ids=str)


def run_exit_helper(directory: Path, bash: Bash | None = None) -> list[Json]:
    """Run the exit helper as systemd does at the end of a service that it knows nothing else of.

    Return the elements of the array that is then there, without the start and the end that the helper adds.
    """
    call_exit_helper(directory, bash)
    *others, start, end = elements(record_of(directory).read_bytes())
    assert [start["phase"], end["phase"]] == ["service start", "service end"]
    assert {start["invocationId"], end["invocationId"]} == {"2e" * 16}
    return others


def call_exit_helper(directory: Path, bash: Bash | None = None) -> None:
    """Run the exit helper, whatever comes of the record."""
    variables = {"INVOCATION_ID": "2e" * 16, "SERVICE_RESULT": "success", "EXIT_STATUS": "0"}
    ended = subprocess.run(
        [(bash or bashes()[0]).path, SHIM.with_name("service-record-close.sh")],
        env=environment(directory) | variables | {"EXIT_CODE": "exited"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def parked_behind(before: bytes, content: bytes) -> list[Json]:
    """The lines that stand behind what was in the file before."""
    assert content.startswith(before)
    return [json.loads(line) for line in content.removeprefix(before).split(b"\n") if line.strip()]


def record_of(directory: Path) -> Path:
    return directory / "records" / "service.json"


def damaged_of(directory: Path) -> Path:
    return directory / "records" / "service.json.damaged"


def put(directory: Path, content: bytes) -> Path:
    """The record of a directory, with this content."""
    record_of(directory).parent.mkdir(exist_ok=True)
    record_of(directory).write_bytes(content)
    return record_of(directory)


def elements(content: bytes) -> list[Json]:
    """The elements of an array that is closed as ours are, for a plain JSON parser and for our reader."""
    found = json.loads(content)
    assert content.startswith(b"[")
    assert content.rstrip(b" \n").endswith(b"\n]")
    assert content.endswith(b"\n")
    assert list(read_entries(BytesIO(content))) == [Entry.from_json(element) for element in found]
    return list(found)


def spare(content: bytes) -> int:
    """Return the number of bytes behind the bracket of an array."""
    return len(content) - len(content.rstrip(b" \n"))


@contextmanager
def held_lock(record: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the lock of a record and does not let go until it is killed."""
    command = [sys.executable, "-c", HOLD, str(record)]
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

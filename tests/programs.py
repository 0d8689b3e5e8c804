"""Python programs that tests write, run and read the records of."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import service_record
from service_record import Entry, Records

REPOSITORY = Path(service_record.__file__).parents[1]
IMPORTS = "import os, signal, sys, threading, service_record; "


def needs(program: str) -> None:
    """Skip the test where there is no such program."""
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")


def environment(directory: Path, **more: str) -> dict[str, str]:
    """Return the environment of a recorded service `job`; its records are below `directory`."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    return own | {"SERVICE_NAME": "job", "SERVICE_RECORDS_DIR": str(directory / "records")} | more


def program(directory: Path, source: str) -> Path:
    """The program: IMPORTS on line 1, then the source, which begins with a newline, from line 2 on."""
    path = directory / "job.py"
    path.write_text(IMPORTS + textwrap.dedent(source))
    return path


def run_program(directory: Path, source: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program(directory, source)],
        cwd=directory,
        env=environment(directory, **more),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def recorded(directory: Path, service: str = "job") -> list[Entry]:
    """The entries of a record in which nothing is damaged."""
    pieces = list(Records(directory / "records").read(service))
    entries = [piece for piece in pieces if isinstance(piece, Entry)]
    assert entries == pieces
    return entries


def story(entries: list[Entry]) -> list[str]:
    """Each entry in a few words: `stage end first success`."""
    return [
        " ".join(filter(None, (each.phase, each.pre_command, each.post_command, each.stage, each.result)))
        for each in entries
    ]

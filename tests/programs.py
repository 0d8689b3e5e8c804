"""Write Python programs, run them as services, and read their records."""

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


def skip_without(program: str) -> None:
    """Skip the test if the program is not installed."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def environment(directory: Path, **more: str) -> dict[str, str]:
    """Return the environment of a service `job`, with its records below `directory`."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    return own | {"SERVICE_NAME": "job", "SERVICE_RECORDS_DIR": str(directory / "records")} | more


def write_program(directory: Path, source: str) -> Path:
    """Write a program: IMPORTS on line 1, and the source, which starts with a newline, from line 2 on."""
    path = directory / "job.py"
    path.write_text(IMPORTS + textwrap.dedent(source))
    return path


def run_program(directory: Path, source: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, write_program(directory, source)],
        cwd=directory,
        env=environment(directory, **more),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def read_entries(directory: Path, service: str = "job") -> list[Entry]:
    """Return the entries of a record. Fails if a part of it is damaged."""
    pieces = list(Records(directory / "records").read(service))
    entries = [piece for piece in pieces if isinstance(piece, Entry)]
    assert entries == pieces
    return entries


def summarize_entries(entries: list[Entry]) -> list[str]:
    """Return a short text for each entry, such as `stage end first success`."""
    return [
        " ".join(filter(None, (each.phase, each.pre_command, each.post_command, each.stage, each.result)))
        for each in entries
    ]

"""`service-record` as a person starts it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from service_record.cli import main; main(prog_name='service-record')"]
_TERMINAL_VARIABLES = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "SERVICE_RECORDS_DIR"}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    out: str
    err: str


def environment(**variables: str) -> Mapping[str, str]:
    """This process's environment, in New York, without what tells programs about their terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in _TERMINAL_VARIABLES}
    return kept | {"TZ": "America/New_York", "TERM": "xterm"} | variables


def service_record(
    *arguments: object, stdin: bytes = b"", cwd: Path | None = None, **variables: str
) -> Answer:
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=environment(**variables),
        cwd=cwd,
        timeout=60,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

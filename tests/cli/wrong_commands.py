"""The table of wrong commands in docs/project/first-minutes.md: what each prints, before issue 40 and now.

`python -m tests.cli.wrong_commands` runs every command of the table and rewrites its last two columns.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from service_record.read.examples import example_path
from tests.command_line import environment

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PAGE: Final = REPOSITORY / "docs/project/first-minutes.md"
_BEGIN: Final = "<!-- wrong commands -->\n"
_END: Final = "<!-- /wrong commands -->\n"
_TIMEOUT_SECONDS: Final = 30.0
_FUNCTION: Final = """service-record() {
  "$PYTHON" -c 'from service_record.cli import main; main(prog_name="service-record")' "$@"
}
"""


@dataclass(frozen=True, slots=True)
class Row:
    command: str
    before: str
    status: str
    message: str
    lines: int = 0
    """The lines on standard error."""

    def __str__(self) -> str:
        cells = (f"`{self.command}`", self.before, self.status, self.message)
        escaped = " | ".join(cell.replace("|", "\\|") for cell in cells)
        return f"| {escaped} |\n"


def rows() -> list[Row]:
    """Return the rows of the page."""
    table = PAGE.read_text().partition(_BEGIN)[2].partition(_END)[0].splitlines()[2:]
    found = []
    for line in table:
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        found.append(Row(cells[0].strip("`"), cells[1], cells[2], cells[3]))
    return found


def make_host(directory: Path) -> None:
    """Make the files that the commands name: records, bundles and files that are neither."""
    records = example_path("example:failed-stage")
    for name in ("records", "ex"):
        shutil.copytree(records, directory / name)
    for name, folder in (("ex.tar.gz", "ex"), ("renamed.tar.gz", "my-records")):
        with tarfile.open(directory / name, "w:gz") as archive:
            archive.add(records, folder)
    (directory / "cut.tar.gz").write_bytes((directory / "ex.tar.gz").read_bytes()[:300])
    (directory / "random.bin").write_bytes(bytes(range(128, 256)) * 20)
    (directory / "empty").mkdir()


def run(row: Row, directory: Path, program: Path = REPOSITORY) -> Row:
    """Return the row with the exit status and the message of its command now."""
    script = f"{_FUNCTION}{row.command}"
    variables = {
        "SERVICE_RECORDS_DIR": "records",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(program),
        "COLUMNS": "1000",
    }
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            ["bash", "-c", script],
            cwd=directory,
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        ) as process,
    ):
        stop = threading.Timer(_TIMEOUT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        stop.start()
        assert process.stderr is not None
        err = process.stderr.readline()
        if err.startswith("Waiting for "):  # `follow` does so for ever
            os.killpg(process.pid, signal.SIGKILL)
        err += process.stderr.read()
        process.wait()
        stop.cancel()
        output.seek(0)
        out = output.read()
    status = "waits" if process.returncode == -signal.SIGKILL else str(process.returncode)
    lines = err.splitlines()
    messages = [line for line in lines if not line.startswith(("Try: ", "Usage: "))]
    message = messages[-1] if messages else next(iter(out.strip().splitlines()), "")
    return replace(row, status=status, message=message, lines=len(lines))


def table(current: list[Row]) -> str:
    head = "| command | before | exit | now |\n|---|---|---:|---|\n"
    return head + "".join(map(str, current))


def update(current: list[Row]) -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    PAGE.write_text(f"{before}{_BEGIN}{table(current)}{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        make_host(Path(scratch))
        update([run(row, Path(scratch)) for row in rows()])

"""The promises, and what holds each: the rows of docs/promises.md."""

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

from bench.table import aligned
from tests.programs import REPOSITORY
from tests.torture.tally import ORDER, Tally

PAGE: Final = REPOSITORY / "docs" / "promises.md"
HEAD: Final = ("promise", "held by", "cases tried", "found", "reprinted by")
RUNS: Final = ("on", "seconds", "order", "cases", "found")
_LAST_RUNS: Final = 6
TARGETS: Final = ("target", "system calls", "faults, at most", "cases", "found")


@dataclass(frozen=True, slots=True)
class Promise:
    """Promise on which users may rely."""

    number: int
    text: str
    tests: tuple[str, ...]
    """Files of tests, besides the torture."""
    command: str = "`make torture`"
    """Command that tries it again."""

    def cells(self, tallies: Sequence[Tally]) -> tuple[str, ...]:
        """Its row, given what the torture came to."""
        mine = [tally for tally in tallies if self.number in tally.promises]
        tested = f"{tests_in(self.tests):,} tests"
        cases = sum(tally.cases for tally in mine)
        found = sum(len(tally.findings) for tally in mine)
        parts = dict.fromkeys(re.split("[:,]", tally.target)[0] for tally in mine)
        held_by = ", ".join([*parts, *(f"`{Path(test).name}`" for test in self.tests)])
        tried = f"{cases:,} in the torture, {tested}" if mine else tested
        return f"{self.number}. {self.text}", held_by, tried, str(found or "none"), self.command


PROMISES: Final = (
    Promise(
        1,
        "Recording never changes what a service does: its output, its exit status, its traps, its course.",
        ("tests/test_shim_harm.py", "tests/test_array_harm.py", "tests/test_recording.py"),
    ),
    Promise(
        2,
        "An acknowledged entry is on the disk whole, or after a loss of power absent; no other is changed; "
        "what could not be written is counted in the next that is.",
        ("tests/test_array_repair.py", "tests/test_records.py"),
    ),
    Promise(
        3,
        "Writers in any number lose nothing.",
        ("tests/test_shim_concurrency.py", "tests/test_array_concurrency.py"),
    ),
    Promise(
        4,
        "Every death of a service that systemd sees ends in a `service end`; every other is shown as "
        "interrupted at the next boot.",
        ("tests/system/test_deaths.py", "tests/system/test_power_loss.py", "tests/test_shim_matrix.py"),
    ),
    Promise(
        5,
        "The reader raises on no content, and leaves no byte out in silence.",
        ("tests/test_layout.py", "tests/fuzz/test_records.py", "tests/fuzz/test_archives.py"),
    ),
    Promise(
        6,
        "The reporter fails and delays no installation, floods no server, stops by itself, and leaves no "
        "credential behind.",
        ("tests/test_round.py", "tests/test_reporter_any.py", "tests/test_cleanup.py"),
    ),
    Promise(
        7,
        "No known secret of a host leaves it; if one would, nothing does.",
        (
            "tests/test_canaries.py",
            "tests/test_known_secrets.py",
            "tests/test_residual.py",
            "tests/test_bundle_writing.py",
        ),
    ),
    Promise(
        8,
        "A collector acknowledges what is on its disk, and nothing else.",
        (
            "tests/collector/test_durability.py",
            "tests/collector/test_disk_faults.py",
            "tests/collector/test_several_processes.py",
            "tests/collector/test_migrations.py",
        ),
        "`make torture`, `make torture-collector`",
    ),
)


@cache
def tests_in(files: tuple[str, ...]) -> int:
    """Return how many tests there are in these files, on this machine."""
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:randomly", *files]
    said = subprocess.run(
        [*collect, "-o", "addopts="], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if said.returncode != 0:
        raise RuntimeError(f"{' '.join(files)}: {said.stdout[-500:]}{said.stderr[-500:]}")
    return sum(
        int(line.rpartition(": ")[2]) for line in said.stdout.splitlines() if re.search(r"\.py: \d+$", line)
    )


def table(tallies: Sequence[Tally]) -> str:
    """The promises, one to a row."""
    rows = [HEAD, ("---",) * len(HEAD), *(promise.cells(tallies) for promise in PROMISES)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def runs(before: str, tallies: Sequence[Tally], day: date, seconds: float) -> str:
    """The table of the last runs, given the one before this run, one to a row."""
    earlier = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in before.splitlines()[2:]]
    cases = sum(tally.cases for tally in tallies)
    found = sum(len(tally.findings) for tally in tallies)
    row = (day.isoformat(), f"{seconds:,.0f}", ORDER, f"{cases:,}", str(found or "none"))
    return aligned([RUNS, *[*earlier, row][-_LAST_RUNS:]])


def targets(tallies: Iterable[Tally]) -> str:
    """Return the targets of the torture, one to a row."""
    return aligned([TARGETS, *(tally.cells() for tally in tallies)])

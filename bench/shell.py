"""Measure the shim: entries, the first start, failures and whole runs, as users get them.

An entry is compared with a bare append, and with jq rewriting an array. `python -m bench.shell` measures
these rows alone and writes them into docs/project/performance.md.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.rounds import medians, wall
from bench.table import Row, duration, publish_some, timed

BENCH = Path(__file__).resolve().parent
PAGE = BENCH.parent / "docs/project/performance.md"
NAME = "shim: "
"""The beginning of each row's name."""
SIZES = (0, 1_000, 10_000, 100_000)
STAGES = 500
"""Stages in one measurement, with two entries each."""
REWRITES = 3
FAILURES = 50
ARRAY_STAGES = 25
ARRAY_SIZES = (0, 100_000)

BARE = "bare `printf >>`"
REWRITE = "jq rewriting an array"
ENTRY_LIMIT = 150e-6
ARRAY_LIMIT = 3.5e-3
FLOOR_LIMIT = 12
CHEAPER_THAN_REWRITE = {0: 100, 100_000: 2_000}
NEW_RECORD_LIMIT = 3e-3
LIBRARY = "log() { printf '%s\\n' \"$*\"; }\n"
LAYOUTS = ("lines", "array")
MESSAGE_BYTES = 3_000

INVOCATION_ID = "fedcba9876543210fedcba9876543210"
ENTRY: dict[str, object] = {
    "timestamp": "2026-11-21T01:05:10.123Z",
    "stage": "wait-for-api",
    "phase": "stage start",
    "bootId": "0123456789abcdef0123456789abcdef",
    "invocationId": INVOCATION_ID,
    "pid": 1234,
    "uptime": 123.45,
}

Seconds = Mapping[tuple[str, int | str], float]
"""Measured seconds, by name and by the number of entries in the file before, or by the layout."""


def rows(root: Path) -> Iterator[Row]:
    seconds = measured(Shim(root))
    yield from entry_rows(seconds)
    yield from rewrite_rows(seconds)
    yield from array_rows(seconds)
    failure, what = seconds["failure", 0], f"shim: a failure with {MESSAGE_BYTES:,} bytes of journal"
    yield timed(what, failure, f"journalctl, and {BARE}", seconds["bare failure", 0])
    synced = seconds["synced failure", 0]
    yield timed("shim: the same, and on the disk", synced, "without waiting for the disk", failure)
    yield from run_rows(seconds)


def run_rows(seconds: Seconds) -> Iterator[Row]:
    for layout in LAYOUTS:
        new, existing = seconds["new record", layout], seconds["existing record", layout]
        is_limited = layout == "lines"
        yield timed(
            f"shim: the first start, a new record ({layout})",
            new,
            "a record that exists",
            existing,
            limit=duration(NEW_RECORD_LIMIT) if is_limited else "",
            holds=new <= NEW_RECORD_LIMIT if is_limited else None,
        )
    for layout in LAYOUTS:
        run, bare = seconds["failing run", layout], seconds["failing run", "unrecorded"]
        yield timed(f"shim: a whole failing run ({layout})", run, "without a recorder", bare)


def measured(shim: "Shim") -> Seconds:
    measures: dict[tuple[str, int | str], Callable[[], float]] = {
        ("failure", 0): shim.failure,
        ("synced failure", 0): partial(shim.failure, "ends"),
        ("bare failure", 0): shim.bare_failure,
        ("with a library", 0): shim.entry_with_library,
        ("failing run", "unrecorded"): shim.unrecorded_run,
    }
    for layout in LAYOUTS:
        measures["new record", layout] = partial(shim.first_start, layout, is_new=True)
        measures["existing record", layout] = partial(shim.first_start, layout, is_new=False)
        measures["failing run", layout] = partial(shim.failing_run, layout)
    for size in SIZES:
        shim.fill(size)
        measures["entry", size] = partial(shim.entry, size)
        measures["bare", size] = partial(shim.bare, size)
        if shutil.which("jq"):
            measures["rewrite", size] = partial(shim.rewrite, size)
        if size in ARRAY_SIZES:
            measures["array", size] = partial(shim.array, size)
    return medians(measures)


def entry_rows(seconds: Seconds) -> Iterator[Row]:
    for size in SIZES:
        entry, bare = seconds["entry", size], seconds["bare", size]
        limit = f"{duration(ENTRY_LIMIT)} or {FLOOR_LIMIT} x"
        holds = entry <= max(ENTRY_LIMIT, FLOOR_LIMIT * bare)
        yield timed(f"shim: one entry after {size:,}", entry, BARE, bare, limit=limit, holds=holds)
    looking = seconds["with a library", 0]
    yield timed(
        "shim: one entry, a trap possible",
        looking,
        BARE,
        seconds["bare", 0],
        limit=duration(ENTRY_LIMIT),
        holds=looking <= ENTRY_LIMIT,
    )


def rewrite_rows(seconds: Seconds) -> Iterator[Row]:
    for size in SIZES:
        entry, rewrite = seconds["entry", size], seconds.get(("rewrite", size))
        if rewrite is None:
            continue
        factor = CHEAPER_THAN_REWRITE.get(size)
        limit, holds = (f"1/{factor:,}", rewrite >= factor * entry) if factor else ("", None)
        yield timed(f"shim: one entry after {size:,}", entry, REWRITE, rewrite, limit=limit, holds=holds)


def array_rows(seconds: Seconds) -> Iterator[Row]:
    for size in ARRAY_SIZES:
        array, rewrite = seconds["array", size], seconds.get(("rewrite", size))
        what = f"shim: one entry in an array of {size:,}"
        holds = array <= ARRAY_LIMIT
        yield timed(what, array, REWRITE, rewrite, limit=duration(ARRAY_LIMIT), holds=holds)


def array_of(size: int) -> str:
    """Return a record in the array layout with that many entries."""
    return "[\n" + ",\n".join([json.dumps(ENTRY)] * size) + "\n]\n"


class Shim:
    """The scripts of this directory, run where a service of the right size is already recorded."""

    def __init__(self, root: Path) -> None:
        self._root = root
        programs = root / "programs"
        programs.mkdir()
        journal = programs / "journalctl"
        lines = "\n".join(["x" * (MESSAGE_BYTES // 3 - 1)] * 3)
        journal.write_text(f"#!/bin/sh\n[ \"$1\" = --sync ] || printf '%s\\n' '{lines}'\n")
        journal.chmod(0o755)
        self._environment = os.environ | {
            "SERVICE_RECORDS_DIR": str(root),
            "INVOCATION_ID": INVOCATION_ID,
            "PATH": f"{programs}:{BENCH.parent / 'shell'}:{os.environ['PATH']}",
        }
        (root / "library.bash").write_text(LIBRARY)

    def fill(self, size: int) -> None:
        """Record that many entries, in either layout."""
        (self._root / f"lines-{size}.json").write_text(f"{json.dumps(ENTRY)}\n" * size)
        array = json.dumps([{key: ENTRY[key] for key in ("timestamp", "stage", "phase")}] * size, indent=2)
        (self._root / f"array-{size}.json").write_text(array + "\n")
        (self._root / f"ours-{size}.json").write_text(array_of(size))

    def first_start(self, layout: str, *, is_new: bool) -> float:
        """Time sourcing the shim, with the `service start` entry."""
        record = self._root / f"started-{layout}.json"
        if is_new:
            record.unlink(missing_ok=True)
        elif not record.exists():
            self.first_start(layout, is_new=True)
        return self._run("shim.bash", 0, service=record.stem, SERVICE_RECORDS_LAYOUT=layout)[0] / 1e6

    def failing_run(self, layout: str) -> float:
        """Time a whole script, with the start of bash and its failure, in a record that exists."""
        return self._whole_run("recorded", SERVICE_RECORDS_LAYOUT=layout, SERVICE_NAME=f"runs-{layout}")

    def unrecorded_run(self) -> float:
        return self._whole_run("")

    def _whole_run(self, recorded: str, **environment: str) -> float:
        command = ["bash", BENCH / "failing-run.bash", recorded]
        return wall(*command, environment=self._environment | environment, is_checked=False)

    def entry(self, size: int) -> float:
        return self._run("shim.bash", STAGES, service=f"lines-{size}")[1] / 1e6 / STAGES / 2

    def array(self, size: int) -> float:
        return self._run("shim.bash", ARRAY_STAGES, service=f"ours-{size}")[1] / 1e6 / ARRAY_STAGES / 2

    def entry_with_library(self) -> float:
        """Time an entry in a script that sources a library. The library may set a trap, so the shim looks."""
        library = self._root / "library.bash"
        seconds = self._run("shim-and-library.bash", STAGES, library, service="library")[0]
        return seconds / 1e6 / STAGES / 2

    def bare(self, size: int) -> float:
        path = self._root / f"lines-{size}.json"
        text = json.dumps(ENTRY)
        return self._run("floor.bash", path, text, 2 * STAGES)[0] / 1e6 / STAGES / 2

    def rewrite(self, size: int) -> float:
        path = self._root / f"array-{size}.json"
        return self._run("rewrite.bash", path, REWRITES)[0] / 1e6 / REWRITES

    def failure(self, sync: str = "") -> float:
        ended = self._run("failure.bash", FAILURES, service="failure", SERVICE_RECORDS_SYNC=sync)
        return ended[0] / 1e6 / FAILURES

    def bare_failure(self) -> float:
        text = "x" * MESSAGE_BYTES
        path = self._root / "bare-failure.json"
        return self._run("floor.bash", path, text, FAILURES, "journal")[0] / 1e6 / FAILURES

    def _run(self, script: str, *arguments: object, service: str = "", **environment: str) -> list[int]:
        finished = subprocess.run(
            ["bash", BENCH / script, *map(str, arguments)],
            env=self._environment | {"SERVICE_NAME": service} | environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return [int(number) for number in finished.stdout.split()]


def main() -> int:
    """Measure the shim alone. Return the exit status: 1 when a limit is exceeded."""
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        return publish_some(list(rows(Path(directory))), PAGE, NAME)


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-triage`: how fast bundles are judged, and how fast 100,000 of them are summarised."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.bundles import make_bundles
from bench.table import Row, limited, memory, publish
from service_record.triage.counting import summarise
from service_record.triage.engines import judge_here
from service_record.triage.index import Index, add_in_parts
from service_record.triage.references import find_references
from service_record.triage.rows import UNREADABLE, BundleRow

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "triage.md"
_FEW: Final = 200
_MANY: Final = 800
_MONTH: Final = 2000
_PATIENCE: Final = 120.0
"""Seconds in which a folder of so many bundles has to be answered for."""
_ROWS: Final = 100_000
_GOAL: Final = 20.0
"""Bundles a second for each processor."""
_BOTH: Final = 1.8
"""Least speed-up of two workers over one."""
_KILL_BUNDLES: Final = 50
_MIB: Final = 1 << 20


def rows() -> list[Row]:
    """Return what was measured; times are the best of three, since other work on the machine only adds."""
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        root = Path(directory)
        make_bundles(root / "many", _MANY)
        (root / "few").mkdir()
        for folder in sorted((root / "many").iterdir())[:1]:
            for path in sorted(folder.iterdir())[:_FEW]:
                os.link(path, root / "few" / path.name)
        one = min(_seconds(root / "many", 1) for _ in range(3))
        two = min(_seconds(root / "many", 2) for _ in range(3))
        rate = _MANY / one
        table: list[Row] = [
            Row(
                what="bundles of 1 MiB of logs a second, one worker",
                measured=f"{rate:.1f}",
                limit=f"{_GOAL:g}",
                holds=rate >= _GOAL,
            ),
            Row(
                what="the same with two workers on two processors",
                measured=f"{_MANY / two:.1f}",
                ratio=f"{one / two:.2f} x",
                limit=f"{_BOTH:g} x",
                holds=one / two >= _BOTH,
            ),
        ]
        kills, judged, once = _while_killed(root / "many")
        few, many = _memory(root / "few"), _memory(root / "many")
        table += [
            Row(
                what=f"bundles with a row, a worker killed every {_KILL_BUNDLES} ({kills} times)",
                measured=f"{judged}, {judged - once} twice",
                limit=f"{_MANY}, none twice",
                holds=judged == once == _MANY,
            ),
            memory(f"memory of triage, {_FEW} bundles", few),
            memory(f"the same, {_MANY} bundles", many, few + 32 * _MIB),
        ]
        make_bundles(root / "month", _MONTH)
        table.append(
            limited(
                f"the command: {_MONTH:,} bundles, what is new this week",
                _seconds_of_command(root / "month"),
                _PATIENCE,
            )
        )
        index = Index(str(root / "index"), create=True)
        for part in range(0, _ROWS, 2000):
            index.add([_row(n) for n in range(part, part + 2000)])
        table.append(limited(f"summarise {_ROWS:,} rows", _best(lambda: summarise(index.connect())), 2.0))
        return table


def _seconds(directory: Path, workers: int) -> float:
    begun = time.perf_counter()
    judged = sum(len(rows) for rows in judge_here(find_references(str(directory)), workers))
    assert judged == _MANY
    return time.perf_counter() - begun


def _seconds_of_command(directory: Path) -> float:
    """Return the seconds of `service-record triage`, which judges all that is there and says what is new."""
    begun = time.perf_counter()
    program = (sys.executable, "-c", "from service_record.cli import main; main()", "triage", str(directory))
    answer = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    took = time.perf_counter() - begun
    assert "\nNew\n" in answer, answer
    return took


def _while_killed(directory: Path) -> tuple[int, int, int]:
    """Judge while workers die; return how often one did, the rows with a verdict, and their bundles."""
    kills, rows_there = 0, list[BundleRow]()
    for rows in judge_here(find_references(str(directory)), 2):
        rows_there += rows
        if rows and len(rows_there) % _KILL_BUNDLES == 0:
            children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
            for child in [int(each) for some in children for each in some][:1]:
                os.kill(child, signal.SIGKILL)
                kills += 1
    uris = [row.uri for row in rows_there if row.verdict != UNREADABLE]
    return kills, len(uris), len(set(uris))


def _best(measure: Callable[[], object]) -> float:
    def once() -> float:
        begun = time.perf_counter()
        measure()
        return time.perf_counter() - begun

    return min(once() for _ in range(3))


def _memory(directory: Path) -> int:
    """Return the most bytes that the program, without its judges, has resident: as Linux counts its pages."""
    most = 0
    is_over = threading.Event()

    def watch() -> None:
        nonlocal most
        while not is_over.wait(0.05):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            most = max(most, pages * resource.getpagesize())

    watching = threading.Thread(target=watch)
    watching.start()
    with tempfile.TemporaryDirectory() as place:
        index = Index(place, create=True)
        for _ in add_in_parts(index, judge_here(find_references(str(directory)), 2)):
            pass
    is_over.set()
    watching.join()
    return most


def _row(n: int) -> BundleRow:
    cause = f"cause-{n % 97}" if n % 5 else ""
    return BundleRow(
        key=f"k{n}",
        uri=f"s3://support/{n}.tar.gz",
        digest=f"{n:064x}",
        host=f"host{n % 30_000}",
        release=f"4.{n % 7}",
        verdict="failed",
        cause=cause,
        cause_says=cause and f"what {cause} is",
        rank=cause and "cause",
        line=f"Error: number {n} of {n % 400} failed",
        signature=f"Error: number <number> of kind {n % 400} failed",
        service="bootkube",
        latest=1_790_000_000.0 + n * 20,
        stages={"bootkube/cvo-bootstrap": float(n % 60)},
    )


def main() -> int:
    """Print the table and write it into docs/triage.md; 1 when a limit does not hold."""
    return publish(rows(), PAGE)


if __name__ == "__main__":
    sys.exit(main())

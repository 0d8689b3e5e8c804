"""`make bench-collector`: what the collector takes in and how long readers wait.

It goes into docs/collector.md, and as a plot into docs/performance/hosts.svg.

All of it is measured at a collector in a process of its own, which this one asks over HTTP on one machine.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import asked, ingest
from bench.fleet import STEPS
from bench.machine import machine
from bench.plot import Line, Plot
from bench.table import Figure, markdown, replace_between, times

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "collector.md"
PROGRAM: Final = (sys.executable, "-c", "from service_record.cli import main; main()", "collector", "serve")
PLOT: Final = PAGE.parent / "performance" / "hosts.svg"
DRAWN: Final = ("fleet page", "fleet as JSON", "statistics page")


@contextlib.contextmanager
def collector(data: Path, database: str = "") -> Iterator[tuple[int, int]]:
    """Run a collector; yield its port and process id."""
    arguments = [*PROGRAM, "--data", str(data), "--port", "0", "--database", database]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("listening on "):
                    yield int(line.rpartition(":")[2]), process.pid
                    return
            raise RuntimeError("the collector did not start")
        finally:
            process.terminate()
            process.stderr.close()


def ingest_rows(folder: Path) -> list[Figure]:
    measured = ingest.measured(folder, collector)
    return [
        Figure(
            what=f"collector: durable steps, {ingest.CONNECTIONS} connections",
            measured=f"{measured.steps_per_second:,.0f} /s",
            against=f"rows alone, {ingest.CONNECTIONS} in a transaction",
            reference=f"{measured.floor_per_second:,.0f} /s",
            ratio=times(measured.steps_per_second, measured.floor_per_second),
            limit=f"{ingest.LEAST:,} /s",
            holds=measured.steps_per_second >= ingest.LEAST,
        ),
        Figure(what="collector: processor time for a step", measured=f"{measured.processor * 1e3:.2f} ms"),
        Figure(what="collector: until a step is acknowledged", measured=f"{measured.median * 1e3:.0f} ms"),
        Figure(what="collector: the same, 99th of 100", measured=f"{measured.slowest * 1e3:.0f} ms"),
    ]


def fleet_rows(folder: Path) -> list[Figure]:
    """Return the rows of pages and answers, by number of hosts. Some become a plot, too."""
    rows: list[Figure] = []
    drawn: dict[str, list[tuple[int, float]]] = {name: [] for name in DRAWN}
    for hosts in asked.GROWTH:
        data = folder / f"fleet-{hosts}"
        session, token = asked.fill(data, hosts)
        with collector(data) as (port, process):
            asked.wait_for_verdicts(data)
            is_all = hosts == asked.GROWTH[-1]
            for what, path, limit in asked.REQUESTS:
                if not is_all and what not in DRAWN:
                    continue
                seconds = asked.median(port, path, session, token)
                if what in DRAWN:
                    drawn[what].append((hosts, seconds))
                if not is_all and what != DRAWN[0]:
                    continue
                rows.append(
                    Figure(
                        what=f"collector: {what}, {hosts:,} hosts, {hosts * STEPS:,} steps",
                        measured=f"{seconds * 1e3:.0f} ms",
                        limit=f"{limit * 1e3:.0f} ms",
                        holds=seconds <= limit,
                    )
                )
            if is_all:
                size = asked.resident(process)
                most = f"{asked.MOST_MEMORY / 1e6:.0f} MB"
                rows.append(
                    Figure(
                        what="collector: memory then",
                        measured=f"{size / 1e6:.0f} MB",
                        limit=most,
                        holds=size <= asked.MOST_MEMORY,
                    )
                )
    lines = [Line(name=name, points=points) for name, points in drawn.items()]
    PLOT.write_text(Plot(title="A page by how many hosts there are", amount="hosts", lines=lines).svg())
    return rows


def measured() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        root = Path(directory)
        return [*ingest_rows(root / "ingest"), *fleet_rows(root)]


def write(rows: list[Figure]) -> str:
    """Put the table into the collector's page; it is returned."""
    text = f"{machine()}\n\n{markdown(rows)}"
    replace_between(PAGE, "bench", text)
    return text


def main() -> int:
    """Measure the collector. Return the exit status: 1 when a promise does not hold."""
    started = time.monotonic()
    rows = measured()
    print(write(rows))
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return int(any(row.holds is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-collector`: measure how many reports the collector stores and how long its pages take.

The table goes into docs/project/collector.md, and a plot into docs/project/performance/hosts.svg. The
collector runs in a process of its own and is requested over HTTP from the same machine.
"""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import fleet, ingest, storm
from bench.plot import Line, Plot
from bench.rounds import resident
from bench.table import Row, memory, publish
from service_record.collector.serving_settings import CollectorSettings
from testing.collector import process

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "project" / "collector.md"
PLOT: Final = PAGE.parent / "performance" / "hosts.svg"
DRAWN: Final = ("fleet page", "fleet as JSON", "statistics page")


@contextlib.contextmanager
def collector(data: Path, database: str = "") -> Iterator[tuple[int, int]]:
    """Run a collector; yield its port and process id."""
    with process(CollectorSettings(data=data, database=database)) as running:
        yield int(running.url.rpartition(":")[2]), running.process.pid


def fleet_rows(folder: Path) -> list[Row]:
    """Return the rows of pages and answers, by number of hosts. Some become a plot, too."""
    rows: list[Row] = []
    drawn: dict[str, list[tuple[int, float]]] = {name: [] for name in DRAWN}
    for hosts in fleet.HOST_COUNTS:
        data = folder / f"fleet-{hosts}"
        session, token = fleet.fill(data, hosts)
        with collector(data) as (port, pid):
            fleet.wait_for_verdicts(data)
            is_all = hosts == fleet.HOST_COUNTS[-1]
            for what, path, limit in fleet.REQUESTS:
                if not is_all and what not in DRAWN:
                    continue
                seconds = fleet.median_seconds(port, path, session, token)
                if what in DRAWN:
                    drawn[what].append((hosts, seconds))
                if not is_all and what != DRAWN[0]:
                    continue
                rows.append(
                    Row(
                        what=f"collector: {what}, {hosts:,} hosts, {hosts * fleet.STEPS_PER_HOST:,} steps",
                        measured=f"{seconds * 1e3:.0f} ms",
                        limit=f"{limit * 1e3:.0f} ms",
                        holds=seconds <= limit,
                    )
                )
            if is_all:
                rows.append(memory("collector: memory then", resident(pid), fleet.MAX_MEMORY_BYTES))
    rows += _large_fleet_rows(folder / "fleet-large")
    lines = [Line(name=name, points=points) for name, points in drawn.items()]
    PLOT.write_text(Plot(title="A page by how many hosts there are", amount="hosts", lines=lines).svg())
    return rows


def _large_fleet_rows(data: Path) -> list[Row]:
    session, token = fleet.fill(data, fleet.LARGE_FLEET_HOSTS, most_steps=2)
    fleet.put_in_trouble(data)
    rows = []
    with collector(data) as (port, _):
        for what, path, limit in fleet.LARGE_REQUESTS:
            seconds = fleet.median_seconds(port, path, session, token)
            rows.append(
                Row(
                    what=f"collector: {what}, {fleet.LARGE_FLEET_HOSTS:,} hosts, many in trouble",
                    measured=f"{seconds * 1e3:.0f} ms",
                    limit=f"{limit * 1e3:.0f} ms",
                    holds=seconds <= limit,
                )
            )
    return rows


def measured() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        root = Path(directory)
        return [
            *ingest.rows(root / "ingest", collector),
            *storm.rows(root / "storm", collector),
            *fleet_rows(root),
        ]


def main() -> int:
    """Measure the collector. Return the exit status: 1 when a promise does not hold."""
    return publish(measured(), PAGE)


if __name__ == "__main__":
    sys.exit(main())

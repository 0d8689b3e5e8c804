"""`make bench-scale`: what collectors add up to, on SQLite and on PostgreSQL, for docs/project/scale.md.

Each process serves hosts of its own over connections that report one step after the other, all on disk. The
number of connections is the same however many processes share them. A commit that takes 20 ms stands for a
database on another machine with disks of its own: there collectors wait.
"""

import contextlib
import itertools
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
import uvloop

from bench import ingest, viewers
from bench.collecting import collector
from bench.table import Row, publish
from service_record.collector.store.database import Database, sqlite_url
from testing import postgresql

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "project" / "scale.md"
CONNECTIONS: Final = 96
FEW: Final = 48
"""Where a commit takes its time. All processes together have so many."""
PROCESSES: Final = (1, 2, 4)
DELAY: Final = 0.02
SECONDS: Final = 6.0
ROUNDS: Final = 3
LEAST_OF_SQLITE: Final = 0.8
LEAST_OF_POSSIBLE: Final = 0.7
"""Of the lesser of connections / commit time and what the processor time for a step allows."""
MOST_WAITING: Final = 0.05
_SAMPLE: Final = """
SELECT count(*) FILTER (WHERE wait_event_type = 'Lock') FROM pg_stat_activity
WHERE datname = current_database() AND state <> 'idle'
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate of one or more collectors."""

    steps_per_second: float
    processor: float
    """Seconds of a processor that the collectors take for a step; the database's own are not counted."""
    waiting: float = 0.0
    """The share of the time that a process waits for locks in the database."""


def measured() -> list[Row]:
    """Measure in turns, so that whatever else the machine does hits all of them."""
    quick = {"synchronous_commit": "on"}
    slow = {"commit_delay": str(int(DELAY * 1e6)), "commit_siblings": "0"}
    rates: dict[str, list[Rate]] = {}
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        folders = (Path(directory) / str(number) for number in itertools.count())
        with postgresql.cluster(quick) as fast, postgresql.cluster(slow) as delayed:
            for _ in range(ROUNDS):
                rates.setdefault("sqlite", []).append(_rate(next(folders), "", 1, CONNECTIONS))
                for cluster, name, connections in ((fast, "fast", CONNECTIONS), (delayed, "slow", FEW)):
                    for processes in PROCESSES:
                        with cluster.migrated() as url:
                            rate = _rate(next(folders), url, processes, connections)
                        rates.setdefault(f"{name} {processes}", []).append(rate)
    middle = {
        name: sorted(found, key=lambda one: one.steps_per_second)[ROUNDS // 2]
        for name, found in rates.items()
    }
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        return [*_figures(middle), *viewers.rows(Path(directory) / "viewers")]


def _figures(rates: dict[str, Rate]) -> list[Row]:
    sqlite, fast, slow = rates["sqlite"], rates["fast 1"], rates["slow 1"]
    of_sqlite = fast.steps_per_second / sqlite.steps_per_second
    possible = min(FEW / DELAY, 1 / slow.processor)
    of_possible = slow.steps_per_second / possible
    waiting = max(rate.waiting for rate in rates.values())
    rows = [
        Row(what=f"SQLite, 1 process, {CONNECTIONS} connections", measured=_per_second(sqlite)),
        Row(
            what=f"PostgreSQL, 1 process, {CONNECTIONS} connections",
            measured=_per_second(fast),
            against="SQLite",
            reference=_per_second(sqlite),
            ratio=f"{of_sqlite:.2f}",
            limit=f"{LEAST_OF_SQLITE}",
            holds=of_sqlite >= LEAST_OF_SQLITE,
        ),
        Row(
            what=f"PostgreSQL, 1 process, commits of {DELAY * 1e3:.0f} ms, {FEW} connections",
            measured=_per_second(slow),
            against="possible",
            reference=f"{possible:,.0f} /s",
            ratio=f"{of_possible:.2f}",
            limit=f"{LEAST_OF_POSSIBLE}",
            holds=of_possible >= LEAST_OF_POSSIBLE,
        ),
    ]
    for name, what in (("fast", f"{CONNECTIONS} connections"), ("slow", f"20 ms, {FEW} connections")):
        alone = rates[f"{name} 1"]
        for processes in PROCESSES[1:]:
            rate = rates[f"{name} {processes}"]
            rows.append(
                Row(
                    what=f"PostgreSQL, {processes} processes, {what}",
                    measured=_per_second(rate),
                    against="1 process",
                    reference=_per_second(alone),
                    ratio=f"{rate.steps_per_second / alone.steps_per_second:.2f}",
                )
            )
            rows.append(
                Row(
                    what="the same: processor time of the collectors for a step",
                    measured=f"{rate.processor * 1e6:.0f} µs",
                    against="1 process",
                    reference=f"{alone.processor * 1e6:.0f} µs",
                    ratio=f"{rate.processor / alone.processor:.2f}",
                )
            )
    rows.append(
        Row(
            what="PostgreSQL: time that a process waits for locks, at most",
            measured=f"{waiting:.1%}",
            limit=f"{MOST_WAITING:.0%}",
            holds=waiting <= MOST_WAITING,
        )
    )
    return rows


def _per_second(rate: Rate) -> str:
    return f"{rate.steps_per_second:,.0f} /s"


def _rate(folder: Path, url: str, processes: int, connections: int) -> Rate:
    """Measure with so many connections, which the processes share."""
    folder.mkdir()
    names = [f"host{number}" for number in range(connections)]
    issued = ingest.host_tokens(Database(url or sqlite_url(folder)), names)
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(collector(folder, url)) for _ in range(processes)]
        with _watched(url) as samples:
            reporting = [(port, issued[number::processes]) for number, (port, _) in enumerate(running)]
            before = sum(ingest.processor_seconds(process) for _, process in running)
            seconds, count = uvloop.run(ingest.reported(reporting, SECONDS))
            processor = sum(ingest.processor_seconds(process) for _, process in running) - before
    share = sum(samples) / len(samples) / processes if samples else 0.0
    return Rate(len(seconds) / SECONDS, processor / count, share)


@contextlib.contextmanager
def _watched(url: str) -> Iterator[Sequence[int]]:
    """Count the sessions that wait for a lock, by polling until the end of the block."""
    samples: list[int] = []
    is_over = threading.Event()

    def look() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not is_over.wait(0.02):
                row = connection.execute(_SAMPLE).fetchone()
                samples.append(int(row[0]) if row else 0)

    if not url:
        yield samples
        return
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def main() -> int:
    """Measure the rates. Return the exit status: 1 when a promise does not hold."""
    if postgresql.programs() is None:
        print("PostgreSQL is not installed", file=sys.stderr)
        return 1
    return publish(measured(), PAGE)


if __name__ == "__main__":
    sys.exit(main())

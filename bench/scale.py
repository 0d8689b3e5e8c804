"""`make bench-scale`: measure the rate of one or more collectors on SQLite and PostgreSQL.

The table goes into docs/project/scale.md. Each connection is one host, which reports a step as soon as its
last one is acknowledged. All processes share the same number of connections. Commits that take 20 ms stand
for a database on another machine: there, collectors wait instead of using the processor.
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
SLOW_COMMIT_CONNECTIONS: Final = 48
"""Connections of all processes together, for commits of 20 ms."""
PROCESSES: Final = (1, 2, 4)
COMMIT_SECONDS: Final = 0.02
SECONDS: Final = 6.0
ROUNDS: Final = 3
MIN_OF_SQLITE: Final = 0.8
"""Limit for the rate of one process on PostgreSQL with fast commits, as a share of the rate on SQLite."""
MIN_OF_POSSIBLE: Final = 0.7
"""Limit for the rate of one process with slow commits, as a share of the possible rate.

The possible rate is the lower of connections / commit time and 1 / processor time for a step.
"""
MAX_LOCK_WAIT: Final = 0.05
"""Limit for the share of its time that a process waits for locks in the database."""
_LOCK_WAITS: Final = """
SELECT count(*) FILTER (WHERE wait_event_type = 'Lock') FROM pg_stat_activity
WHERE datname = current_database() AND state <> 'idle'
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """A measured rate of one or more collectors."""

    steps_per_second: float
    processor: float
    """Processor time of the collectors for a step, in seconds, without that of the database."""
    lock_wait: float = 0.0
    """Share of its time that a process waits for locks in the database, 0 to 1."""


def measured() -> list[Row]:
    """Measure all configurations and return their rows.

    Each round measures every configuration once, so that other load on the machine affects all of them.
    """
    quick = {"synchronous_commit": "on"}
    slow = {"commit_delay": str(int(COMMIT_SECONDS * 1e6)), "commit_siblings": "0"}
    rates: dict[str, list[Rate]] = {}
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        folders = (Path(directory) / str(number) for number in itertools.count())
        with postgresql.cluster(quick) as fast, postgresql.cluster(slow) as delayed:
            for _ in range(ROUNDS):
                rates.setdefault("sqlite", []).append(_measure_rate(next(folders), "", 1, CONNECTIONS))
                for cluster, name, connections in (
                    (fast, "fast", CONNECTIONS),
                    (delayed, "slow", SLOW_COMMIT_CONNECTIONS),
                ):
                    for processes in PROCESSES:
                        with cluster.migrated() as url:
                            rate = _measure_rate(next(folders), url, processes, connections)
                        rates.setdefault(f"{name} {processes}", []).append(rate)
    medians = {
        name: sorted(rounds, key=lambda rate: rate.steps_per_second)[ROUNDS // 2]
        for name, rounds in rates.items()
    }
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        return [*_make_rows(medians), *viewers.rows(Path(directory) / "viewers")]


def _make_rows(rates: dict[str, Rate]) -> list[Row]:
    sqlite, fast, slow = rates["sqlite"], rates["fast 1"], rates["slow 1"]
    of_sqlite = fast.steps_per_second / sqlite.steps_per_second
    possible = min(SLOW_COMMIT_CONNECTIONS / COMMIT_SECONDS, 1 / slow.processor)
    of_possible = slow.steps_per_second / possible
    lock_wait = max(rate.lock_wait for rate in rates.values())
    rows = [
        Row(what=f"SQLite, 1 process, {CONNECTIONS} connections", measured=_per_second(sqlite)),
        Row(
            what=f"PostgreSQL, 1 process, {CONNECTIONS} connections",
            measured=_per_second(fast),
            against="SQLite",
            reference=_per_second(sqlite),
            ratio=f"{of_sqlite:.2f}",
            limit=f"{MIN_OF_SQLITE}",
            holds=of_sqlite >= MIN_OF_SQLITE,
        ),
        Row(
            what=f"PostgreSQL, 1 process, commits of {COMMIT_SECONDS * 1e3:.0f} ms, "
            f"{SLOW_COMMIT_CONNECTIONS} connections",
            measured=_per_second(slow),
            against="possible",
            reference=f"{possible:,.0f} /s",
            ratio=f"{of_possible:.2f}",
            limit=f"{MIN_OF_POSSIBLE}",
            holds=of_possible >= MIN_OF_POSSIBLE,
        ),
    ]
    for name, what in (
        ("fast", f"{CONNECTIONS} connections"),
        ("slow", f"20 ms, {SLOW_COMMIT_CONNECTIONS} connections"),
    ):
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
            measured=f"{lock_wait:.1%}",
            limit=f"{MAX_LOCK_WAIT:.0%}",
            holds=lock_wait <= MAX_LOCK_WAIT,
        )
    )
    return rows


def _per_second(rate: Rate) -> str:
    return f"{rate.steps_per_second:,.0f} /s"


def _measure_rate(folder: Path, url: str, processes: int, connections: int) -> Rate:
    """Measure collectors that share the connections. An empty URL stands for SQLite."""
    folder.mkdir()
    names = [f"host{number}" for number in range(connections)]
    issued = ingest.host_tokens(Database(url or sqlite_url(folder)), names)
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(collector(folder, url)) for _ in range(processes)]
        with _sample_lock_waits(url) as samples:
            reporting = [(port, issued[number::processes]) for number, (port, _) in enumerate(running)]
            before = sum(ingest.processor_seconds(process) for _, process in running)
            seconds, count = uvloop.run(ingest.report_steps(reporting, SECONDS))
            processor = sum(ingest.processor_seconds(process) for _, process in running) - before
    assert samples or not url, "nothing could be asked about locks"
    share = sum(samples) / len(samples) / processes if samples else 0.0
    return Rate(len(seconds) / SECONDS, processor / count, share)


@contextlib.contextmanager
def _sample_lock_waits(url: str) -> Iterator[Sequence[int]]:
    """Count the sessions that wait for a lock, every 20 ms until the end of the block.

    Yields a list that gets the counts. It stays empty for SQLite.
    """
    samples: list[int] = []
    is_over = threading.Event()

    def poll() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not is_over.wait(0.02):
                row = connection.execute(_LOCK_WAITS).fetchone()
                samples.append(int(row[0]) if row else 0)

    if not url:
        yield samples
        return
    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def main() -> int:
    """Measure the rates. Return the exit status: 1 if a limit is exceeded."""
    if postgresql.programs() is None:
        print("PostgreSQL is not installed", file=sys.stderr)
        return 1
    return publish(measured(), PAGE)


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-scale`: what collectors add up to, on SQLite and on PostgreSQL, for docs/project/scale.md.

Each process serves hosts of its own over connections that report one step after the other, all on disk. A
commit that takes 20 ms stands for a database on another machine with disks of its own: there collectors wait,
and only processes that write side by side get further.
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
FEW: Final = 12
"""Of each process where a commit takes its time: the processors are not what is measured."""
PROCESSES: Final = 4
DELAY: Final = 0.02
SECONDS: Final = 6.0
ROUNDS: Final = 3
LEAST_OF_SQLITE: Final = 0.8
LEAST_OF_ONE: Final = 3.5
MOST_WAITING: Final = 0.05
_SAMPLE: Final = """
SELECT count(*) FILTER (WHERE wait_event_type = 'Lock') FROM pg_stat_activity
WHERE datname = current_database() AND state <> 'idle'
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate of one or more collectors."""

    steps_per_second: float
    waiting: float = 0.0
    """The share of the time that a process waits for locks in the database."""


def measured() -> list[Row]:
    """Measure in turns, so that whatever else the machine does hits all of them."""
    quick = {"synchronous_commit": "on"}
    slow = {"commit_delay": str(int(DELAY * 1e6)), "commit_siblings": "0"}
    measured: dict[str, list[Rate]] = {"sqlite": [], "postgresql": [], "one": [], "four": []}
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        folders = (Path(directory) / str(number) for number in itertools.count())
        with postgresql.cluster(quick) as fast, postgresql.cluster(slow) as delayed:
            for _ in range(ROUNDS):
                measured["sqlite"].append(_rate(next(folders), "", 1, CONNECTIONS))
                with fast.migrated() as url:
                    measured["postgresql"].append(_rate(next(folders), url, 1, CONNECTIONS))
                with delayed.migrated() as url:
                    measured["one"].append(_rate(next(folders), url, 1, FEW))
                with delayed.migrated() as url:
                    measured["four"].append(_rate(next(folders), url, PROCESSES, FEW))
    middle = {
        name: sorted(rates, key=lambda one: one.steps_per_second)[ROUNDS // 2]
        for name, rates in measured.items()
    }
    found_rates = _figures(middle["sqlite"], middle["postgresql"], middle["one"], middle["four"])
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        return [*found_rates, *viewers.rows(Path(directory) / "viewers")]


def _figures(sqlite: Rate, fast: Rate, one: Rate, four: Rate) -> list[Row]:
    delay = f"a commit of {DELAY * 1e3:.0f} ms, {FEW} connections each"
    of_sqlite, of_one = (
        fast.steps_per_second / sqlite.steps_per_second,
        four.steps_per_second / one.steps_per_second,
    )
    waiting = max(fast.waiting, four.waiting)
    return [
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
        Row(what=f"PostgreSQL, 1 process, {delay}", measured=_per_second(one)),
        Row(
            what=f"PostgreSQL, {PROCESSES} processes, {delay}",
            measured=_per_second(four),
            against="1 process",
            reference=_per_second(one),
            ratio=f"{of_one:.2f}",
            limit=f"{LEAST_OF_ONE}",
            holds=of_one >= LEAST_OF_ONE,
        ),
        Row(
            what="PostgreSQL: time that a process waits for locks, at most",
            measured=f"{waiting:.1%}",
            limit=f"{MOST_WAITING:.0%}",
            holds=waiting <= MOST_WAITING,
        ),
    ]


def _per_second(rate: Rate) -> str:
    return f"{rate.steps_per_second:,.0f} /s"


def _rate(folder: Path, url: str, processes: int, connections: int) -> Rate:
    folder.mkdir()
    names = [f"host{number}" for number in range(processes * connections)]
    issued = ingest.host_tokens(Database(url or sqlite_url(folder)), names)
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(collector(folder, url))[0] for _ in range(processes)]
        with _watched(url) as samples:
            reporting = [(port, issued[number::processes]) for number, port in enumerate(ports)]
            seconds, _ = uvloop.run(ingest.reported(reporting, SECONDS))
    share = sum(samples) / len(samples) / processes if samples else 0.0
    return Rate(len(seconds) / SECONDS, share)


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

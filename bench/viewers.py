"""Measure what many viewers of the fleet cost its hosts: their rate with and without open pages."""

import asyncio
import multiprocessing
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvloop

from bench import fleet, ingest
from bench.collecting import collector
from bench.rounds import resident
from bench.table import Row, memory
from service_record.collector.store.database import Database, sqlite_url

HOSTS: Final = 11_000
VIEWERS: Final = 100
FILTERS: Final = ("?all=1", "?all=1", "?all=1", "?verdict=failed", "?group=dc1")
"""Queries of the viewers, in turns: most look at the whole fleet."""
CONNECTIONS: Final = 128
"""Hosts that report: so many that no token comes more often than the collector takes one."""
SECONDS: Final = 5.0
ROUNDS: Final = 3
LEAST_CHANGES: Final = 0.1
"""Changes that each viewer has to see in a second. With fewer, the measurement is void."""
MOST: Final = 0.1
"""Of the rate of hosts, that viewers may cost."""


def rows(folder: Path) -> list[Row]:
    """Measure in turns: nobody looks, a hundred look.

    What viewers cost is told by the processor time of the collector: on a machine that is busy otherwise a
    rate tells little.
    """
    session, _ = fleet.fill(folder, HOSTS, most_steps=2)
    names = [f"node{number:05d}.example.com" for number in range(CONNECTIONS)]
    reporters = ingest.host_tokens(Database(sqlite_url(folder)), names)
    alone: list[_Sample] = []
    watched: list[_Sample] = []
    spawned = multiprocessing.get_context("spawn")
    changes = spawned.Value("i", 0)
    with collector(folder) as (port, process):
        fleet.wait_for_verdicts(folder)
        for _ in range(ROUNDS):
            alone.append(_sample(port, process, reporters))
            stopped = spawned.Event()
            viewing = spawned.Process(target=_view, args=(port, session, stopped, changes))
            viewing.start()
            time.sleep(4)  # until all have the page
            watched.append(_sample(port, process, reporters))
            stopped.set()
            viewing.join()
        size = resident(process)
    each = changes.value / VIEWERS / ROUNDS / (SECONDS + ingest.WARM)
    assert each > LEAST_CHANGES, f"a viewer saw {each:.2f} changes a second"
    before = statistics.median(one.processor for one in alone)
    after = statistics.median(one.processor for one in watched)
    return [
        Row(
            what=f"SQLite, {HOSTS:,} hosts, {VIEWERS} viewers: processor time for a step",
            measured=f"{after * 1e3:.2f} ms",
            against="no viewer",
            reference=f"{before * 1e3:.2f} ms",
            ratio=f"{after / before:.2f}",
            limit=f"{1 / (1 - MOST):.2f}",
            holds=before / after >= 1 - MOST,
        ),
        Row(
            what=f"the same: steps, {CONNECTIONS} connections",
            measured=f"{statistics.median(one.rate for one in watched):,.0f} /s",
            against="no viewer",
            reference=f"{statistics.median(one.rate for one in alone):,.0f} /s",
        ),
        Row(what="the same: changes that each viewer gets", measured=f"{each:.1f} /s"),
        memory("the same: memory of the collector, at most", size, fleet.MAX_MEMORY_BYTES),
    ]


@dataclass(frozen=True, slots=True)
class _Sample:
    """Steps a second, and the seconds of a processor for each."""

    rate: float
    processor: float


def _sample(port: int, process: int, reporters: list[tuple[str, str]]) -> _Sample:
    before, began = ingest.processor_seconds(process), time.monotonic()
    _, count = uvloop.run(ingest.reported([(port, reporters)], SECONDS))
    took = time.monotonic() - began
    return _Sample(count / took, (ingest.processor_seconds(process) - before) / count)


def _view(port: int, session: str, stopped: Any, changes: Any) -> None:
    """Look at the fleet as browsers do, until it is over; count what changes."""
    uvloop.run(_viewed(port, session, stopped, changes))


async def _viewed(port: int, session: str, stopped: Any, changes: Any) -> None:
    filters = (FILTERS[number % len(FILTERS)] for number in range(VIEWERS))
    viewers = [asyncio.create_task(_looked(port, session, of_viewer, changes)) for of_viewer in filters]
    await asyncio.to_thread(stopped.wait)
    for viewer in viewers:
        viewer.cancel()
    await asyncio.gather(*viewers, return_exceptions=True)


async def _looked(port: int, session: str, filters: str, changes: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    cookie = f"Cookie: service-record={session}"
    request = f"GET /events{filters}&state=old HTTP/1.1\r\nHost: collector\r\n{cookie}\r\n\r\n"
    writer.write(request.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    while line := await reader.readline():
        if line == b"event: change\n":
            with changes.get_lock():
                changes.value += 1

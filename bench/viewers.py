"""Measure how much open pages slow down the reports of hosts."""

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
"""Queries of the viewers, in turns. Most of them show the whole fleet."""
CONNECTIONS: Final = 128
"""Hosts that report, each on a connection: enough to keep each below its rate limit."""
SECONDS: Final = 5.0
ROUNDS: Final = 3
MIN_CHANGES: Final = 0.1
"""Changes that each viewer must receive in a second. With fewer, the measurement is invalid."""
MAX_SHARE: Final = 0.1
"""Limit for the share of the processor time that viewers may take."""


def rows(folder: Path) -> list[Row]:
    """Measure without and with viewers, in turns.

    The limit is for the collector's processor time: rates depend on other work of the machine.
    """
    session, _ = fleet.fill(folder, HOSTS, most_steps=2)
    names = [f"node{number:05d}.example.com" for number in range(CONNECTIONS)]
    reporters = ingest.host_tokens(Database(sqlite_url(folder)), names)
    without_viewers: list[_Sample] = []
    with_viewers: list[_Sample] = []
    spawned = multiprocessing.get_context("spawn")
    changes = spawned.Value("i", 0)
    measured_changes = 0
    with collector(folder) as (port, process):
        fleet.wait_for_verdicts(folder)
        for _ in range(ROUNDS):
            without_viewers.append(_measure(port, process, reporters))
            stopped = spawned.Event()
            viewing = spawned.Process(target=_run_viewers, args=(port, session, stopped, changes))
            viewing.start()
            time.sleep(4)  # until all viewers have the page
            before_measurement = changes.value
            with_viewers.append(_measure(port, process, reporters))
            measured_changes += changes.value - before_measurement
            stopped.set()
            viewing.join()
            assert viewing.exitcode == 0, "a viewer got no events"
        size = resident(process)
    each = measured_changes / VIEWERS / ROUNDS / (SECONDS + ingest.WARM_UP_SECONDS)
    assert each > MIN_CHANGES, f"a viewer received {each:.2f} changes a second"
    before = statistics.median(sample.processor for sample in without_viewers)
    after = statistics.median(sample.processor for sample in with_viewers)
    return [
        Row(
            what=f"SQLite, {HOSTS:,} hosts, {VIEWERS} viewers: processor time for a step",
            measured=f"{after * 1e3:.2f} ms",
            against="no viewer",
            reference=f"{before * 1e3:.2f} ms",
            ratio=f"{after / before:.2f}",
            limit=f"{1 / (1 - MAX_SHARE):.2f}",
            holds=before / after >= 1 - MAX_SHARE,
        ),
        Row(
            what=f"the same: steps, {CONNECTIONS} connections",
            measured=f"{statistics.median(sample.rate for sample in with_viewers):,.0f} /s",
            against="no viewer",
            reference=f"{statistics.median(sample.rate for sample in without_viewers):,.0f} /s",
        ),
        Row(what="the same: changes that each viewer gets", measured=f"{each:.1f} /s"),
        memory("the same: memory of the collector, at most", size, fleet.MAX_MEMORY_BYTES),
    ]


@dataclass(frozen=True, slots=True)
class _Sample:
    """One measurement."""

    rate: float
    """Steps a second."""
    processor: float
    """Processor time of the collector for a step, in seconds."""


def _measure(port: int, process: int, reporters: list[tuple[str, str]]) -> _Sample:
    before, began = ingest.processor_seconds(process), time.monotonic()
    _, count = uvloop.run(ingest.report_steps([(port, reporters)], SECONDS))
    took = time.monotonic() - began
    return _Sample(count / took, (ingest.processor_seconds(process) - before) / count)


def _run_viewers(port: int, session: str, stopped: Any, changes: Any) -> None:
    """Receive the fleet's events as browsers do, until `stopped` is set. Count the changes."""
    uvloop.run(_receive_all(port, session, stopped, changes))


async def _receive_all(port: int, session: str, stopped: Any, changes: Any) -> None:
    filters = (FILTERS[number % len(FILTERS)] for number in range(VIEWERS))
    viewers = [asyncio.create_task(_receive_events(port, session, query, changes)) for query in filters]
    await asyncio.to_thread(stopped.wait)
    for viewer in viewers:
        viewer.cancel()
    for ended in await asyncio.gather(*viewers, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError), ended  # the connection of a viewer ended early


async def _receive_events(port: int, session: str, filters: str, changes: Any) -> None:
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

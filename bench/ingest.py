"""Measure how many steps a second the collector acknowledges, compared with inserting rows into SQLite."""

import asyncio
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import uvloop
from sqlalchemy import insert

from bench.table import Row, times
from service_record.collector.domain.access import TokenKind
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import hosts, steps

CONNECTIONS: Final = 96
BATCH: Final = 100
"""Number of steps in one request of a gateway."""
GATEWAYS: Final = 8
MIN_PER_SECOND: Final = 1_500
"""Promised rate of steps."""
SECONDS: Final = 8.0
"""Duration of a measurement."""
WARM_UP_SECONDS: Final = 2.0
"""Time before a measurement in which reports are sent but not counted."""
_NAMES: Final = ("Disk setup", "Packages", "Bootloader", "Network", "Users", "Services", "Reboot", "Callback")
_FLOOR_BATCHES: Final = 200

StartCollector = Callable[[Path], AbstractContextManager[tuple[int, int]]]


def rows(folder: Path, collector: StartCollector) -> list[Row]:
    """Measure steps of one host on each connection. The next step is sent when the last one is acknowledged.

    `collector` runs a collector with a folder, and yields its port and process id.
    """
    folder.mkdir(parents=True)
    issued = host_tokens(Database(sqlite_url(folder)), [f"host{number}" for number in range(CONNECTIONS)])
    with collector(folder) as (port, process):
        before = processor_seconds(process)
        seconds, count = uvloop.run(report_steps([(port, issued)], SECONDS))
        processor = (processor_seconds(process) - before) / count
    database = Database(sqlite_url(folder))
    with database.changing() as connection:
        gateway = tokens.TokenRequest(kind=TokenKind.GROUP, scope="dc1")
        token = tokens.create(connection, gateway, time.time())
    database.close()
    with collector(folder) as (port, _):
        in_batches = uvloop.run(report_batches(port, token, SECONDS))
    rate, floor = len(seconds) / SECONDS, _measure_inserts(folder / "floor")
    slowest = statistics.quantiles(seconds, n=100)[98]
    return [
        Row(
            what=f"collector: durable steps, {CONNECTIONS} connections",
            measured=f"{rate:,.0f} /s",
            against=f"rows alone, {CONNECTIONS} in a transaction",
            reference=f"{floor:,.0f} /s",
            ratio=times(rate, floor),
            limit=f"{MIN_PER_SECOND:,} /s",
            holds=rate >= MIN_PER_SECOND,
        ),
        Row(what="collector: processor time for a step", measured=f"{processor * 1e3:.2f} ms"),
        Row(
            what=f"collector: durable steps, {BATCH} in a request",
            measured=f"{in_batches:,.0f} /s",
            against="one in a request",
            reference=f"{rate:,.0f} /s",
            ratio=f"{in_batches / rate:.2f}",
        ),
        Row(
            what="collector: until a step is acknowledged",
            measured=f"{statistics.median(seconds) * 1e3:.0f} ms",
        ),
        Row(what="collector: the same, 99th of 100", measured=f"{slowest * 1e3:.0f} ms"),
    ]


async def report_batches(port: int, token: str, seconds: float) -> float:
    """Report steps of `BATCH` hosts in each request, from several gateways. Return the steps a second."""
    end = time.monotonic() + seconds

    async def send(gateway: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.monotonic() < end:
            step = _step(count)
            reports = [{"host": f"gate{gateway}-{number}", **step} for number in range(BATCH)]
            writer.write(_post("/api/v1/steps", token, {"reports": reports}))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            assert body.count(b'"status":201') == BATCH, body[:500]
            count += 1
        writer.close()
        return count * BATCH

    counts = await asyncio.gather(*(send(gateway) for gateway in range(GATEWAYS)))
    return sum(counts) / seconds


def host_tokens(database: Database, names: Iterable[str]) -> list[tuple[str, str]]:
    """Create a token for each host, and the tables if they are missing. Return pairs of host and token."""
    database.migrate()
    with database.changing() as connection:
        requests = [tokens.TokenRequest(kind=TokenKind.HOST, scope=name) for name in names]
        issued = [(each.scope, tokens.create(connection, each, time.time())) for each in requests]
    database.close()
    return issued


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


Reporting = Sequence[tuple[int, Sequence[tuple[str, str]]]]
"""Pairs of a collector's port and its hosts, which are pairs of name and token."""


async def report_steps(reporting: Reporting, seconds: float) -> tuple[list[float], int]:
    """Report steps for `WARM_UP_SECONDS` and then for `seconds`.

    Returns the time of each report after the warm-up, in seconds, and the number of all reports.
    """
    begin = time.monotonic() + WARM_UP_SECONDS
    hosts_reporting = (
        _report_host(port, host, token, begin, begin + seconds)
        for port, of_port in reporting
        for host, token in of_port
    )
    done = await asyncio.gather(*hosts_reporting)
    return list(itertools.chain.from_iterable(durations for durations, _ in done)), sum(n for _, n in done)


async def _report_host(port: int, host: str, token: str, begin: float, end: float) -> tuple[list[float], int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    durations = []
    count = 0
    while (before := time.monotonic()) < end:
        writer.write(_request(host, token, count))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201 "), head
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
        count += 1
        after = time.monotonic()
        if before >= begin and after < end:
            durations.append(after - before)
    writer.close()
    return durations, count


def _request(host: str, token: str, count: int) -> bytes:
    return _post(f"/api/v1/hosts/{host}/steps", token, _step(count))


def _step(count: int) -> dict[str, Any]:
    number, is_end = divmod(count, 2)
    build, at = divmod(number, len(_NAMES))
    return {
        "name": _NAMES[at],
        "status": "done" if is_end else "init",
        "build": f"b{build}",
        "percentage": round(100 * (at + is_end) / len(_NAMES)),
    }


def _post(path: str, token: str, body: Any) -> bytes:
    text = json.dumps(body)
    return (
        f"POST {path} HTTP/1.1\r\nHost: collector\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}"
    ).encode()


def _measure_inserts(folder: Path) -> float:
    """Return the rows a second of bare inserts, with as many rows in a transaction as connections."""
    folder.mkdir()
    database = Database(sqlite_url(folder))
    database.migrate()
    with database.changing() as connection:
        connection.execute(insert(hosts), {"name": "host", "first_seen": 0.0, "last_seen": 0.0})
    row = {"host_id": 1, "build": 1, "label": "disk", "name": "Disk", "status": "done", "received_at": 1.0}
    before = time.monotonic()
    for _ in range(_FLOOR_BATCHES):
        with database.changing() as connection:
            connection.execute(insert(steps), [row] * CONNECTIONS)
    seconds = time.monotonic() - before
    database.close()
    return _FLOOR_BATCHES * CONNECTIONS / seconds

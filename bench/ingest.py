"""Measure how many steps a second the collector acknowledges, all on disk, beside bare SQLite."""

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
"""Steps in a request of a gateway."""
GATEWAYS: Final = 8
LEAST: Final = 1_500
"""Steps a second that are promised."""
SECONDS: Final = 8.0
WARM: Final = 2.0
_NAMES: Final = ("Disk setup", "Packages", "Bootloader", "Network", "Users", "Services", "Reboot", "Callback")
_FLOOR_BATCHES: Final = 200

Started = Callable[[Path], AbstractContextManager[tuple[int, int]]]


def rows(folder: Path, collector: Started) -> list[Row]:
    """Measure reports of a host over each connection, one after the other."""
    folder.mkdir(parents=True)
    issued = host_tokens(Database(sqlite_url(folder)), [f"host{number}" for number in range(CONNECTIONS)])
    with collector(folder) as (port, process):
        before = processor_seconds(process)
        seconds, count = uvloop.run(reported([(port, issued)], SECONDS))
        processor = (processor_seconds(process) - before) / count
    database = Database(sqlite_url(folder))
    with database.changing() as connection:
        gateway = tokens.TokenRequest(kind=TokenKind.GROUP, scope="dc1")
        token = tokens.create(connection, gateway, time.time())
    database.close()
    with collector(folder) as (port, _):
        in_batches = uvloop.run(batched(port, token, SECONDS))
    rate, floor = len(seconds) / SECONDS, _floor(folder / "floor")
    slowest = statistics.quantiles(seconds, n=100)[98]
    return [
        Row(
            what=f"collector: durable steps, {CONNECTIONS} connections",
            measured=f"{rate:,.0f} /s",
            against=f"rows alone, {CONNECTIONS} in a transaction",
            reference=f"{floor:,.0f} /s",
            ratio=times(rate, floor),
            limit=f"{LEAST:,} /s",
            holds=rate >= LEAST,
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


async def batched(port: int, token: str, seconds: float) -> float:
    """Return the steps a second of gateways that each send a step of `BATCH` hosts in a request."""
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
    """Make the tables where there are none, and a token for each of these hosts; return both."""
    database.migrate()
    with database.changing() as connection:
        requests = [tokens.TokenRequest(kind=TokenKind.HOST, scope=name) for name in names]
        issued = [(each.scope, tokens.create(connection, each, time.time())) for each in requests]
    database.close()
    return issued


def processor_seconds(process: int) -> float:
    """Seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


Reporting = Sequence[tuple[int, Sequence[tuple[str, str]]]]
"""Ports of collectors, each with the hosts that report there, and their tokens."""


async def reported(reporting: Reporting, seconds: float) -> tuple[list[float], int]:
    """Report for `seconds`. Return the time in seconds of each report after the first moments, and the number
    of all.
    """
    begin = time.monotonic() + WARM
    hosts_reporting = (
        _reports(port, host, token, begin, begin + seconds)
        for port, of_port in reporting
        for host, token in of_port
    )
    done = await asyncio.gather(*hosts_reporting)
    return list(itertools.chain.from_iterable(durations for durations, _ in done)), sum(n for _, n in done)


async def _reports(port: int, host: str, token: str, begin: float, end: float) -> tuple[list[float], int]:
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


def _floor(folder: Path) -> float:
    """Rows a second where they are only written, as many in a transaction as there were connections."""
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

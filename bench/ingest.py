"""Measure how many steps a second the collector acknowledges, all on disk, beside bare SQLite."""

import asyncio
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvloop
from sqlalchemy import insert

from service_record.collector.domain.access import TokenKind
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import hosts, steps

CONNECTIONS: Final = 64
LEAST: Final = 1_500
"""Steps a second that are promised."""
SECONDS: Final = 8.0
WARM: Final = 2.0
_NAMES: Final = ("Disk setup", "Packages", "Bootloader", "Network", "Users", "Services", "Reboot", "Callback")
_FLOOR_BATCHES: Final = 200

Started = Callable[[Path], AbstractContextManager[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in seconds."""

    steps_per_second: float
    floor_per_second: float
    processor: float
    """Of the collector, for a step."""
    median: float
    slowest: float
    """The 99th of 100."""


def measured(folder: Path, collector: Started) -> Measured:
    """Reports of a host over each connection, one after the other."""
    folder.mkdir(parents=True)
    database = Database(sqlite_url(folder))
    database.migrate()
    with database.changing() as connection:
        tokens_of_hosts = [
            tokens.create(
                connection, tokens.TokenRequest(kind=TokenKind.HOST, scope=f"host{number}"), time.time()
            )
            for number in range(CONNECTIONS)
        ]
    database.close()
    with collector(folder) as (port, process):
        before = processor_seconds(process)
        by_port = [(port, [(f"host{number}", token) for number, token in enumerate(tokens_of_hosts)])]
        seconds, count = uvloop.run(reported(by_port, SECONDS))
        processor = (processor_seconds(process) - before) / count
    cuts = statistics.quantiles(seconds, n=100)
    floor = _floor(folder / "floor")
    return Measured(len(seconds) / SECONDS, floor, processor, statistics.median(seconds), cuts[98])


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
    number, is_end = divmod(count, 2)
    build, at = divmod(number, len(_NAMES))
    body: dict[str, Any] = {
        "name": _NAMES[at],
        "status": "done" if is_end else "init",
        "build": f"b{build}",
        "percentage": round(100 * (at + is_end) / len(_NAMES)),
    }
    text = json.dumps(body)
    return (
        f"POST /api/v1/hosts/{host}/steps HTTP/1.1\r\nHost: collector\r\nAuthorization: Bearer {token}\r\n"
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

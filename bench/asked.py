"""Measure how long readers wait over HTTP for a collector that has run for a long time."""

import http.client
import statistics
import time
from pathlib import Path
from typing import Final

from sqlalchemy import func, select

from bench import fleet
from service_record.collector.domain.access import TokenKind, presented
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import hosts

GROWTH: Final = (1, 100, 1_000, 10_000)
"""Numbers of hosts: what is promised is promised of the last."""
MOST_MEMORY: Final = 300_000_000
"""Bytes."""
REQUESTS: Final = (
    ("fleet page", "/?all=1", 0.3),
    ("fleet page, those in trouble", "/?verdict=failed&verdict=stuck&verdict=looping", 0.3),
    ("fleet page, one rack", "/?group=dc1%2Frack2", 0.3),
    ("fleet as JSON", "/api/v1/hosts", 0.3),
    ("host page", "/hosts/node00007.example.com", 0.15),
    ("host as JSON", "/api/v1/hosts/node00007.example.com", 0.15),
    ("statistics page", "/statistics", 0.3),
)
"""Requests by name: the path, and the seconds that an answer may take."""
_TIMES: Final = 9


def fill(data: Path, count: int, most_steps: int = fleet.STEPS) -> tuple[str, str]:
    """So many hosts with their steps; a session and a token of somebody who may read."""
    data.mkdir(parents=True)
    database = Database(sqlite_url(data))
    database.migrate()
    fleet.filled(database, count, most_steps)
    now = time.time()
    with database.changing() as connection:
        token = tokens.create(connection, tokens.TokenRequest(kind=TokenKind.READER), now)
        holder = presented(token)
        assert holder is not None
        session = tokens.begin(connection, holder.id, now)
    database.close()
    return session, token


def wait_for_verdicts(data: Path) -> None:
    """Wait until every host has a verdict: the generated hosts are news to the collector."""
    database = Database(sqlite_url(data))
    due = select(func.count()).select_from(hosts).where(hosts.c.due_at <= time.time())
    while True:
        with database.reading() as connection:
            if not connection.execute(due).scalar_one():
                break
        time.sleep(0.1)
    database.close()


def median(port: int, path: str, session: str, token: str) -> float:
    """Seconds until an answer is whole."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Authorization": f"Bearer {token}"} if path.startswith("/api/") else {}
    times = []
    for _ in range(_TIMES + 1):
        before = time.monotonic()
        connection.request("GET", path, headers={**headers, "Cookie": f"service-record={session}"})
        response = connection.getresponse()
        response.read()
        times.append(time.monotonic() - before)
        assert response.status == http.HTTPStatus.OK, (path, response.status)
    connection.close()
    return statistics.median(times[1:])  # the first one waits for templates to be compiled

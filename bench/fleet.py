"""A collector of many hosts in a build or at its end, and how long its readers wait over HTTP."""

import http.client
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Text, case, cast, func, insert, literal, select, update

from service_record.collector.domain.access import TokenKind, presented
from service_record.collector.domain.progress import Progress, advance, ended, first
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import builds, counters, durations, hosts, steps

STEPS: Final = 100
"""Of each host: fifty that begin and end."""
GROWTH: Final = (1, 100, 1_000, 10_000)
"""Numbers of hosts: what is promised is promised of the last."""
MOST_MEMORY: Final = 300_000_000
"""Bytes."""
LARGE: Final = 100_000
"""Hosts of a large fleet, with two steps each; two of five are in trouble."""
LARGE_REQUESTS: Final = (
    ("fleet page", "/", 0.3),
    ("fleet page, those in trouble", "/?verdict=failed&verdict=stuck&verdict=looping", 0.3),
    ("fleet page, one rack", "/?group=dc1%2Frack2", 0.3),
)
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
_START: Final = 1_795_000_000.0
_LOGS: Final = "Installing: kernel-core-5.14.0-570.el9.x86_64\n" * 4


def fill(data: Path, count: int, most_steps: int = STEPS) -> tuple[str, str]:
    """So many hosts with their steps; a session and a token of somebody who may read."""
    data.mkdir(parents=True)
    database = Database(sqlite_url(data))
    database.migrate()
    _filled(database, count, most_steps)
    now = time.time()
    with database.changing() as connection:
        token = tokens.create(connection, tokens.TokenRequest(kind=TokenKind.READER), now)
        holder = presented(token)
        assert holder is not None
        session = tokens.begin(connection, holder.id, now)
    database.close()
    return session, token


def put_in_trouble(data: Path) -> None:
    """Give two of five hosts one of 200 causes, as if they had been judged."""
    now, digit = time.time(), hosts.c.id % 10
    words = {0: "failed", 1: "stuck", 2: "looping", 3: "silent", 4: "progressing"}
    verdict = case(words, value=digit, else_="done")
    cause = case((digit < 4, literal("cause") + cast(hosts.c.id % 200, Text)), else_="")
    database = Database(sqlite_url(data))
    with database.changing() as connection:
        connection.execute(
            update(hosts).values(
                verdict=verdict,
                cause=cause,
                reason="Disk setup failed: no space left on device",
                verdict_since=now,
                updated_at=now,
                due_at=None,
            )
        )
    database.close()


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


def _filled(database: Database, number_of_hosts: int, most_steps: int) -> None:
    """Fill a database with hosts in the midst of a build or at its end; every fiftieth failed."""
    for beginning in range(0, number_of_hosts, 500):
        with database.changing() as connection:
            for number in range(beginning, min(beginning + 500, number_of_hosts)):
                _fill(connection, number, most_steps)
    with database.changing() as connection:  # they have taken numbers of steps
        latest = select(func.max(steps.c.id)).scalar_subquery()
        connection.execute(update(counters).where(counters.c.name == "steps").values(latest=latest))


def _fill(connection: Connection, number: int, most_steps: int) -> None:
    progress = first(next(_reports(number)), 1, _START)
    rows, ends = [], []
    for order, step in enumerate(islice(_reports(number), most_steps)):
        at = _START + number + order * 7
        ends += [_duration(number, at, one) for one in ended(progress, step, at)]
        progress = advance(progress, step, at)
        rows.append(_step(number, order, step, at))
    connection.execute(insert(hosts), [_host(number, progress)])
    connection.execute(insert(builds), [_build(number, progress)])
    connection.execute(insert(steps), rows)
    connection.execute(insert(durations), ends)


def _reports(number: int) -> Iterator[ReportedStep]:
    for order in range(STEPS // 2):
        name = f"Step {order}"
        is_failed = number % 50 == 0 and order == STEPS // 2 - 1
        yield ReportedStep(label=f"step_{order}", name=name, status=StepStatus.INIT, action="install")
        status = StepStatus.FAILED if is_failed else StepStatus.DONE
        percentage = 2.0 * (order + 1) if number % 3 else None
        yield ReportedStep(label=f"step_{order}", name=name, status=status, percentage=percentage, logs=_LOGS)


def _host(number: int, progress: Progress) -> dict[str, Any]:
    return {
        "id": number + 1,
        "name": f"node{number:05d}.example.com",
        "group": f"dc{number % 4}/rack{number % 40}",
        "release": f"9.{number % 3}",
        "first_seen": _START,
        "last_seen": progress.updated_at,
        "build": 1,
        "action": "install",
        "percentage": progress.percentage,
        "message": f"{progress.name}: {_LOGS}"[:500],
        "started_at": progress.started_at,
        "updated_at": progress.updated_at,
        "ended_at": progress.ended_at,
        "progress": msgspec.json.encode(progress),
        "due_at": 0.0,
    }


def _build(number: int, progress: Progress) -> dict[str, Any]:
    times = {"started_at": progress.started_at, "updated_at": progress.updated_at}
    return {"host_id": number + 1, "number": 1, "ended_at": progress.ended_at, **times}


def _step(number: int, order: int, step: ReportedStep, at: float) -> dict[str, Any]:
    return {
        "host_id": number + 1,
        "build": 1,
        "label": step.label,
        "name": step.name,
        "status": step.status.value,
        "percentage": step.percentage,
        "action": step.action,
        "logs": step.logs,
        "boot_id": f"boot-{order // 40}",
        "received_at": at,
    }


def _duration(number: int, at: float, one: Any) -> dict[str, Any]:
    return {
        "host_id": number + 1,
        "build": 1,
        "label": one.label,
        "group": f"dc{number % 4}/rack{number % 40}",
        "release": f"9.{number % 3}",
        "seconds": one.seconds,
        "status": one.status.value,
        "signature": "Installing: kernel-core-<number>" if one.status == "failed" else "",
        "ended_at": at,
    }

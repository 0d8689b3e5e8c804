"""Fill a collector with many hosts, and measure how long its pages and answers take over HTTP."""

import http.client
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Text, case, cast, func, insert, literal, select, update

from service_record.collector.domain.access import TokenKind, parse_token
from service_record.collector.domain.progress import (
    Progress,
    StepFinished,
    advance,
    begin_progress,
    list_finished_steps,
)
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import builds, counters, durations, hosts, steps

STEPS_PER_HOST: Final = 100
"""Reports of each host: `init` and `done` of fifty steps."""
HOST_COUNTS: Final = (1, 100, 1_000, 10_000)
"""Sizes of fleets. The limits are promised for the last one."""
MAX_MEMORY_BYTES: Final = 300_000_000
LARGE_FLEET_HOSTS: Final = 100_000
"""Hosts of a large fleet, with two reports each. Two of five are in trouble."""
LARGE_REQUESTS: Final = (
    ("fleet page", "/", 0.3),
    ("fleet page, those in trouble", "/?verdict=failed&verdict=stuck&verdict=looping", 0.3),
    ("fleet page, one rack", "/?group=dc1%2Frack2", 0.3),
    ("fleet page, search that finds one host", "/?search=node00777", 0.3),
    ("fleet page, search that finds all in trouble", "/?search=no+space", 0.3),
    ("hosts by rack", "/groups?by=rack", 0.3),
    ("hosts by hardware", "/groups?by=hardware", 0.3),
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
"""Name, path, and the longest time of an answer in seconds."""
_MEASUREMENTS: Final = 9
_START: Final = 1_795_000_000.0
"""Time of the first report, in seconds since 1970."""
_LOGS: Final = "Installing: kernel-core-5.14.0-570.el9.x86_64\n" * 4


def fill(data: Path, count: int, most_steps: int = STEPS_PER_HOST) -> tuple[str, str]:
    """Create a SQLite database with `count` hosts, each with at most `most_steps` reports.

    Returns a session and a token of a reader.
    """
    data.mkdir(parents=True)
    database = Database(sqlite_url(data))
    database.migrate()
    _insert_hosts(database, count, most_steps)
    now = time.time()
    with database.changing() as connection:
        token = tokens.create(connection, tokens.TokenRequest(kind=TokenKind.READER), now)
        holder = parse_token(token)
        assert holder is not None
        session = tokens.begin(connection, holder.id, now)
    database.close()
    return session, token


def put_in_trouble(data: Path) -> None:
    """Set the verdict and cause of each host. Two of five hosts are in trouble, with 80 causes in all."""
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
    """Wait until the collector has judged every host. `fill` inserts hosts without a verdict."""
    database = Database(sqlite_url(data))
    due = select(func.count()).select_from(hosts).where(hosts.c.due_at <= time.time())
    while True:
        with database.reading() as connection:
            if not connection.execute(due).scalar_one():
                break
        time.sleep(0.1)
    database.close()


def median_seconds(port: int, path: str, session: str, token: str) -> float:
    """Return the median time from a request to the end of its answer, in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Authorization": f"Bearer {token}"} if path.startswith("/api/") else {}
    times = []
    for _ in range(_MEASUREMENTS + 1):
        before = time.monotonic()
        connection.request("GET", path, headers={**headers, "Cookie": f"service-record={session}"})
        response = connection.getresponse()
        response.read()
        times.append(time.monotonic() - before)
        assert response.status == http.HTTPStatus.OK, (path, response.status)
    connection.close()
    return statistics.median(times[1:])  # the first request compiles templates


def _insert_hosts(database: Database, count: int, most_steps: int) -> None:
    """Insert hosts with one build each. If all steps are inserted, the last step of every fiftieth failed."""
    for beginning in range(0, count, 500):
        with database.changing() as connection:
            for number in range(beginning, min(beginning + 500, count)):
                _insert_host(connection, number, most_steps)
    with database.changing() as connection:
        # The collector takes the ids of new steps from this counter.
        latest = select(func.max(steps.c.id)).scalar_subquery()
        connection.execute(update(counters).where(counters.c.name == "steps").values(latest=latest))


def _insert_host(connection: Connection, number: int, most_steps: int) -> None:
    progress = begin_progress(next(_make_reports(number)), 1, _START)
    rows, ends = [], []
    for order, step in enumerate(islice(_make_reports(number), most_steps)):
        at = _START + number + order * 7
        ends += [_duration_row(number, at, finished) for finished in list_finished_steps(progress, step, at)]
        progress = advance(progress, step, at)
        rows.append(_step_row(number, order, step, at))
    connection.execute(insert(hosts), [_host_row(number, progress)])
    connection.execute(insert(builds), [_build_row(number, progress)])
    connection.execute(insert(steps), rows)
    connection.execute(insert(durations), ends)


def _make_reports(number: int) -> Iterator[ReportedStep]:
    for order in range(STEPS_PER_HOST // 2):
        name = f"Step {order}"
        is_failed = number % 50 == 0 and order == STEPS_PER_HOST // 2 - 1
        yield ReportedStep(label=f"step_{order}", name=name, status=StepStatus.INIT, action="install")
        status = StepStatus.FAILED if is_failed else StepStatus.DONE
        percentage = 2.0 * (order + 1) if number % 3 else None
        yield ReportedStep(label=f"step_{order}", name=name, status=status, percentage=percentage, logs=_LOGS)


def _host_row(number: int, progress: Progress) -> dict[str, Any]:
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


def _build_row(number: int, progress: Progress) -> dict[str, Any]:
    times = {"started_at": progress.started_at, "updated_at": progress.updated_at}
    return {"host_id": number + 1, "number": 1, "ended_at": progress.ended_at, **times}


def _step_row(number: int, order: int, step: ReportedStep, at: float) -> dict[str, Any]:
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


def _duration_row(number: int, at: float, finished: StepFinished) -> dict[str, Any]:
    return {
        "host_id": number + 1,
        "build": 1,
        "label": finished.label,
        "group": f"dc{number % 4}/rack{number % 40}",
        "release": f"9.{number % 3}",
        "seconds": finished.seconds,
        "status": finished.status.value,
        "signature": "Installing: kernel-core-<number>" if finished.status is StepStatus.FAILED else "",
        "ended_at": at,
    }

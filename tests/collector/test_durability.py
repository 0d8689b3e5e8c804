"""Acknowledged reports are on disk, even if the collector or its database is killed.

SERVICE_RECORD_TORTURE says how often a collector is killed; 5 times where it is not set. Those on
PostgreSQL, and PostgreSQL itself, are killed less often.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select, text

from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import hosts, notices, steps
from testing import postgresql
from testing.collector import process
from testing.postgresql import Cluster
from tests.collector.processes import Load, create_admin_tokens, load
from tests.collector.serving import make_collector_settings

KILLS: Final = int(os.environ.get("SERVICE_RECORD_TORTURE") or 5)
LESS: Final = KILLS * 2 // 5
pytestmark = [pytest.mark.xdist_group("lasting collectors"), pytest.mark.timeout(120 + 30 * KILLS)]


@pytest.fixture(scope="module")
def lasting_cluster() -> Iterator[Cluster]:
    """A PostgreSQL with its default settings, so that commits are on disk."""
    if postgresql.programs() is None:
        pytest.skip("no PostgreSQL is installed")
    with postgresql.cluster({}) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CollectorSettings]:
    """Settings of a collector with durable commits. The test runs once with each database."""
    if request.param == "sqlite":
        yield make_collector_settings(tmp_path)
        return
    cluster: Cluster = request.getfixturevalue("lasting_cluster")
    with cluster.migrated() as url:
        yield make_collector_settings(tmp_path, database=url)


def opened(settings: CollectorSettings) -> Database:
    settings.data.mkdir(exist_ok=True)
    database = Database(settings.database or sqlite_url(settings.data))
    database.migrate()
    return database


def kept(database: Database) -> list[tuple[int, str]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(select(steps.c.id, steps.c.name))]


def assert_nothing_is_lost(database: Database, loads: list[Load]) -> None:
    acknowledged = {name: number for each in loads for name, number in each.acknowledged.items()}
    sent = {name for each in loads for name in each.sent}
    found = kept(database)
    by_name = {name: number for number, name in found}
    assert {name: by_name.get(name) for name in acknowledged} == acknowledged
    assert len(by_name) == len(found), "a step was kept twice"
    assert by_name.keys() <= sent


def test_killed_collector_loses_nothing_acknowledged(lasting: CollectorSettings) -> None:
    database = opened(lasting)
    tokens = create_admin_tokens(database)
    loads = []
    for _ in range(KILLS if database.is_sqlite else LESS):
        wanted = random.randint(1, 100)
        with process(lasting) as collector, load([collector.url], tokens) as going:
            going.wait_for_more(wanted)
            collector.end(signal.SIGKILL)
        loads.append(going)
    assert_nothing_is_lost(database, loads)
    if database.is_sqlite:
        with database.reading() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
    database.close()


def test_killing_one_of_four_collectors_loses_nothing(lasting_cluster: Cluster, tmp_path: Path) -> None:
    """Each host reports to all four collectors at once, so that they compete for its row."""
    with lasting_cluster.migrated() as url, contextlib.ExitStack() as running:
        settings = make_collector_settings(tmp_path, database=url)
        database = opened(settings)
        collectors = [running.enter_context(process(settings)) for _ in range(4)]
        urls = [collector.url for collector in collectors]
        with load(urls, create_admin_tokens(database), hosts=4) as going:
            for _ in range(LESS):
                going.wait_for_more(random.randint(1, 100))
                number = random.randrange(4)
                collectors[number].end(signal.SIGKILL)
                port = urlsplit(urls[number]).port or 0
                collectors[number] = running.enter_context(process(settings, port=port))
            going.wait_for_more(100)
        assert set(going.statuses) == {201}
        assert_nothing_is_lost(database, [going])
        database.close()


def test_sigterm_answers_all_accepted_requests(lasting: CollectorSettings) -> None:
    database = opened(lasting)
    tokens = create_admin_tokens(database)
    with process(lasting) as collector, load([collector.url], tokens) as going:
        going.wait_for_more(50)
        slow = half_a_request(collector.url, tokens[0])
        collector.process.send_signal(signal.SIGTERM)
        going.wait_for_broken(1)  # it accepts no more requests
        slow.send(b'"the last"}')
        response = slow.getresponse()
        assert (response.status, response.read()[:6]) == (201, b'{"id":')
        collector.process.wait()
        lines = collector.log.read_text().splitlines()
    assert set(going.statuses) <= {201, 503}
    assert len(lines) == 1, lines
    assert "the last" in {name for _, name in kept(database)}
    assert_nothing_is_lost(database, [going, Load(sent={"the last"})])
    database.close()


def half_a_request(url: str, token: str) -> http.client.HTTPConnection:
    """Send a request without the end of its body. When this returns, the collector is reading the body."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.putrequest("POST", "/api/v1/hosts/slow/steps")
    connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Content-Length", str(len('{"name":"the last"}')))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    assert connection.sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.send(b'{"name":')
    return connection


def test_killed_database_loses_nothing_acknowledged(lasting_cluster: Cluster, tmp_path: Path) -> None:
    with lasting_cluster.migrated() as url:
        settings = make_collector_settings(tmp_path, database=url)
        database = opened(settings)
        tokens = create_admin_tokens(database)
        with process(settings) as collector, load([collector.url], tokens) as going:
            for _ in range(LESS):
                going.wait_for_more(50)
                lasting_cluster.kill()
                going.wait_for_more(16, status=503)
                lasting_cluster.start()
            going.wait_for_more(50)  # it continues by itself
        assert set(going.statuses) == {201, 503}
        assert set(going.retries) == {"5"}
        assert going.broken == 0
        assert_nothing_is_lost(database, [going])
        database.close()


def test_repeated_and_reordered_reports_are_stored_once(lasting: CollectorSettings) -> None:
    """Senders repeat reports whose answer was lost, in any order, while the collector is killed."""
    database = opened(lasting)
    token = create_admin_tokens(database)[0]
    reports = [(f"web{number % 4}", f"Step {number}") for number in range(60)]
    answers: dict[str, int] = {}
    for _ in range(KILLS if database.is_sqlite else LESS):
        sent = random.choices(reports, k=150)
        with process(lasting) as collector:
            kill = threading.Timer(random.uniform(0.05, 1.0), collector.end, [signal.SIGKILL])
            for host, name in sent:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answer = report_with_key(collector.url, token, host, name)
                    assert answers.setdefault(name, answer) == answer
                    if kill.ident is None:  # a busy machine may take long to answer first
                        kill.start()
            kill.join()
    found = [(name, number) for number, name in kept(database)]
    assert len(dict(found)) == len(found), "a step was kept twice"
    assert answers.items() <= dict(found).items()
    assert answers
    database.close()


def report_with_key(url: str, token: str, host: str, name: str) -> int:
    """Report a step. Return the id in the answer."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"key of {name}"}
    with contextlib.closing(connection):
        connection.request("POST", f"/api/v1/hosts/{host}/steps", json.dumps({"name": name}), headers)
        response = connection.getresponse()
        body = response.read()
    assert response.status == 201, body
    return int(json.loads(body)["id"])


def test_absence_beyond_the_budget_sends_no_notice(lasting: CollectorSettings) -> None:
    database = opened(lasting)
    token = create_admin_tokens(database)[0]
    budget = 8.0
    options = ("--budget", f"{budget:.0f}s")
    names = {f"web{number}" for number in range(20)}
    with process(lasting, *options) as collector:
        for host in names:
            report_with_key(collector.url, token, host, f"Packages of {host}")
        collector.end(signal.SIGKILL)
    time.sleep(budget + 4)  # the time that the collector is away is the subject
    with process(lasting, *options):
        back = time.monotonic()
        while time.monotonic() < back + budget / 2:
            assert news(database) == []
            time.sleep(0.1)
        while set(news(database)) != names:  # the time limits of the hosts began again
            assert time.monotonic() < back + 100
            time.sleep(0.1)
        assert time.monotonic() >= back + budget - 1
    database.close()


def news(database: Database) -> list[str]:
    """Return the hosts of all notices."""
    with database.reading() as connection:
        query = select(hosts.c.name).join(notices, notices.c.host_id == hosts.c.id)
        return list(connection.execute(query).scalars())

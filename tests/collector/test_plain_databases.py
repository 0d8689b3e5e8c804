"""A collector on a database without LISTEN and advisory locks, whose transactions are serializable."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.database import Database
from service_record.collector.store.schema import steps
from testing.collector import process
from testing.postgresql import Cluster
from tests.collector.plain_database import RefusingProxy, create_plain_database
from tests.collector.processes import create_admin_tokens, load
from tests.collector.serving import Client, make_collector_settings

REPORTS = 300


@pytest.fixture
def plain(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[CollectorSettings, RefusingProxy]]:
    with create_plain_database(cluster) as (url, proxy):
        yield make_collector_settings(tmp_path, database=url), proxy


def conflicts(client: Client) -> float:
    text = client.get("/metrics").body.decode()
    found = re.search(r"^service_record_conflicts_total (\S+)$", text, re.MULTILINE)
    assert found
    return float(found[1])


def test_four_processes_retry_serialization_failures(
    plain: tuple[CollectorSettings, RefusingProxy],
) -> None:
    settings, proxy = plain
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(process(settings)).url for _ in range(4)]
        database = Database(settings.database)
        tokens = create_admin_tokens(database)
        with load(urls, tokens, hosts=4) as going:
            going.wait_for_more(REPORTS)
        tried_again = sum(conflicts(Client(url, tokens[0])) for url in urls)
    with database.reading() as connection:
        kept = {row.name: row.id for row in connection.execute(select(steps.c.name, steps.c.id))}
    database.close()
    assert set(going.statuses) == {201}
    assert kept == going.acknowledged
    assert tried_again > 0
    assert set(proxy.refused) <= {"listen"}


def test_polling_sees_changes_of_other_processes(plain: tuple[CollectorSettings, RefusingProxy]) -> None:
    settings, proxy = plain

    async def wake_up(collector: Collector, client: Client) -> None:
        news = collector.news.subscribe()
        await asyncio.to_thread(client.step, "web1", "Disk setup")
        await asyncio.wait_for(news.wait(), 30)

    with process(settings) as other, Collector(settings) as collector:
        client = Client(other.url, create_admin_tokens(collector.database, 1)[0])
        for _ in range(3):
            asyncio.run(wake_up(collector, client))
    assert proxy.refused

"""Several collectors share one database."""

import asyncio
import contextlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from sqlalchemy import func, insert, select
from sqlalchemy.engine import make_url

from service_record.collector.domain.access import Grant, TokenKind
from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.administration import put_host
from service_record.collector.store.bundle_rows import LEASE, claim
from service_record.collector.store.database import Database, Listening
from service_record.collector.store.purge import claim_housekeeping
from service_record.collector.store.reporting import Report, record_steps
from service_record.collector.store.schema import bundles, hosts, steps
from testing.collector import process
from testing.postgresql import Cluster
from tests.assisted_rules import AssistedRules
from tests.collector.installing import Agent
from tests.collector.processes import create_admin_tokens, load
from tests.collector.serving import Client, run_collector

FEW_REPORTS = 400
KILL_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'service-record-listening'
"""

KILL_IDLE = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname <> current_database() AND state = 'idle'
"""


def test_change_in_one_process_wakes_others(
    postgresql_settings: CollectorSettings,
) -> None:
    async def wake_up(collector: Collector, client: Client) -> None:
        news = collector.news.subscribe()
        await asyncio.to_thread(client.step, "web1", "Disk setup")
        await asyncio.wait_for(news.wait(), 100)

    with process(postgresql_settings) as other, Collector(postgresql_settings) as collector:
        client = Client(other.url, create_admin_tokens(collector.database, 1)[0])
        for _ in range(3):  # a new listener is always notified once
            asyncio.run(wake_up(collector, client))


def test_processes_count_the_busy_ones(postgresql_settings: CollectorSettings) -> None:
    database = Database(postgresql_settings.database)
    others = [Listening(database, lambda: None) for _ in range(2)]
    ours = Listening(database, lambda: None)
    try:
        assert ours.count_busy() == 1
        end = time.monotonic() + 60
        while ours.count_busy() != 1 + len(others) and time.monotonic() < end:
            for other in others:
                other.announce()
            time.sleep(0.05)
        assert ours.count_busy() == 1 + len(others)

        time.sleep(2)
        others[0].announce()  # as after the beat of an idle process
        time.sleep(0.5)

        assert ours.count_busy() == 1
    finally:
        for each in (*others, ours):
            each.close()


def test_process_listens_again_after_lost_connection(
    postgresql_settings: CollectorSettings, cluster: Cluster
) -> None:
    async def wake_up_again(collector: Collector, client: Client) -> None:
        news = collector.news.subscribe()
        cluster.ask(KILL_LISTENERS)
        await asyncio.wait_for(news.wait(), 100)  # notified that something may have changed meanwhile
        news = collector.news.subscribe()
        await asyncio.to_thread(client.step, "web1", "Disk setup")
        await asyncio.wait_for(news.wait(), 100)

    with process(postgresql_settings) as other, Collector(postgresql_settings) as collector:
        asyncio.run(
            wake_up_again(collector, Client(other.url, create_admin_tokens(collector.database, 1)[0]))
        )


def test_closed_connection_loses_no_change(postgresql_settings: CollectorSettings, cluster: Cluster) -> None:
    with contextlib.closing(Database(postgresql_settings.database)) as database:
        database.migrate()
        cluster.ask(KILL_IDLE)
        with database.changing() as connection:
            put_host(connection, "web1", {}, 1.0)
        cluster.ask(KILL_IDLE)
        with database.reading() as connection:
            assert connection.execute(select(hosts.c.name)).scalars().all() == ["web1"]


def test_cached_token_does_not_recreate_deleted_host(
    settings: CollectorSettings,
) -> None:
    with run_collector(settings) as here, run_collector(settings) as there:
        host, admin = here.client("host", "web1"), here.client("admin")
        elsewhere = Client(there.url, host.token)
        assert elsewhere.step("web1", "Disk setup").status == 201

        assert admin.ask("DELETE", "/api/v1/hosts/web1").status == 204

        records = elsewhere.post("/api/v1/hosts/web1/records", {"pieces": []})
        assert elsewhere.step("web1", "Disk setup").status in {401, 403}
        assert records.status in {401, 403}
        assert admin.get("/api/v1/hosts/web1").status == 404


def test_assisted_calls_do_not_recreate_deleted_host(settings: CollectorSettings) -> None:
    host = AssistedRules().add_host()
    with run_collector(settings) as here, run_collector(settings) as there:
        admin = here.client("admin")
        agent = Agent(Client(there.url, here.client("host", host.id).token), host)
        assert [one["id"] for one in agent.listed()] == [host.id]

        assert admin.ask("DELETE", f"/api/v1/hosts/{host.id}").status == 204

        event = {"severity": "info", "message": "m", "event_time": "2026-11-21", "host_id": host.id}
        answers = {
            "question": agent.ask("GET", f"/v2/clusters/{host.cluster_id}/hosts"),
            "stage": agent.put_stage("Joined"),
            "event": agent.ask("POST", "/v2/events", event),
            "agent": agent.ask("POST", f"/v2/infra-envs/{host.infra_env_id}/hosts", {"host_id": host.id}),
            "bundle": agent.upload(b"a bundle"),
            "template": agent.client.ask("POST", f"/api/v1/hosts/{host.id}/templates?name=ks", body=b"text"),
        }
        taken = {name: reply.status for name, reply in answers.items() if reply.status not in {401, 403, 404}}
        assert taken == {}
        assert admin.get(f"/api/v1/hosts/{host.id}").status == 404


def test_hanging_process_blocks_one_host_briefly(
    postgresql_settings: CollectorSettings,
) -> None:
    url = make_url(postgresql_settings.database).update_query_dict({"options": "-c lock_timeout=200ms"})
    impatient = replace(postgresql_settings, database=url.render_as_string(hide_password=False))
    hanging = Database(postgresql_settings.database)
    with run_collector(impatient) as server:
        host, other = server.client("host", "web1"), server.client("host", "web2")
        host.step("web1", "Disk setup")
        server.settle()
        with hanging.changing() as connection:
            connection.execute(select(hosts).where(hosts.c.name == "web1").with_for_update())
            refused = host.step("web1", "Disk setup", "done")
            of_another = other.step("web2", "Disk setup")
        taken = host.step("web1", "Disk setup", "done")
    hanging.close()
    assert (refused.status, refused.headers["retry-after"], taken.status) == (503, "5", 201)
    assert of_another.status == 201


def test_step_numbers_follow_commits_in_four_processes(
    postgresql_settings: CollectorSettings,
) -> None:
    database = Database(postgresql_settings.database)
    database.migrate()
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(process(postgresql_settings)).url for _ in range(4)]
        with load(urls, create_admin_tokens(database), hosts=3) as going:
            going.wait_for_more(FEW_REPORTS)
    assert set(going.statuses) == {201}
    with database.reading() as connection:
        rows = connection.execute(select(steps.c.host_id, steps.c.id, steps.c.name)).all()
        found = connection.execute(select(hosts.c.id, hosts.c.progress)).all()
    assert {row.name: row.id for row in rows} == going.acknowledged
    assert len(found) == 3
    for host in found:
        last = max((row.id, row.name) for row in rows if row.host_id == host.id)
        assert f'"name":"{last[1]}"'.encode() in host.progress
    database.close()


def test_creating_the_same_hosts_does_not_deadlock(
    postgresql_settings: CollectorSettings,
) -> None:
    """PostgreSQL would end one of the transactions as a deadlock."""
    together = threading.Barrier(4)
    grant, step = Grant(1, TokenKind.ADMIN), ReportedStep(label="disk", name="Disk", status=StepStatus.DONE)

    def report_from(number: int) -> None:
        with contextlib.closing(Database(postgresql_settings.database)) as database:
            for turn in range(20):
                names = [f"new{turn}-{each}" for each in range(30)]
                random.Random(number * 100 + turn).shuffle(names)
                together.wait(60)
                with database.changing() as connection:
                    record_steps(
                        connection, [Report(name, step, 1.0, grant, key=str(number)) for name in names]
                    )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(report_from, range(4)))

    with contextlib.closing(Database(postgresql_settings.database)) as database, database.reading() as rows:
        assert rows.execute(select(func.count()).select_from(steps)).scalar_one() == 4 * 20 * 30
        assert rows.execute(select(func.count()).select_from(hosts)).scalar_one() == 20 * 30


def test_bundle_claim_ends_with_its_process(
    postgresql_settings: CollectorSettings,
) -> None:
    database = Database(postgresql_settings.database)
    database.migrate()
    with database.changing() as connection:
        put_host(connection, "web1", {}, 1.0)
        values = {
            "host_id": 1,
            "build": 0,
            "kind": "host",
            "name": "b",
            "size": 1,
            "sha256": "",
            "received_at": 1.0,
        }
        connection.execute(insert(bundles), [{**values, "key": f"key{number}"} for number in range(5)])

    with database.changing() as one, database.changing() as other:
        claimed = [bundle.id for bundle in claim(one, 10.0, 2)]
        elsewhere = [bundle.id for bundle in claim(other, 10.0, 9)]
    with database.changing() as connection:
        meanwhile = [bundle.id for bundle in claim(connection, 11.0, 9)]
        later = [bundle.id for bundle in claim(connection, 11.0 + LEASE, 9)]
    database.close()

    assert (claimed, elsewhere) == ([1, 2], [3, 4, 5])
    assert (meanwhile, later) == ([], [1, 2, 3, 4, 5])


def test_one_process_does_hourly_housekeeping(settings: CollectorSettings) -> None:
    with Collector(settings) as collector:
        done = [
            collector.writer.change(partial(claim_housekeeping, now=now, seconds=2700.0)).result()
            for now in (10_000.0, 10_001.0, 12_699.0, 12_701.0)
        ]

    assert done == [True, False, False, True]

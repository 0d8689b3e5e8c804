"""Notices of verdicts are delivered to a webhook."""

import base64
import hashlib
import hmac
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import case, func, insert, select, update

from service_record.collector.domain.destinations import DestinationFilter
from service_record.collector.ingest import notifying, senders
from service_record.collector.ingest.notifying import LEASE_SECONDS, Notifier
from service_record.collector.ingest.senders import WebhookSender
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import administration
from service_record.collector.store import notices as store
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.schema import deliveries, hosts, notices
from testing.collector import process
from tests.collector.commands import collector_command
from tests.collector.receiving import Receiver, receive_notices
from tests.collector.serving import Client, make_collector_settings, run_collector
from tests.waiting import run_in_threads

NOW = 1_800_000_000.0
SECRET = b"a secret of many bytes"
REASON = "the <b>disk</b> is gone"


class Desk:
    """A collector without a server. It delivers notices when the test calls `deliver`."""

    def __init__(self, collector: Collector, receiver: Receiver) -> None:
        self.collector, self.receiver, self.now = collector, receiver, NOW

    def deliver(self) -> None:
        collector, sender = self.collector, WebhookSender(self.receiver.url, SECRET, lambda: self.now)
        filters = {"webhook": DestinationFilter()}
        now = lambda: self.now  # noqa: E731
        with closing(
            Notifier(collector.database, collector.writer, "webhook", sender, filters=filters, now=now)
        ) as notifier:
            notifier.deliver_due()

    def news(self, host: str, verdict: str = "failed", at: float = NOW, *, reason: str = "") -> int:
        """Store notices, like the sweeper when a verdict changes."""
        with self.collector.database.changing() as connection:
            administration.put_host(connection, host, {"group": "dc1"}, at)
            host_id = connection.execute(select(hosts.c.id).where(hosts.c.name == host)).scalar_one()
            row = {
                "host_id": host_id,
                "build": 1,
                "verdict": verdict,
                "before": "progressing",
                "reason": reason or f"{REASON} of {host}",
                "at": at,
            }
            number: int = connection.execute(insert(notices).values(row).returning(notices.c.id)).scalar_one()
            return number

    def state(self, number: int) -> tuple[bool, bool, int]:
        """Return whether the delivery is done, whether it waits, and the number of attempts."""
        with self.collector.database.reading() as connection:
            row = connection.execute(select(deliveries).where(deliveries.c.notice_id == number)).one()
        return row.delivered_at is not None, row.next_at is not None, row.tries


@pytest.fixture
def desk(settings: CollectorSettings) -> Iterator[Desk]:
    with receive_notices() as receiver, Collector(settings, lambda: NOW) as collector:
        yield Desk(collector, receiver)


def test_verdict_change_is_sent_once_and_signed(desk: Desk) -> None:
    number = desk.news("web1")

    desk.deliver()
    desk.deliver()

    (notice,) = desk.receiver.notices
    assert notice.data == {
        "id": number,
        "host": "web1",
        "group": "dc1",
        "build": 1,
        "verdict": "failed",
        "before": "progressing",
        "reason": f"{REASON} of web1",
        "at": NOW,
    }
    signed = b".".join((notice.id.encode(), notice.headers["webhook-timestamp"].encode(), notice.body))
    digest = hmac.new(SECRET, signed, hashlib.sha256).digest()
    assert notice.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert desk.state(number) == (True, False, 1)


def test_messages_contain_no_secret(desk: Desk) -> None:
    """Records from hosts may contain secrets, which receivers of notices must not see."""
    desk.news("web1", reason="401 with X-Secret-Key: aB3dE9fG5iJkLmNoP")
    desk.deliver()
    (notice,) = desk.receiver.notices
    assert notice.data["reason"] == "401 with X-Secret-Key: <redacted:token>"


def test_refused_message_is_retried_unchanged(desk: Desk) -> None:
    desk.receiver.statuses = [500, 503]
    number = desk.news("web1")

    desk.deliver()
    desk.deliver()  # not yet
    assert len(desk.receiver.notices) == 1
    desk.now += 5
    desk.deliver()
    desk.now += 5
    desk.deliver()  # the second wait is longer
    assert len(desk.receiver.notices) == 2
    desk.now += 5
    desk.deliver()

    assert desk.receiver.ids == [f"notice_{number}"] * 3
    assert len({notice.body for notice in desk.receiver.notices}) == 1
    assert desk.state(number) == (True, False, 3)


def test_status_410_ends_the_retries(desk: Desk) -> None:
    desk.receiver.statuses = [410]
    number = desk.news("web1")

    desk.deliver()
    desk.now += 80_000
    desk.deliver()

    assert desk.state(number) == (False, False, 1)


def test_refused_messages_delay_only_their_host(desk: Desk) -> None:
    desk.receiver.refused = "stuck"
    first = desk.news("web1", "stuck")
    other = desk.news("web2")
    second = desk.news("web1", "failed")

    desk.deliver()
    assert sorted(desk.receiver.ids) == [f"notice_{first}", f"notice_{other}"]
    desk.receiver.refused = ""
    desk.now += 10
    desk.deliver()

    assert desk.receiver.ids[2:] == [f"notice_{first}", f"notice_{second}"]


def test_digest_of_one_cause_is_retried_unchanged(desk: Desk) -> None:
    desk.receiver.refused = "sda"
    numbers = [desk.news(f"web{number}", reason=f"sda is gone after {number} s") for number in range(36)]
    other = desk.news("db1", reason="no network")

    desk.deliver()
    desk.receiver.refused = ""
    desk.news("web36", reason="sda is gone after 36 s")
    desk.now += 5
    desk.deliver()

    notices = {received.id: received.data for received in desk.receiver.notices}
    digest = notices[f"notice_{numbers[0]}"]
    assert (digest["count"], digest["verdict"], digest["groups"]) == (36, "failed", ["dc1"])
    assert digest["summary"] == "36 hosts failed: sda is gone after 0 s"
    assert [host["host"] for host in digest["hosts"]] == [f"web{number}" for number in range(36)]
    assert desk.receiver.ids.count(f"notice_{numbers[0]}") == 2
    assert len({one.body for one in desk.receiver.notices if one.id == f"notice_{numbers[0]}"}) == 1
    assert notices[f"notice_{other}"]["host"] == "db1"
    assert [data["host"] for data in notices.values() if "count" not in data] == ["db1", "web36"]
    assert all(desk.state(number) == (True, False, 2) for number in numbers)


def test_old_changes_are_not_sent(desk: Desk) -> None:
    desk.news("web1", at=NOW - 7 * 86_400)

    desk.deliver()

    assert desk.receiver.notices == []


def test_several_processes_send_each_message_once(desk: Desk) -> None:
    causes = ("no disk", "no network", "no memory")
    numbers = [desk.news(f"web{each}", reason=causes[each % 3]) for each in range(12)]

    run_in_threads(*[desk.deliver] * 4)

    numbers_sent = [
        host["id"]
        for received in desk.receiver.notices
        for host in received.data.get("hosts", [received.data])
    ]
    assert sorted(numbers_sent) == numbers


def test_dead_process_repeats_only_messages_in_progress(desk: Desk) -> None:
    before, after = desk.news("web1"), desk.news("web2")
    with desk.collector.database.changing() as connection:  # the state that a killed process leaves
        store.address(connection, {"webhook": DestinationFilter()}, NOW)
        connection.execute(
            update(deliveries)
            .where(deliveries.c.notice_id == before)
            .values(tries=1, next_at=NOW + LEASE_SECONDS)
        )

    desk.deliver()
    assert desk.receiver.ids == [f"notice_{after}"]
    desk.now += LEASE_SECONDS + 1
    desk.deliver()

    assert desk.receiver.ids == [f"notice_{after}", f"notice_{before}"]


def test_serving_collector_sends_a_failure(tmp_path: Path) -> None:
    with receive_notices() as receiver:
        settings = make_collector_settings(tmp_path, webhook=receiver.url, webhook_secret=SECRET)
        with run_collector(settings) as server:
            server.client("host", "web1").step("web1", "Disk setup", "failed", logs="no disk")
            receiver.wait_for(1)

    notice = receiver.notices[-1]
    assert (notice.data["host"], notice.data["verdict"]) == ("web1", "failed")


@pytest.mark.slow
def test_killed_process_repeats_only_messages_in_progress(tmp_path: Path) -> None:
    with receive_notices() as receiver:
        settings = make_collector_settings(tmp_path, webhook=receiver.url)
        data = ("--data", settings.data)
        token = collector_command("token", "create", "admin", *data).out.strip()
        with process(settings, "--webhook", receiver.url) as running:
            admin = Client(running.url, token)
            admin.step("web1", "Disk setup", "failed")
            receiver.wait_for(1)
            wait_until_delivered(settings, 1)
            receiver.is_held.set()
            admin.step("web2", "Disk setup", "failed")
            receiver.wait_for(2)
            running.end(signal.SIGKILL)
        receiver.is_held.clear()
        receiver.release.set()
        on_its_way = receiver.ids[-1]
        with closing(Database(sqlite_url(settings.data))) as database, database.changing() as connection:
            connection.execute(
                update(deliveries).where(deliveries.c.tries > 0).values(next_at=case_of_lease())
            )
        with process(settings, "--webhook", receiver.url) as running:
            Client(running.url, token).step("web3", "Disk setup", "failed")
            receiver.wait_for(4)

    counts = Counter(receiver.ids)
    assert [news for news, times in counts.items() if times > 1] == [on_its_way]
    assert {counts.data["host"] for counts in receiver.notices} == {"web1", "web2", "web3"}


def case_of_lease() -> Any:
    """Return a value of `next_at` that makes waiting deliveries due now. Delivered ones stay delivered."""
    return case((deliveries.c.next_at.is_not(None), 0.0), else_=None)


def wait_until_delivered(settings: CollectorSettings, number: int) -> None:
    wanted = select(func.count()).where(deliveries.c.delivered_at.is_not(None))
    with closing(Database(sqlite_url(settings.data))) as database:
        while True:  # the time limit of the test ends it
            with database.reading() as connection:
                if connection.execute(wanted).scalar_one() >= number:
                    return
            time.sleep(0.01)


@given(tries=st.integers(1, notifying.MAX_TRIES - 1), chance=st.floats(0, 1), asked=st.floats(0, 1e9))
def test_retry_waits_are_seconds_to_an_hour(tries: int, chance: float, asked: float) -> None:
    wait = notifying.find_retry_delay(tries, chance, asked)

    assert wait is not None
    assert 2.5 <= wait <= 3600


def test_message_is_dropped_after_many_tries() -> None:
    assert notifying.find_retry_delay(notifying.MAX_TRIES, 0.5) is None


def test_secret_is_plain_text_or_whsec_base64() -> None:
    assert senders.parse_secret(b"plain text\n") == b"plain text"
    assert senders.parse_secret(b"whsec_" + base64.b64encode(SECRET) + b"\n") == SECRET
    with pytest.raises(ValueError, match="base64"):
        senders.parse_secret(b"whsec_%%%")
